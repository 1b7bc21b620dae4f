"""Numbers and short texts that the page and the Markdown share."""

from __future__ import annotations

from smpgnn.paper.report.collect import TableReport

LARGER_GRAPHS = "Larger graphs than in training"


def number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def signed(value: float, digits: int) -> str:
    """A number with its sign; what rounds to zero has none."""
    text = f"{abs(value):.{digits}f}"
    if float(text) == 0:
        return text
    return ("+" if value > 0 else "−") + text


def sentence(text: str) -> str:
    """The text with a capital at its start."""
    return text[0].upper() + text[1:]


def seeds_text(report: TableReport) -> str:
    """How many seeds the cells have."""
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
    """Which rows are not trained yet; '' if none."""
    return f"Not trained yet: {'; '.join(report.missing)}." if report.missing else ""
