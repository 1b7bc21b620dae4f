"""The tables and charts as Markdown, for the documentation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from smpgnn.paper.report.charts import Chart
from smpgnn.paper.report.collect import LossReport, Report, Summary, TableReport
from smpgnn.paper.report.curves import SIZE_UNIT, loss_charts, size_charts
from smpgnn.paper.report.markdown_table import table_lines
from smpgnn.paper.report.words import (
    LARGER_GRAPHS,
    missing_text,
    number,
    seeds_text,
    sentence,
    signed,
)

#: The folder of the charts, relative to the Markdown file, and the chart of larger graphs.
FIGURES = "figures"
EXTRAPOLATION = "extrapolation.svg"
_OVERFLOW = "overflow"


def markdown(report: Report) -> str:
    """All tables with records. A cell reads 'ours ± spread (paper, difference)'."""
    lines = ["# Results", ""]
    lines += [
        "Built by `smpgnn paper report` from the records in `results/`; nothing is typed by hand.",
        "A cell reads: ours ± standard deviation over the seeds (paper, difference).",
    ]
    for text in report.protocol_texts:
        lines += ["", text]
    full = [table for table in (*report.of_the_paper, *report.beyond) if table.records]
    for table in full:
        lines += ["", f"## {table.table.title}", "", *_table(table), "", *_costs(table)]
        lines += _larger_graphs(table)
    for losses in report.losses:
        lines += ["", f"## {losses.selection.title}", "", *_losses(losses)]
    if not full:
        lines += ["", "There are no records of full runs yet."]
    if report.reduced:
        lines += ["", "## Reduced runs", ""]
        lines += ["Made with fewer epochs or graphs than the tables ask for: not comparable."]
        for table in report.reduced:
            lines += ["", f"### {table.table.title}", "", *_table(table)]
    return "\n".join(lines) + "\n"


def figures(report: Report) -> dict[str, Chart]:
    """The charts that the Markdown shows, by file name."""
    larger = [chart for table in report.tables for chart in size_charts(table)]
    charts = {EXTRAPOLATION: larger[0]} if larger else {}
    for losses in report.losses:
        charts |= loss_charts(losses)
    return charts


def cell_text(summary: Summary, digits: int) -> str:
    """One cell on one line."""
    ours = "—"
    if summary.mean is not None:
        ours = number(summary.mean, digits)
        if summary.spread is not None:
            ours += f" ± {summary.spread:.{digits}f}"
    if summary.paper is None:
        return ours
    paper = number(summary.paper, digits)
    if summary.difference is None:
        return f"{ours} ({paper})"
    return f"{ours} ({paper}, {signed(summary.difference, digits)})"


def _table(report: TableReport) -> list[str]:
    table = report.table
    head = f"{table.metric}; protocol {', '.join(report.protocols)}; {seeds_text(report)}."
    words = [sentence(head), table.note]
    if not report.reduced:
        words.append(missing_text(report))
    rows = []
    for row in report.rows:
        cells = [cell_text(report.summary(row.name, c.name), table.digits) for c in report.cells]
        rows.append([row.name, *cells])
    text = " ".join(word for word in words if word)
    return [text, "", *table_lines(["", *_heads(report)], rows)]


def _heads(report: TableReport) -> list[str]:
    """The heads of the columns; only the first of a group names the group."""
    heads = []
    for group in report.groups:
        first, *rest = group.heads
        heads += [f"{group.name}: {first}" if group.name else first, *rest]
    return heads


def _costs(report: TableReport) -> list[str]:
    """One line per row, with the range over its trainings."""
    rows = []
    for row in report.rows:
        records = [record for record in report.runs if record.row == row.name]
        if not records:
            continue
        memory = _range([r.peak_memory_mib for r in records], ",.0f")
        kinds = ", ".join(sorted({record.memory_of for record in records}))
        devices = ", ".join(sorted({record.device for record in records}))
        rows.append(
            [
                row.name,
                str(len(records)),
                _range([r.parameters for r in records], ",.0f"),
                _range([r.epochs for r in records], ".0f"),
                _range([r.seconds_per_epoch for r in records], ".3g"),
                f"{memory} ({kinds})",
                f"{devices}, {_range([r.jobs for r in records], '.0f')} at a time",
            ]
        )
    heads = ["", "trainings", "parameters", "epochs", "time an epoch (s)"]
    return table_lines([*heads, "peak memory (MiB)", "device"], rows)


def _range(values: Sequence[float], how: str) -> str:
    """From the lowest to the highest; one number if they read alike."""
    low, high = format(min(values), how), format(max(values), how)
    return low if low == high else f"{low}–{high}"


def _larger_graphs(report: TableReport) -> list[str]:
    """The chart, and a table of the first column by graph size."""
    cells = report.cells[:1]
    found = {
        row.name: values
        for cell in cells
        for row in report.own_rows
        if (values := report.summary(row.name, cell.name).by_size)
    }
    if not found:
        return []
    first = next(iter(found.values()))[0]
    sizes = [f"{low}–{high} nodes" for low, high in zip(first.least, first.most, strict=True)]
    rows = []
    for name, several in found.items():
        means = [fmean(values) for values in zip(*(one.value for one in several), strict=True)]
        rows.append([name, *(_finite(mean, report.table.digits) for mean in means)])
    chart = f"![{LARGER_GRAPHS}: {SIZE_UNIT} by nodes]({FIGURES}/{EXTRAPOLATION})"
    lines = ["", f"### {LARGER_GRAPHS}", "", chart, ""]
    lines += table_lines([f"{SIZE_UNIT}, {cells[0].label}", *sizes], rows)
    if any(_OVERFLOW in row for row in rows):
        lines += [
            "",
            f"{_OVERFLOW}: with one of the seeds at least, a graph of this size takes the network "
            "beyond the range of float32.",
        ]
    return lines


def _finite(mean: float, digits: int) -> str:
    return number(mean, digits) if math.isfinite(mean) else _OVERFLOW


def _losses(losses: LossReport) -> list[str]:
    """The charts, and a table of the time per epoch."""

    def time(row: str, cell: str) -> str:
        records = losses.records(row, cell)
        if not records:
            return "—"
        return f"{losses.seconds_per_epoch(row, cell):.3g} s ({records[0].jobs} at a time)"

    chosen = losses.selection
    rows = [[row, *(time(row, cell) for cell in chosen.cells)] for row in chosen.rows]
    return [
        "The paper's figure of training losses, from the records of Table 1a. Under it the time of "
        "an epoch, while so many trainings shared the machine.",
        "",
        *(f"![Training loss]({FIGURES}/{name})" for name in loss_charts(losses)),
        "",
        *table_lines(["time an epoch", *losses.heads], rows),
    ]
