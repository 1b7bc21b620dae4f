"""The paper's figure of training losses: a chart a cell, and the time of an epoch beside it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from smpgnn.files import file_name
from smpgnn.paper.experiments.table import Selection
from smpgnn.paper.experiments.tables import SELECTIONS
from smpgnn.paper.report.collect import Report, TableReport
from smpgnn.paper.report.curves import STYLES, mean_curve
from smpgnn.paper.report.figures import line_chart
from smpgnn.paper.report.markdown_table import table_lines

TEXT = (
    "The paper's figure of training losses, from the records of Table 1a. Under it the time of an "
    "epoch, while so many trainings shared the machine."
)


@dataclass(frozen=True)
class EpochTime:
    """Seconds of an epoch, the mean over the seeds, with so many trainings at a time."""

    seconds: float
    jobs: int


def selections(report: Report) -> Iterator[tuple[Selection, TableReport]]:
    """Each figure of losses that has records, and the table that they are in."""
    tables = {table.table.name: table for table in report.tables}
    for selection in SELECTIONS.values():
        table = tables[selection.table]
        if any(
            table.summary(row, cell).records for row in selection.rows for cell in selection.cells
        ):
            yield selection, table


def loss_figures(selection: Selection, report: TableReport) -> dict[str, str]:
    """The training loss of the rows of a selection, a chart a cell, by the name of a file."""
    labels = cell_labels(report)
    charts = {
        f"loss-{file_name(cell)}.svg": line_chart(
            labels[cell],
            "epoch",
            "training NLL (nat)",
            [
                mean_curve(row, records, "train_loss", STYLES[row])
                for row in selection.rows
                if (records := report.summary(row, cell).records)
            ],
            log_y=True,
        )
        for cell in selection.cells
    }
    return {name: chart for name, chart in charts.items() if chart}


def epoch_times(selection: Selection, report: TableReport) -> dict[str, list[EpochTime | None]]:
    """For each row of a selection the time of an epoch in each cell; None: not trained."""
    return {row: [_time(report, row, cell) for cell in selection.cells] for row in selection.rows}


def loss_lines(selection: Selection, report: TableReport, folder: str) -> list[str]:
    """Charts that lie in a folder, and the times, as Markdown."""
    labels = cell_labels(report)
    lines = [TEXT, ""]
    lines += [f"![Training loss]({folder}/{name})" for name in loss_figures(selection, report)]
    rows = []
    for row, times in epoch_times(selection, report).items():
        shown = ["—" if t is None else f"{t.seconds:.3g} s ({t.jobs} at a time)" for t in times]
        rows.append([row, *shown])
    heads = ["time an epoch", *(labels[cell] for cell in selection.cells)]
    return [*lines, "", *table_lines(heads, rows)]


def cell_labels(report: TableReport) -> dict[str, str]:
    return {cell.name: cell.label for cell in report.table.cells}


def _time(report: TableReport, row: str, cell: str) -> EpochTime | None:
    records = report.summary(row, cell).records
    if not records:
        return None
    return EpochTime(fmean(r.seconds_per_epoch for r in records), records[0].jobs)
