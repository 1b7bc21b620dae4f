"""The tables of BREC: pairs of graphs that networks tell apart."""

from __future__ import annotations

from functools import partial

from smpgnn.data.brec_parts import BREC
from smpgnn.paper.experiments.table import Cell, Published, Row, Table, Training

SEEDS = tuple(range(100, 1001, 100))
_THREE = SEEDS[:3]
#: No graph of BREC has a larger diameter, so contexts of two marks are whole.
_RADIUS = {"context_radius": 20}
_DISTANCES = {"first_rows": ("distance",), **_RADIUS}


def _member(name: str, *terms: str, seeds: tuple[int, ...] = ()) -> Row:
    """SMP with distances in its first rows, and further terms."""
    return Row(name, "smp", {**_DISTANCES, "terms": terms}, seeds=seeds)


def _marks(hops: int, seeds: tuple[int, ...] = ()) -> Row:
    """SMP on rows described by two marks at most so many hops apart."""
    settings = {**_DISTANCES, "identifiers": "pairs", "pair_distance": hops}
    return Row(f"SMP, two marks at most {hops} apart", "smp", settings, seeds=seeds)


ROWS = (
    Row("GIN", "gin", seeds=_THREE),
    Row("PPGN", "ppgn", seeds=_THREE),
    Row("SMP", "smp"),
    _member("SMP, distances", seeds=_THREE),
    _member("SMP, inside (SSWL)", "inside"),
    _member("SMP, inside and folklore (local 2-FWL)", "inside", "folklore", seeds=_THREE),
    _member("SMP, product (2-FWL)", "product", seeds=_THREE),
    _marks(1),
    _marks(2, _THREE),
    _marks(3, _THREE),
)
_CELLS = tuple(
    Cell(name, f"{name} ({count})") for name, count in (*BREC.items(), ("all", sum(BREC.values())))
)

_table = partial(
    Table,
    metric="pairs told apart",
    measure="pairs",
    larger_is_better=True,
    digits=0,
    rows=ROWS,
    trainings=(Training("all", _CELLS, {}, "all"),),
    protocol="benchmark",
    ours="",
)

BREC_TABLES = (
    _table(
        name="brec",
        task="brec",
        title="Beyond the paper: pairs of graphs told apart after training (BREC)",
        seeds=SEEDS,
        published=(
            Published("PPGN", {"all": 233}),
            Published("SUN", {"all": 223}),
            Published("I²-GNN", {"all": 281}),
            Published("N²-GNN", {"all": 287}),
        ),
        note="The official protocol (RPC): for each pair a fresh network with 16 outputs, trained "
        "on 32 relabelled copies of both graphs; a pair is told apart if the statistic of the "
        "differences exceeds 72.34, less the pairs for which that of copies of one graph does "
        "(unreliable). A result counts only if it is reliable for all seeds. As in the official "
        "code, the statistic lacks the factor 32 of Hotelling's T². All rows of the family but the "
        "first start from the distance of j and i.",
    ),
    _table(
        name="brec_untrained",
        task="brec-untrained",
        title="Beyond the paper: pairs of graphs told apart with random weights, in float64 (BREC)",
        seeds=_THREE,
        note="Not the official protocol: networks with random weights, in float64 and without any "
        "training, get the same copies and the same test. This asks what the architecture can "
        "tell apart, not what it learns to.",
    ),
)
