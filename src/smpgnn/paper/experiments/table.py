"""What a table is: rows, cells, and which training yields which cells. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from smpgnn.errors import InputError
from smpgnn.files import file_name
from smpgnn.paper.experiments.paper import column_name


@dataclass(frozen=True)
class Cell:
    """One column of a table; `value` is its name in the data of the paper.

    Columns of one `group` stand side by side.
    """

    value: Any
    head: str
    group: str = ""

    @property
    def label(self) -> str:
        return f"{self.group}, {self.head}" if self.group else self.head

    @property
    def name(self) -> str:
        return column_name(self.value)


@dataclass(frozen=True)
class Row:
    """One method: its network and its own settings.

    `of` names another table that has the same row: it is trained there and shown in both. `seeds`
    are in place of those of the table. `after_test` says why it was chosen when test values were
    known, if it was.
    """

    name: str
    model: str = "smp"
    settings: dict[str, Any] = field(default_factory=dict)
    of: str = ""
    seeds: tuple[int, ...] = ()
    after_test: str = ""


@dataclass(frozen=True)
class Training:
    """One training per row and seed, and the cells that it yields.

    The learning rate is chosen at the training called `pilot`, which may be this one.
    """

    name: str
    cells: tuple[Cell, ...]
    settings: dict[str, Any]
    pilot: str
    modern: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The columns that it yields."""
        if len(self.cells) == 1:
            return self.cells[0].label
        heads = {cell.head for cell in self.cells}
        return heads.pop() if len(heads) == 1 else "all columns"


@dataclass(frozen=True)
class Search:
    """Rates to try, and the share of the epochs of each trial.

    With `readouts`, each rate is tried with each of them, except for rows with a readout of their
    own.
    """

    rates: tuple[float, ...]
    share: float = 0.2
    readouts: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The rule as text, as in the records."""
        return (
            "best value on held-back training graphs (two of twenty) after "
            f"{self.share:.0%} of the epochs, seed 0"
        )


@dataclass(frozen=True)
class Table:
    """One table, as tables.yaml describes it."""

    name: str
    title: str
    task: str
    metric: str
    measure: str
    larger_is_better: bool
    digits: int
    rows: tuple[Row, ...]
    trainings: tuple[Training, ...]
    modern: dict[str, Any]
    search: Search | None = None
    note: str = ""
    after_test: str = ""
    ours: str = "SMP"
    protocol: str = ""
    seeds: tuple[int, ...] = (0, 1, 2)
    published: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """All cells in the order of the paper."""
        cells = [cell for training in self.trainings for cell in training.cells]
        if self.measure == "sizes":  # first those of the training size
            cells.sort(key=lambda cell: cell.name)
        return tuple(cells)

    def row(self, name: str) -> Row:
        return next(row for row in self.rows if row.name == name)

    def training(self, name: str) -> Training:
        return next(training for training in self.trainings if training.name == name)


def pick(wanted: Iterable[str], known: Iterable[str], what: str) -> list[str]:
    """The known names among the words, in their known order; without words all of them.

    A word is a name or its file name.
    """
    by_file = {file_name(name): name for name in known}
    chosen = set()
    for word in wanted:
        if file_name(word) not in by_file:
            raise InputError(
                f"{what} '{word}': there is none of this name; known are: {', '.join(by_file)}."
            )
        chosen.add(by_file[file_name(word)])
    return [name for name in by_file.values() if not chosen or name in chosen]
