"""Records: one JSON file for each answered cell and seed, without weights.

results/<table>/<row>/<cell>-seed<S>.json, where table is as it is and row and cell are turned
into file names by `smpgnn.files.file_name`; inside, the names are those of the
paper's data. The choice of a learning rate is kept beside them, in search-<training>.json.
"""

from __future__ import annotations

import json
import math
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any

from smpgnn.errors import InputError
from smpgnn.files import file_name, write_text
from smpgnn.paper.experiments.paper import column_name

FORMAT = 1
_POINTS = 400  # of a curve; longer ones are thinned


@dataclass(frozen=True)
class Curves:
    """The course of a training, a value an epoch; `seconds` counts from the start of the run."""

    epoch: tuple[float, ...]
    train_loss: tuple[float, ...]
    validation: tuple[float, ...]
    seconds: tuple[float, ...]

    @classmethod
    def of(cls, history: list[dict[str, float]], monitor: str, scale: float = 1.0) -> Curves:
        """From the lines of metrics.csv; the validation metric is multiplied with `scale`."""
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
    """The value of a cell on test graphs of growing size: of `least` to `most` nodes."""

    least: tuple[int, ...]
    most: tuple[int, ...]
    value: tuple[float, ...]


@dataclass(frozen=True)
class Trial:
    """One candidate: its best value on the held-back graphs, or why it has none."""

    lr: float
    validation: float | None
    best_epoch: int
    epochs: int
    error: str = ""
    readout: str = "mean"


@dataclass(frozen=True)
class Choice:
    """How a learning rate, and a readout, was chosen; no test data took part.

    `config` holds the settings of the trials, all but what is chosen.
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
    """One answered cell of a table, for one seed. `value` is on the test data.

    `by_size` goes on to graphs larger than those of the test data, where the table asks for it.
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

    @property
    def cell_name(self) -> str:
        return column_name(self.cell)

    @property
    def seconds_per_epoch(self) -> float:
        return self.wall_time_s / max(1, self.epochs)


def record_path(results: str | Path, table: str, row: str, cell: str, seed: int) -> Path:
    """Where the record of a cell and seed is."""
    return Path(results) / table / file_name(row) / f"{file_name(cell)}-seed{seed}.json"


def choice_path(results: str | Path, table: str, row: str, training: str, reduced: bool) -> Path:
    """Where the choice of a rate is; one of reduced runs never takes the place of a full one."""
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
    """Read a record; a file that is none is refused."""
    path = Path(path)
    content = _read(path, Record)
    try:
        search, by_size = content["search"], content.get("by_size")
        values = {
            **content,
            "curves": Curves(**{k: _numbers(v) for k, v in content["curves"].items()}),
            "search": None if search is None else _choice(search),
            "by_size": None
            if by_size is None
            else BySize(**{k: _numbers(v) for k, v in by_size.items()}),
        }
        record = Record(**values)
        if not math.isfinite(record.value):
            raise ValueError("value is not a number")
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise InputError(f"{path}: {_NOT_A_RECORD}: {error}.") from error
    return record


def read_choice(path: Path) -> Choice | None:
    """The choice in a file, None if there is no such file."""
    if not path.exists():
        return None
    try:
        return _choice(_read(path, Choice))
    except (TypeError, KeyError) as error:
        raise InputError(f"{path}: {_NOT_A_RECORD}: {error}.") from error


def read_records(results: str | Path) -> list[Record]:
    """All records below a folder, in the order of their paths."""
    folder = Path(results)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder: name the one with the records.")
    return [read_record(path) for path in sorted(folder.glob("*/*/*-seed*.json"))]


_NOT_A_RECORD = "is no record of this version of smpgnn: delete it, or train the cell again"


def _choice(content: dict[str, Any]) -> Choice:
    trials = tuple(Trial(**trial) for trial in content["trials"])
    return Choice(**{**content, "trials": trials})


def _write(path: Path, content: Record | Choice) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: cannot be made: {error.strerror}.") from error
    lines = [
        f" {json.dumps(name)}: {json.dumps(_plain(value), allow_nan=False)}"
        for name, value in {"format": FORMAT, **asdict(content)}.items()
    ]
    write_text(path, "{\n" + ",\n".join(lines) + "\n}\n")


def _plain(value: Any) -> Any:
    """The same with null where a number has overflowed, for which JSON has no word."""
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(values: list[Any]) -> tuple[Any, ...]:
    """What `_plain` was made of, infinities apart."""
    return tuple(math.nan if value is None else value for value in values)


def _read(path: Path, kind: type[Record] | type[Choice]) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {error}.") from error
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise InputError(f"{path}: {_NOT_A_RECORD}.")
    missing = {entry.name for entry in fields(kind) if entry.default is MISSING} - set(content)
    if missing:
        raise InputError(f"{path}: lacks {', '.join(sorted(missing))}: {_NOT_A_RECORD}.")
    return content


def _short(value: float) -> float:
    return float(f"{value:.5g}")
