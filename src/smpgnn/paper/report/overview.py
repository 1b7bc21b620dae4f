"""What SMP has reached, in a few lines: its mean over groups of columns beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from smpgnn.paper.experiments.table import Cell
from smpgnn.paper.report.collect import Report, TableReport
from smpgnn.paper.report.columns import column_groups


@dataclass(frozen=True)
class Best:
    """A row and its mean."""

    row: str
    mean: float


@dataclass(frozen=True)
class Line:
    """Means over those of the `of` columns that SMP has been trained for.

    The paper's is None where it lacks one of them, the best other row where none has them all.
    """

    report: TableReport
    columns: str
    trained: int
    of: int
    ours: Best
    paper: float | None
    other: Best | None


def overview(report: Report) -> list[Line]:
    """A line for each group of columns of the tables that say how good SMP is."""
    found = []
    for table in report.tables:
        if not table.table.ours:
            continue
        for name, cells in _groups(table):
            line = _line(table, name, cells)
            if line is not None:
                found.append(line)
    return found


def _groups(table: TableReport) -> list[tuple[str, tuple[Cell, ...]]]:
    if len(table.cells) <= 2:
        return [(cell.label, (cell,)) for cell in table.cells]
    return [(group.name, group.cells) for group in column_groups(table.cells)]


def _line(table: TableReport, name: str, cells: Sequence[Cell]) -> Line | None:
    ours = table.table.ours
    there = [cell for cell in cells if table.summary(ours, cell.name).records]
    if not there:
        return None
    mean = _mean(table, ours, there)
    assert mean is not None
    figures = [table.summary(ours, cell.name).paper for cell in there]
    known = [figure for figure in figures if figure is not None]
    others = [
        Best(row.name, one)
        for row in table.rows
        if row.name != ours and (one := _mean(table, row.name, there)) is not None
    ]
    sign = 1 if table.table.larger_is_better else -1
    return Line(
        report=table,
        columns=name,
        trained=len(there),
        of=len(cells),
        ours=Best(ours, mean),
        paper=fmean(known) if len(known) == len(there) else None,
        other=max(others, key=lambda best: sign * best.mean, default=None),
    )


def _mean(table: TableReport, row: str, cells: Sequence[Cell]) -> float | None:
    """The mean over columns, None where one is not there."""
    means = [table.summary(row, cell.name).mean for cell in cells]
    known = [mean for mean in means if mean is not None]
    return fmean(known) if len(known) == len(means) else None
