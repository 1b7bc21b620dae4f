"""Records: one JSON file per cell and seed, without weights.

results/<table>/<row>/<cell>-seed<S>.json; `smpgnn.files.file_name` turns the names of row and cell
into file names, and the file contains the names of the paper's data. The choice of a learning rate
is beside them in search-<training>.json.
"""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from smpgnn.errors import InputError
from smpgnn.files import file_name, write_text
from smpgnn.paper.experiments.paper import column_name
from smpgnn.paper.json_data import built, plain

FORMAT = 1
_POINTS = 400  # of a curve; longer ones are thinned
_WRONG = "is no record of this version of smpgnn: delete it, or train the cell again"


@dataclass(frozen=True)
class Curves:
    """The curves of a training, one value per epoch; `seconds` counts from the start of the run."""

    epoch: tuple[float, ...]
    train_loss: tuple[float, ...]
    validation: tuple[float, ...]
    seconds: tuple[float, ...]

    @classmethod
    def of(cls, history: list[dict[str, float]], monitor: str, scale: float = 1.0) -> Curves:
        """From the rows of metrics.csv; the validation metric is multiplied by `scale`."""
        step = max(1, math.ceil(len(history) / _POINTS))
        kept = [line for place, line in enumerate(reversed(history)) if place % step == 0][::-1]
        return cls(
            epoch=tuple(line["epoch"] for line in kept),
            train_loss=tuple(_short(line["train_loss"]) for line in kept),
            validation=tuple(_short(scale * line[f"val_{monitor}"]) for line in kept),
            seconds=tuple(_short(line["seconds"]) for line in kept),
        )


@dataclass(frozen=True)
class BySize:
    """The value of a cell on test graphs of growing size: of `least` to `most` nodes.

    `validation`: on other graphs of these sizes; older records have none.
    """

    least: tuple[int, ...]
    most: tuple[int, ...]
    value: tuple[float, ...]
    validation: tuple[float, ...] = ()


@dataclass(frozen=True)
class Pairs:
    """The pairs of graphs behind a cell: how many, and the numbers of those told apart.

    For `unreliable` ones the network also tells copies of one graph apart.
    """

    count: int
    told_apart: tuple[int, ...]
    unreliable: tuple[int, ...]


@dataclass(frozen=True)
class Trial:
    """One candidate: its best value on the held-back graphs, or why there is none."""

    lr: float
    validation: float | None
    best_epoch: int
    epochs: int
    error: str = ""
    readout: str = "mean"


@dataclass(frozen=True)
class Choice:
    """How a learning rate, and a readout, was chosen, without test data.

    `config` contains the settings of the trials, except the chosen ones.
    """

    table: str
    row: str
    training: str
    protocol: str
    reduced: bool
    rule: str
    metric: str
    trials: tuple[Trial, ...]
    chosen: float
    config: dict[str, Any]
    chosen_readout: str = "mean"


@dataclass(frozen=True)
class Record:
    """The result of one cell of a table for one seed; `value` is on the test data.

    `by_size` contains values on larger graphs, for tables that ask for them; `pairs` the results
    for pairs of graphs, which have no validation value.
    """

    table: str
    row: str
    cell: Any
    seed: int
    protocol: str
    reduced: bool
    metric: str
    value: float
    validation: float
    parameters: int
    epochs: int
    best_epoch: int
    wall_time_s: float
    peak_memory_mib: float
    memory_of: str
    jobs: int
    device: str
    versions: dict[str, str]
    commit: str | None
    samples: int | None
    config: dict[str, Any]
    search: Choice | None
    curves: Curves
    by_size: BySize | None = None
    pairs: Pairs | None = None

    @property
    def cell_name(self) -> str:
        return column_name(self.cell)

    @property
    def seconds_per_epoch(self) -> float:
        return self.wall_time_s / max(1, self.epochs)


Kind = TypeVar("Kind", Record, Choice)


def record_path(results: str | Path, table: str, row: str, cell: str, seed: int) -> Path:
    """The path of the record of a cell and seed."""
    return Path(results) / table / file_name(row) / f"{file_name(cell)}-seed{seed}.json"


def choice_path(results: str | Path, table: str, row: str, training: str, reduced: bool) -> Path:
    """The path of the choice of a rate; that of reduced runs has another name."""
    name = f"search-{file_name(training)}{'-reduced' if reduced else ''}.json"
    return Path(results) / table / file_name(row) / name


def write_record(results: str | Path, record: Record) -> Path:
    """Write a record, whole or not at all."""
    path = record_path(results, record.table, record.row, record.cell_name, record.seed)
    _write(path, record)
    return path


def write_choice(results: str | Path, choice: Choice) -> None:
    _write(choice_path(results, choice.table, choice.row, choice.training, choice.reduced), choice)


def read_record(path: str | Path) -> Record:
    """Read a record; raises `InputError` for any other file."""
    record = _read(Path(path), Record)
    if not math.isfinite(record.value):
        raise InputError(f"{path}: {_WRONG}: value is not a number.")
    return record


def read_choice(path: Path) -> Choice | None:
    """The choice in a file; None if there is no file."""
    return _read(path, Choice) if path.exists() else None


def read_records(results: str | Path) -> list[Record]:
    """All records below a folder, in the order of their paths."""
    folder = Path(results)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder: name the one with the records.")
    return [read_record(path) for path in sorted(folder.glob("*/*/*-seed*.json"))]


def _write(path: Path, content: Record | Choice) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: cannot be created: {error.strerror}.") from error
    lines = [
        f" {json.dumps(name)}: {json.dumps(plain(value), allow_nan=False)}"
        for name, value in {"format": FORMAT, **asdict(content)}.items()
    ]
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def _read(path: Path, kind: type[Kind]) -> Kind:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}.") from error
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise InputError(f"{path}: {_WRONG}.")
    needed = {entry.name for entry in fields(kind) if entry.default is MISSING}
    if missing := sorted(needed - set(content)):
        raise InputError(f"{path}: lacks {', '.join(missing)}: {_WRONG}.")
    try:
        found: Kind = built(kind, content)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: {_WRONG}: {error}.") from error
    return found


def _short(value: float) -> float:
    return float(f"{value:.5g}")
