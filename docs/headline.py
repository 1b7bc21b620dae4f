"""The one table of the README: SMP, SMP in the paper, and the best other network, by task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from smpgnn.paper.report.collect import Report, TableReport
from smpgnn.paper.report.words import number

Reduce = Callable[[Sequence[float]], float]


def row_value(table: TableReport, row: str, cells: Sequence[str], reduce: Reduce) -> float | None:
    """One number for a row; None unless all cells are trained."""
    means = [table.summary(row, cell).mean for cell in cells]
    known = [mean for mean in means if mean is not None]
    return reduce(known) if len(known) == len(means) else None


def line(
    table: TableReport, title: str, cells: Sequence[str], reduce: Reduce, digits: int, best: Reduce
) -> str:
    """A line of the table; `best` is `max` or `min` over the other networks."""
    ours = row_value(table, "SMP", cells, reduce)
    printed = [table.summary("SMP", cell).paper for cell in cells]
    paper = reduce([value for value in printed if value is not None])
    names = [row.name for row in table.rows if not row.name.endswith("SMP")]
    values = {name: row_value(table, name, cells, reduce) for name in names}
    known = {name: value for name, value in values.items() if value is not None}
    assert ours is not None, f"{title}: not all cells of SMP are trained"
    top = best(list(known.values()))
    name = next(name for name, value in known.items() if value == top)
    shown = [number(ours, digits), number(paper, digits), f"{number(top, digits)} ({name})"]
    return f"| {title} | {' | '.join(shown)} |"


def headline(report: Report) -> str:
    tables = {table.table.name: table for table in report.tables}
    cycles, larger = tables["cycle_detection"], tables["cycle_generalization"]
    all_cells = [cell.name for cell in cycles.cells]
    out = [cell.name for cell in larger.cells if cell.name.startswith("out ")]
    cell = "with edge features"
    local = tables["zinc_beyond"]
    mean = local.summary(local.table.ours, cell).mean
    assert mean is not None
    lines = [
        "| test results | SMP | SMP in the paper | best other network |",
        "|---|---|---|---|",
        line(cycles, f"cycles: the lowest accuracy of {len(all_cells)} cells (%)", all_cells, min,
             1, max),
        line(larger, "cycles in larger graphs than in training: mean accuracy (%)", out, fmean, 1,
             max),
        line(tables["graph_properties"], "six properties of graphs: log10 MSE", ["average"], fmean,
             2, min),
        line(tables["zinc"], "ZINC-12k: MAE", [cell], fmean, 3, min),
        f"| ZINC-12k, local contexts (not in the paper): MAE | {number(mean, 3)} | — | — |",
    ]  # fmt: skip
    return "\n".join(lines)
