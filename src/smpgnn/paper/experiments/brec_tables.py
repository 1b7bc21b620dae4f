"""The tables of BREC: pairs of graphs that networks tell apart."""

from __future__ import annotations

from functools import partial

from smpgnn.data.categories import BREC
from smpgnn.paper.experiments.table import Cell, Published, Row, Table, Training

SEEDS = tuple(range(100, 1001, 100))
_THREE = SEEDS[:3]
#: Whole contexts of two marks: no graph of BREC has a larger diameter.
_MARKS = {"identifiers": "pairs", "context_radius": 100}
ROWS = (
    Row("GIN", "gin", seeds=_THREE),
    Row("PPGN", "ppgn", seeds=_THREE),
    Row("SMP", "smp"),
    Row("SMP, inside (SSWL)", "smp", {"terms": ("inside",)}),
    Row("SMP, inside and folklore (local 2-FWL)", "smp", {"terms": ("inside", "folklore")},
        seeds=_THREE),
    Row("SMP, product (2-FWL)", "smp", {"terms": ("product",)}, seeds=_THREE),
    Row("SMP, two marks at most 1 apart", "smp", {**_MARKS, "pair_distance": 1}),
    Row("SMP, two marks at most 2 apart", "smp", {**_MARKS, "pair_distance": 2}, seeds=_THREE),
    Row("SMP, two marks at most 3 apart", "smp", {**_MARKS, "pair_distance": 3}, seeds=_THREE),
)  # fmt: skip
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
        "code, the statistic lacks the factor 32 of Hotelling's T².",
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
