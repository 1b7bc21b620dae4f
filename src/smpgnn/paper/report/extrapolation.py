"""How values go on with graphs larger than those of training: a chart a column, and a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from smpgnn.paper.experiments.records import BySize, Record
from smpgnn.paper.experiments.table import Row
from smpgnn.paper.report.collect import TableReport
from smpgnn.paper.report.curves import STYLES
from smpgnn.paper.report.figures import Series, line_chart
from smpgnn.paper.report.markdown_table import table_lines

UNIT = "log10 MSE"
TITLE = "Larger graphs than in training"


def extrapolation_figures(report: TableReport) -> list[str]:
    """One chart for each column that has values by size: all rows, over the number of nodes."""
    charts = []
    for cell in report.cells:
        series = [
            _line(row.name, found)
            for row in _own_rows(report)
            if (found := _curves(report.summary(row.name, cell.name).records))
        ]
        charts.append(line_chart(cell.label, "nodes (mean of five sizes)", UNIT, series))
    return [chart for chart in charts if chart]


def extrapolation_lines(report: TableReport, digits: int) -> list[str]:
    """The first column as Markdown: a line a row, a column for each range of sizes."""
    if not report.cells:
        return []
    cell = report.cells[0]
    found = {
        row.name: curves
        for row in _own_rows(report)
        if (curves := _curves(report.summary(row.name, cell.name).records))
    }
    if not found:
        return []
    first = next(iter(found.values()))[0]
    ranges = [f"{low}–{high} nodes" for low, high in zip(first.least, first.most, strict=True)]
    rows = []
    for name, curves in found.items():
        means = [fmean(values) for values in zip(*(c.value for c in curves), strict=True)]
        shown = [_shown(mean, digits) for mean in means]
        rows.append([name, *shown])
    lines = table_lines([f"{UNIT}, {cell.label}", *ranges], rows)
    if any(_OVERFLOW in line for line in lines):
        lines += [
            "",
            f"{_OVERFLOW}: with one of the seeds at least, a graph of this size takes the network "
            "beyond the range of float32.",
        ]
    return lines


_OVERFLOW = "overflow"


def _own_rows(report: TableReport) -> list[Row]:
    """The rows trained for this table: one of another table has its values shown there."""
    return [row for row in report.rows if not row.of]


def _shown(mean: float, digits: int) -> str:
    return f"{mean:.{digits}f}".replace("-", "−") if math.isfinite(mean) else _OVERFLOW


def _curves(records: Sequence[Record]) -> list[BySize]:
    return [record.by_size for record in records if record.by_size is not None]


def _line(name: str, curves: Sequence[BySize]) -> Series:
    """The mean over the seeds, and their range as a band."""
    first = curves[0]
    values = list(zip(*(curve.value for curve in curves), strict=True))
    several = len(curves) > 1
    return Series(
        name=name,
        x=tuple((low + high) / 2 for low, high in zip(first.least, first.most, strict=True)),
        y=tuple(fmean(v) for v in values),
        style=STYLES[name],
        low=tuple(min(v) for v in values) if several else (),
        high=tuple(max(v) for v in values) if several else (),
    )
