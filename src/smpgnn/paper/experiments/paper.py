"""The numbers of the paper's tables, as data (paper.json)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class PaperTable:
    """One table of the paper: its metric, its columns, and a line of figures a row.

    A figure that the paper does not give is None.
    """

    name: str
    metric: str
    columns: tuple[str, ...]
    rows: dict[str, tuple[Any, ...]]

    def figure(self, row: str, column: str) -> Any:
        """What the paper reports, None if nothing."""
        if row not in self.rows or column not in self.columns:
            return None
        return self.rows[row][self.columns.index(column)]


def column_name(value: Any) -> str:
    """A column as one text: [4, 12] is '4 12'."""
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


@lru_cache(maxsize=1)
def paper_tables() -> dict[str, PaperTable]:
    """All tables by name."""
    text = files("smpgnn.paper.experiments").joinpath("paper.json").read_text(encoding="utf-8")
    return {
        name: PaperTable(
            name=name,
            metric=content.get("metric", ""),
            columns=tuple(column_name(value) for value in content["columns"]),
            rows={row: tuple(figures) for row, figures in content["rows"].items()},
        )
        for name, content in json.loads(text).items()
    }
