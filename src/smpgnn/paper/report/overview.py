"""A summary of what SMP reaches: its mean over groups of columns, beside the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from smpgnn.paper.experiments.table import Cell
from smpgnn.paper.report.collect import Best, Report, TableReport


@dataclass(frozen=True)
class Line:
    """Means over the columns that SMP has been trained for, `trained` out of `of`.

    `paper` is None if the paper lacks one of them, `other` if no other row has them all.
    """

    report: TableReport
    columns: str
    trained: int
    of: int
    ours: Best
    paper: float | None
    other: Best | None

    @property
    def name(self) -> str:
        """Table and columns: 'Table 1a, k=4'."""
        table = self.report.table
        start = table.title.partition(": ")[0]
        name = start if start.startswith("Table") else table.name.replace("_", " ")
        return f"{name}, {self.columns}" if self.columns else name

    @property
    def about(self) -> str:
        """Metric and task."""
        table = self.report.table
        metric = table.metric.partition(", ")[0]
        better = "" if table.larger_is_better else ", lower is better"
        return f"{metric}{better}: {table.title.partition(': ')[2]}"


def overview(report: Report) -> list[Line]:
    """One line per group of columns of every table with a row that stands for SMP."""
    lines = (
        _line(table, name, cells)
        for table in report.tables
        if table.table.ours
        for name, cells in _groups(table)
    )
    return [line for line in lines if line is not None]


def _groups(table: TableReport) -> list[tuple[str, tuple[Cell, ...]]]:
    if len(table.cells) <= 2:
        return [(cell.label, (cell,)) for cell in table.cells]
    return table.groups


def _line(table: TableReport, name: str, cells: Sequence[Cell]) -> Line | None:
    ours = table.table.ours
    there = [cell.name for cell in cells if table.summary(ours, cell.name).records]
    mean = table.over(ours, there)
    if mean is None:
        return None
    return Line(
        report=table,
        columns=name,
        trained=len(there),
        of=len(cells),
        ours=Best(ours, mean),
        paper=table.over(ours, there, what="paper"),
        other=table.best_of((row.name for row in table.rows if row.name != ours), there),
    )
