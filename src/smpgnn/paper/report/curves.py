"""The figures of the report: training curves of the records, scaling of the benchmarks."""

from __future__ import annotations

from collections.abc import Sequence

from smpgnn.paper.experiments.records import Record
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.paper.report.collect import Scaling, TableReport, training_label
from smpgnn.paper.report.figures import COLOURS, LOOKS, Series, line_chart

_POINTS = 120  # of a line on the page


def _styles() -> dict[str, int]:
    """A style for each method, the same on the whole page.

    In a table no two share a colour, or, where it has more rows than there are colours, a colour
    and a dash.
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


def mean_curve(name: str, records: Sequence[Record], what: str, style: int) -> Series:
    """The mean over the seeds of 'validation' or 'train_loss', and the range as a band.

    Where the seeds stopped at different epochs, as far as the shortest goes.
    """
    curves = [dict(zip(r.curves.epoch, getattr(r.curves, what), strict=True)) for r in records]
    epochs = sorted(set.intersection(*(set(curve) for curve in curves)))
    step = max(1, -(-len(epochs) // _POINTS))
    epochs = epochs[::-1][::step][::-1]
    values = [[curve[epoch] for curve in curves] for epoch in epochs]
    several = len(records) > 1
    return Series(
        name=name,
        x=tuple(epochs),
        y=tuple(sum(v) / len(v) for v in values),
        style=style,
        low=tuple(min(v) for v in values) if several else (),
        high=tuple(max(v) for v in values) if several else (),
    )


def validation_figures(report: TableReport) -> list[str]:
    """One chart for each training of the table: the validation metric of all rows."""
    table = report.table
    unit = "accuracy (%)" if table.larger_is_better else table.metric.removeprefix("test ")
    unit = {"log10 test MSE, lower is better": "log10 MSE"}.get(unit, unit)
    charts = []
    for training in table.trainings:
        series = [
            mean_curve(row.name, records, "validation", STYLES[row.name])
            for row in table.rows
            if (records := report.summary(row.name, training.cells[0].name).records)
        ]
        label = training_label(table, training)
        charts.append(line_chart(label, "epoch", f"validation {unit}", series))
    return [chart for chart in charts if chart]


def scaling_figures(scaling: Scaling) -> list[str]:
    """Time and memory over the number of nodes, both logarithmic."""
    charts = []
    for key, label in (("ms", "time (ms)"), ("mib", "memory (MiB)")):
        series = []
        for style, method in enumerate(scaling.methods):
            there = [p for p in method.points if "nodes" in p and p.get(key) is not None]
            xs, ys = tuple(float(p["nodes"]) for p in there), tuple(float(p[key]) for p in there)
            series.append(Series(method.name, xs, ys, style))
        charts.append(line_chart(label, "nodes", label, series, log_x=True, log_y=True))
    return [chart for chart in charts if chart]
