"""Columns in groups: 'k=4, n=12' and 'k=4, n=20' stand under one head, k=4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from smpgnn.paper.experiments.table import Cell


@dataclass(frozen=True)
class Group:
    """Columns side by side that share a part of their labels ('' if they share none)."""

    name: str
    heads: tuple[str, ...]
    cells: tuple[Cell, ...]


def column_groups(cells: Sequence[Cell]) -> tuple[Group, ...]:
    """The columns by the part of 'one, two' that changes less often; else all in one group."""
    parts = [cell.label.split(", ") for cell in cells]
    if all(len(part) == 2 for part in parts):
        runs = [len(list(groupby(part[place] for part in parts))) for place in (0, 1)]
        shared = runs.index(min(runs))
        if runs[shared] < len(cells):
            return tuple(
                Group(
                    name,
                    tuple(part[1 - shared] for part, _ in several),
                    tuple(cell for _, cell in several),
                )
                for name, found in groupby(
                    zip(parts, cells, strict=True), key=lambda pair: pair[0][shared]
                )
                for several in [list(found)]
            )
    return (Group("", tuple(cell.label for cell in cells), tuple(cells)),)
