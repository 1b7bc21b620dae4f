"""The tables as Markdown, for the documentation."""

from __future__ import annotations

from statistics import fmean

from smpgnn.report.collect import Report, Summary, TableReport
from smpgnn.report.extrapolation import TITLE as LARGER
from smpgnn.report.extrapolation import UNIT, extrapolation_lines


def signed(value: float, digits: int) -> str:
    """A number with its sign; what rounds to zero has none."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return ("+" if value > 0 else "−") + text


def number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


#: Where the figure of larger graphs is, seen from the Markdown file.
FIGURE = "figures/extrapolation.svg"


def markdown(report: Report) -> str:
    """All tables that have records, each cell as 'ours ± spread (paper, difference)'."""
    lines = ["# Results", ""]
    lines += [
        "Built by `smpgnn report` from the records in `results/`; nothing here is typed by hand.",
        "A cell reads: ours ± standard deviation over the seeds (paper, difference).",
    ]
    full = [table for table in report.tables if table.records]
    for table in full:
        lines += ["", f"## {table.table.title}", "", *_table(table), "", *_costs(table)]
        larger = extrapolation_lines(table, table.table.digits)
        if larger:
            lines += ["", f"### {LARGER}", "", f"![{LARGER}: {UNIT} by nodes]({FIGURE})", ""]
            lines += larger
    if not full:
        lines += ["", "There are no records of full runs yet."]
    if report.reduced:
        lines += ["", "## Reduced runs", ""]
        lines += ["Made with fewer epochs or graphs than the tables ask for: not comparable."]
        for table in report.reduced:
            lines += ["", f"### {table.table.title}", "", *_table(table)]
    return "\n".join(lines) + "\n"


def cell_text(summary: Summary, digits: int) -> str:
    """One cell in a line."""
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


def seeds_text(report: TableReport) -> str:
    """How many seeds the cells have, in words."""
    numbers = {
        len(report.summary(row.name, cell.name).records)
        for row in report.table.rows
        for cell in report.table.cells
    } - {0}
    if not numbers:
        return "no runs"
    low, high = min(numbers), max(numbers)
    return f"{low} seed{'s' if low > 1 else ''} a cell" if low == high else f"{low} to {high} seeds"


def _table(report: TableReport) -> list[str]:
    table = report.table
    head = f"{table.metric}; protocol {', '.join(report.protocols)}; {seeds_text(report)}."
    lines = [f"{head[0].upper()}{head[1:]} {table.note}".strip(), ""]
    lines.append("| | " + " | ".join(cell.label for cell in report.cells) + " |")
    lines.append("|---" * (1 + len(report.cells)) + "|")
    for row in report.rows:
        cells = [cell_text(report.summary(row.name, c.name), table.digits) for c in report.cells]
        lines.append(f"| {row.name} | " + " | ".join(cells) + " |")
    return lines


def _costs(report: TableReport) -> list[str]:
    lines = [
        "| | trained for | parameters | epochs | time a run (s) | time an epoch (s) "
        "| peak memory (MiB) | device |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row, label, records in report.trainings:
        first = records[0]
        device = f"{first.device}, {first.jobs} at a time"
        lines.append(
            f"| {row} | {label} | {first.parameters:,} | {fmean(r.epochs for r in records):.0f} "
            f"| {fmean(r.wall_time_s for r in records):.0f} "
            f"| {fmean(r.seconds_per_epoch for r in records):.3g} "
            f"| {max(r.peak_memory_mib for r in records):.0f} ({first.memory_of}) | {device} |"
        )
    return lines
