"""The tables of counting: cycles and chordal cycles, in graphs and through nodes."""

from __future__ import annotations

from functools import partial

from smpgnn.paper.experiments.table import Cell, Published, Row, Table, Training

_MARKS = {"identifiers": "pairs", "context_radius": 100, "pair_distance": 1}
_ROWS = (
    Row("GIN", "gin"),
    Row("PPGN", "ppgn"),
    Row("SMP", "smp"),
    Row("SMP, inside (SSWL)", "smp", {"terms": ("inside",)}),
    Row("SMP, inside and folklore (local 2-FWL)", "smp", {"terms": ("inside", "folklore")}),
    Row("SMP, product (2-FWL)", "smp", {"terms": ("product",)}),
    Row("SMP, two marks at most 1 apart", "smp", _MARKS),
)
_LABELS = {
    **{f"cycle{k}": f"{k}-cycles" for k in range(3, 9)},
    "chordal4": "chordal 4-cycles",
    "chordal5": "chordal 5-cycles",
}


def _counts(level: str, names: tuple[str, ...]) -> tuple[Training, ...]:
    return tuple(
        Training(name, (Cell(name, _LABELS[name]),), {"substructure": name, "level": level}, name)
        for name in names
    )


def _published(name: str, *values: float) -> Published:
    """Values of the first columns, in the order of the published tables."""
    order = ("cycle3", "cycle4", "cycle5", "cycle6", "chordal4", "chordal5")
    return Published(name, dict(zip(order, values, strict=False)))


_table = partial(
    Table,
    task="counting",
    metric="test MAE",
    measure="mae",
    larger_is_better=False,
    digits=4,
    rows=_ROWS,
    protocol="benchmark",
    seeds=(0, 1, 2, 3),
    ours="",
)

COUNTING = (
    _table(
        name="counting_graphs",
        title="Beyond the paper: counting cycles and chordal cycles in graphs",
        trainings=_counts("graph", tuple(_LABELS)),
        published=(
            _published("local 2-GNN", 0.009, 0.011, 0.017, 0.034, 0.007, 0.016),
            _published("local 2-FGNN", 0.003, 0.004, 0.010, 0.020, 0.003, 0.010),
        ),
        note="Counts as subgraphs, divided by their standard deviation over all graphs. 5 layers, "
        "no norm, 1,200 epochs, weights of the last one (protocol of Zhang et al., 2024). No "
        "published table has 7- and 8-cycles.",
    ),
    _table(
        name="counting_nodes",
        title="Beyond the paper: counting the cycles through each node",
        trainings=_counts("node", tuple(name for name in _LABELS if name.startswith("cycle"))),
        published=(
            _published("I²-GNN", 0.0003, 0.0016, 0.0028, 0.0082),
            _published("CoSp-PPGN", 0.0004, 0.0007, 0.0032, 0.0056),
        ),
        note="Counts less their mean and divided by their standard deviation over the nodes of "
        "training and validation graphs; training as for counts of graphs.",
    ),
)
