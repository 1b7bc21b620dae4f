"""What a table is: rows, cells, and which training answers which cells. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from smpgnn.paper.experiments.paper import column_name


@dataclass(frozen=True)
class Cell:
    """One column of a table; `value` is what the paper's data call it."""

    value: Any
    label: str

    @property
    def name(self) -> str:
        return column_name(self.value)


@dataclass(frozen=True)
class Row:
    """One method: its network and the settings that are its own.

    A row that another table has, too, names it in `of`: it is trained there, once, and shown here.
    """

    name: str
    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    of: str = ""


@dataclass(frozen=True)
class Training:
    """What is trained once for a row and a seed, and the cells that it answers.

    The learning rate is chosen at the training called `pilot`, which may be this one.
    """

    name: str
    cells: tuple[Cell, ...]
    settings: dict[str, Any]
    pilot: str


@dataclass(frozen=True)
class Table:
    """One table. `measure` says how its cells are measured, `digits` how they are shown.

    Where a protocol has no settings for a table, they are those for the table `like`. `ours` is the
    row that stands for SMP where results are summed up, '' where rows are parts of one method.
    """

    name: str
    title: str
    task: str
    metric: str
    measure: str
    larger_is_better: bool
    digits: int
    rows: tuple[Row, ...]
    trainings: tuple[Training, ...]
    note: str = ""
    like: str = ""
    ours: str = "SMP"

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells, in the order of the paper."""
        cells = [cell for training in self.trainings for cell in training.cells]
        if self.measure == "sizes":  # first all that are in distribution
            cells.sort(key=lambda cell: cell.name)
        return tuple(cells)

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def training(self, name: str) -> Training:
        return next(training for training in self.trainings if training.name == name)


@dataclass(frozen=True)
class Selection:
    """Some rows and cells of another table that make a figure of their own."""

    name: str
    title: str
    table: str
    rows: tuple[str, ...]
    cells: tuple[str, ...]
