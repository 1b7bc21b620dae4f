"""The charts of the report: training curves, larger graphs, and scaling."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from smpgnn.files import file_name
from smpgnn.pages.charts import COLOURS, LOOKS, Chart, Series
from smpgnn.paper.experiments.records import Record
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.paper.report.benchmarks import Scaling
from smpgnn.paper.report.collect import Report, TableReport

SIZE_UNIT = "log10 MSE"
EXTRAPOLATION = "extrapolation.svg"
_POINTS = 120  # of a line on the page


def _styles() -> dict[str, int]:
    """A style for each method, the same on the whole page.

    Methods of one table differ in colour or, if there are more than colours, in colour and dash.
    """
    styles = {"SMP": COLOURS - 1}  # the last colour, as a solid line
    for table in TABLES.values():
        for row in table.rows:
            taken = [styles[other.name] for other in table.rows if other.name in styles]
            colours = {style % COLOURS for style in taken}
            if row.name not in styles:
                fresh = [s for s in range(COLOURS) if s not in colours]
                fresh += [s for s in range(LOOKS) if s not in taken]
                styles[row.name] = fresh[0]
    return styles


STYLES = _styles()


def validation_charts(report: TableReport) -> list[Chart]:
    """The validation metric of all rows, one chart per training of the table."""
    table = report.table
    unit = "accuracy (%)" if table.larger_is_better else table.metric.removeprefix("test ")
    unit = {"log10 test MSE, lower is better": "log10 MSE"}.get(unit, unit)
    charts, rows = [], [row.name for row in table.rows]
    for training in table.trainings:
        series = _curves(report, rows, training.cells[0].name, "validation")
        charts.append(Chart(training.label, "epoch", f"validation {unit}", series))
    return _with_data(charts)


def loss_charts(report: TableReport) -> dict[str, Chart]:
    """The training losses of a selection, one chart per cell, by file name."""
    charts, rows = {}, [row.name for row in report.table.rows]
    for cell in report.cells:
        series = _curves(report, rows, cell.name, "train_loss")
        chart = Chart(cell.label, "epoch", "training NLL (nat)", series, log_y=True)
        charts[f"loss-{file_name(cell.name)}.svg"] = chart
    return {name: chart for name, chart in charts.items() if chart.drawable}


def size_charts(report: TableReport) -> list[Chart]:
    """The values on larger graphs than in training, one chart per column that has any."""
    charts = []
    for cell in report.cells:
        series = []
        for row in report.own_rows:
            found = report.summary(row.name, cell.name).by_size
            if found:
                sizes = zip(found[0].least, found[0].most, strict=True)
                nodes = [(low + high) / 2 for low, high in sizes]
                values = list(zip(*(one.value for one in found), strict=True))
                series.append(_over_seeds(row.name, nodes, values))
        charts.append(Chart(cell.label, "nodes (mean of five sizes)", SIZE_UNIT, tuple(series)))
    return _with_data(charts)


def scaling_charts(scaling: Scaling) -> list[Chart]:
    """Time and memory over the number of nodes, with logarithmic axes."""
    charts = []
    for key, label in (("ms", "time (ms)"), ("mib", "memory (MiB)")):
        series = []
        for style, method in enumerate(scaling.methods):
            there = [p for p in method.points if "nodes" in p and p.get(key) is not None]
            nodes, values = [p["nodes"] for p in there], [[p[key]] for p in there]
            series.append(_over_seeds(method.name, nodes, values, style))
        charts.append(Chart(label, "nodes", label, tuple(series), log_x=True, log_y=True))
    return _with_data(charts)


def figures(report: Report) -> dict[str, Chart]:
    """The charts that the Markdown shows, by file name."""
    larger = [chart for table in report.tables for chart in size_charts(table)]
    charts = {EXTRAPOLATION: larger[0]} if larger else {}
    for losses in report.losses:
        charts |= loss_charts(losses)
    return charts


def _curves(report: TableReport, rows: Iterable[str], cell: str, what: str) -> tuple[Series, ...]:
    found = {row: report.summary(row, cell).records for row in rows}
    return tuple(mean_curve(row, records, what) for row, records in found.items() if records)


def mean_curve(name: str, records: Sequence[Record], what: str) -> Series:
    """'validation' or 'train_loss' over the epochs that all seeds have."""
    curves = [dict(zip(r.curves.epoch, getattr(r.curves, what), strict=True)) for r in records]
    epochs = sorted(set.intersection(*(set(curve) for curve in curves)))
    step = max(1, -(-len(epochs) // _POINTS))
    epochs = epochs[::-1][::step][::-1]
    return _over_seeds(name, epochs, [[curve[epoch] for curve in curves] for epoch in epochs])


def _over_seeds(
    name: str, x: Sequence[float], values: Sequence[Sequence[float]], style: int | None = None
) -> Series:
    """The mean over the seeds, with a band from the lowest to the highest."""
    points = ((float(at), fmean(v), min(v), max(v)) for at, v in zip(x, values, strict=True))
    return Series(name, STYLES[name] if style is None else style, tuple(points))


def _with_data(charts: Iterable[Chart]) -> list[Chart]:
    return [chart for chart in charts if chart.drawable]
