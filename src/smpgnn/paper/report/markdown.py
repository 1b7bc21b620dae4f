"""The tables as Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Sequence

from smpgnn.paper.report.collect import Report, Summary, TableReport
from smpgnn.paper.report.columns import column_groups
from smpgnn.paper.report.extrapolation import TITLE as LARGER
from smpgnn.paper.report.extrapolation import UNIT, extrapolation_lines
from smpgnn.paper.report.losses import loss_lines, selections
from smpgnn.paper.report.markdown_table import table_lines


def signed(value: float, digits: int) -> str:
    """A number with its sign; what rounds to zero has none."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return ("+" if value > 0 else "−") + text


def number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


#: The folder of the figures, seen from the Markdown file, and the one of larger graphs there.
FIGURES = "figures"
EXTRAPOLATION = "extrapolation.svg"


def markdown(report: Report) -> str:
    """All tables that have records, each cell as 'ours ± spread (paper, difference)'."""
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
        larger = extrapolation_lines(table, table.table.digits)
        if larger:
            chart = f"{FIGURES}/{EXTRAPOLATION}"
            lines += ["", f"### {LARGER}", "", f"![{LARGER}: {UNIT} by nodes]({chart})", ""]
            lines += larger
    for selection, table in selections(report):
        lines += ["", f"## {selection.title}", "", *loss_lines(selection, table, FIGURES)]
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


def missing_text(report: TableReport) -> str:
    """Which rows are to come, in words; '' if none."""
    return f"Not trained yet: {'; '.join(report.missing)}." if report.missing else ""


def _table(report: TableReport) -> list[str]:
    table = report.table
    head = f"{table.metric}; protocol {', '.join(report.protocols)}; {seeds_text(report)}."
    words = [f"{head[0].upper()}{head[1:]}", table.note]
    if not report.reduced:
        words.append(missing_text(report))
    lines = [" ".join(word for word in words if word), ""]
    rows = []
    for row in report.rows:
        cells = [cell_text(report.summary(row.name, c.name), table.digits) for c in report.cells]
        rows.append([row.name, *cells])
    return lines + table_lines(["", *_heads(report)], rows)


def _heads(report: TableReport) -> list[str]:
    """The heads of the columns; what a group shares stands in its first alone."""
    heads = []
    for group in column_groups(report.cells):
        first, *rest = group.heads
        heads += [f"{group.name}: {first}" if group.name else first, *rest]
    return heads


def _costs(report: TableReport) -> list[str]:
    """A line a row: the range over its trainings."""
    head = (
        "",
        "trainings",
        "parameters",
        "epochs",
        "time an epoch (s)",
        "peak memory (MiB)",
        "device",
    )
    rows = []
    for row in report.rows:
        records = [r for name, _, several in report.trainings if name == row.name for r in several]
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
    return table_lines(head, rows)


def _range(values: Sequence[float], how: str) -> str:
    """From the lowest to the highest, one number where they read alike."""
    low, high = format(min(values), how), format(max(values), how)
    return low if low == high else f"{low}–{high}"
