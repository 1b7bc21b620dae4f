"""Tables of Markdown, whose cells read as they are whatever text they hold."""

from __future__ import annotations

import re
from collections.abc import Sequence


def table_lines(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; each cell is plain text."""
    return [_line(head), "|---" * len(head) + "|", *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return re.sub(r"^\|  \|", "| |", "| " + " | ".join(escaped(cell) for cell in cells) + " |")


def escaped(text: str) -> str:
    """Text in which nothing is taken for Markdown, HTML or the end of a cell; in one line."""
    text = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*|\[\]]|(?<!\w)_|_(?!\w))", r"\\\1", text)
