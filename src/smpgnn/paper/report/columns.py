"""Columns in groups: 'k=4, n=12' and 'k=4, n=20' stand under one head, k=4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from smpgnn.paper.experiments.table import Cell


@dataclass(frozen=True)
class Group:
    """Adjacent columns that share a part of their labels ('' if they share none)."""

    name: str
    heads: tuple[str, ...]
    cells: tuple[Cell, ...]


def column_groups(cells: Sequence[Cell]) -> tuple[Group, ...]:
    """Group columns with labels 'one, two' by the part that changes less often.

    Columns with other labels form one group.
    """
    parts = [cell.label.split(", ") for cell in cells]
    if all(len(part) == 2 for part in parts):
        runs = [len(list(groupby(part[place] for part in parts))) for place in (0, 1)]
        shared = runs.index(min(runs))
        if runs[shared] < len(cells):
            pairs = zip(parts, cells, strict=True)
            return tuple(
                _group(name, [(part[1 - shared], cell) for part, cell in found])
                for name, found in groupby(pairs, key=lambda pair: pair[0][shared])
            )
    return (_group("", [(cell.label, cell) for cell in cells]),)


def _group(name: str, columns: Sequence[tuple[str, Cell]]) -> Group:
    return Group(name, tuple(head for head, _ in columns), tuple(cell for _, cell in columns))
