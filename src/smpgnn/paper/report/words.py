"""Numbers and names as text: the filters of the templates."""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import fmean

from markupsafe import Markup, escape

from smpgnn.pages.words import number
from smpgnn.paper.experiments.records import Record
from smpgnn.paper.report.collect import TableReport


def signed(value: float, digits: int) -> str:
    """A number with its sign; what rounds to zero has none."""
    text = number(abs(value), digits)
    return text if not text.strip("0.") else ("+" if value > 0 else "−") + text


def mean(records: Sequence[Record], field: str) -> float:
    """The mean of a field over records."""
    return fmean(getattr(record, field) for record in records)


def span(records: Sequence[Record], field: str, how: str) -> str:
    """A field from its lowest to its highest value; one number if they read alike."""
    values = [getattr(record, field) for record in records]
    low, high = format(min(values), how), format(max(values), how)
    return low if low == high else f"{low}–{high}"


def distinct(records: Sequence[Record], field: str) -> str:
    """The values of a text field."""
    return ", ".join(sorted({getattr(record, field) or "unknown" for record in records}))


def formula(text: str) -> Markup:
    """'n chi c^2' as HTML."""
    shown = str(escape(text or "—")).replace("chi", "χ")
    return Markup(re.sub(r"\^(\d)", r"<sup>\1</sup>", shown))


def plain(text: str) -> str:
    """Text that Markdown shows as it is, in one cell of a table."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*|\[\]]|(?<!\w)_|_(?!\w))", r"\\\1", text)


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
    if low < high:
        return f"{low} to {high} seeds"
    return f"{low} seed{'s' if low > 1 else ''} per cell"


def missing_text(report: TableReport) -> str:
    """Which rows are not trained yet; '' if none."""
    return f"Not trained yet: {'; '.join(report.missing)}." if report.missing else ""


def after_test_texts(report: TableReport) -> list[str]:
    """A sentence for each reason why rows were chosen when test values were known."""
    reasons: dict[str, list[str]] = {}
    for row, reason in report.after_test.items():
        reasons.setdefault(reason, []).append(row)
    return [
        f"† {'All rows' if len(rows) == len(report.rows) else '; '.join(rows)}: "
        f"chosen when test values were known: {reason}."
        for reason, rows in reasons.items()
    ]


FILTERS = (signed, mean, span, distinct, formula, plain, seeds_text, missing_text, after_test_texts)
