"""A run folder explains itself: settings, metrics, weights, versions, commit, device, time, curves.

config.yaml            all settings
data.json              where the data are, and their fingerprint
splits.csv             the split of each row of the data
run.json               versions, commit, device, parameters, wall time, results
metrics.csv            one line an epoch
curves.png             the same as a figure
model.safetensors      the best weights by the validation metric, ready for `smpgnn predict`
test_predictions.csv   what they predict for the test rows, beside the targets
last.ckpt              where `--resume` goes on
tensorboard/           the same metrics for TensorBoard
lock                   held by the process that writes here; empty

Model, checkpoint and JSON files carry their checksum; that of splits.csv is in data.json, those of
metrics.csv and test_predictions.csv are in run.json.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import platform
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.checksums import file_digest, read_json, to_json
from smpgnn.config.options import TrainOptions, from_config, read_config, to_yaml
from smpgnn.config.settings import flat, plain
from smpgnn.errors import InputError
from smpgnn.files import replacing, write_text

if TYPE_CHECKING:
    from smpgnn.training.run_data import RunData, SplitTable

#: What may differ when a run goes on: where it runs, not what it does.
PLACE = ("output", "device", "devices", "nodes", "data_dir", "cuda_graphs")
#: Where its data are; they may move, and are known by their fingerprint.
DATA = ("path", "labels", "data_dir")
#: What the record of a run holds, and more.
_RECORD = {
    "parameters": int,
    "epochs": int,
    "best_epoch": int,
    "validation": dict,
    "test": dict,
    "device": str,
    "wall_time_s": float,
}


class RunFolder:
    """The folder of one run."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def last(self) -> Path:
        return self.path / "last.ckpt"

    @property
    def model(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def record(self) -> Path:
        return self.path / "run.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.csv"

    @property
    def data(self) -> Path:
        return self.path / "data.json"

    @property
    def splits(self) -> Path:
        return self.path / "splits.csv"

    @property
    def predictions(self) -> Path:
        return self.path / "test_predictions.csv"

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Refuse a folder that another process writes to; the claim ends with this process."""
        from filelock import FileLock, Timeout

        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be created: {error.strerror}.") from error
        lock = FileLock(self.path / "lock")
        try:
            lock.acquire(blocking=False)
        except Timeout as error:  # an OSError, too
            raise InputError(
                f"{self.path}: another process is training here: wait until it ends, or choose "
                "another --output."
            ) from error
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be written: {error.strerror or error}."
            ) from error
        try:
            yield
        finally:
            lock.release()

    def refuse_old(self) -> None:
        """Refuse a folder that holds a run already, and a name that no folder can have."""
        try:
            os.stat(self.config)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"{self.path}: cannot be created: {error.strerror}.") from error
        else:
            raise InputError(
                f"{self.path}: already contains a run: add --resume to continue it, "
                "or choose another --output."
            )

    def create(self, options: TrainOptions, data: RunData) -> None:
        """Fill the folder of a new run; what makes it one, config.yaml, comes last."""
        self.refuse_old()
        write_text(self.splits, data.splits.to_csv())
        self.write_data(options, data)
        write_text(self.config, to_yaml(options))

    def read_options(self) -> TrainOptions:
        """The settings of the run; its data are where they were, whatever the working folder."""
        if not self.config.exists():
            raise InputError(
                f"{self.path}: contains no run (config.yaml is missing): name a run folder."
            )
        options = from_config(read_config(self.config), str(self.config))
        files = self._read_data()["files"] if self.data.exists() else {}
        found = {
            name: place
            for name, place in files.items()
            if (given := getattr(options, name, None)) is not None
            and (Path(place).exists() or not Path(given).exists())
        }
        return replace(options, **found)

    def write_data(self, options: TrainOptions, data: RunData) -> None:
        """data.json: the fingerprint, where the data are now, and the checksum of splits.csv."""
        files = {
            name: os.path.abspath(value) for name in DATA if (value := getattr(options, name, ""))
        }
        content = {
            "files": files,
            "rows": data.fingerprint.rows,
            **asdict(data.fingerprint),
            "fingerprint": data.fingerprint.sha256,
            "splits": file_digest(self.splits),
        }
        del content["sha256"]
        write_text(self.data, to_json(content))

    def read_data(self) -> RunData | None:
        """The split and fingerprint of the data; None for a run of an older version."""
        from smpgnn.data.fingerprint import Fingerprint
        from smpgnn.training.run_data import RunData, SplitTable

        if not self.data.exists():
            if self.splits.exists():
                raise InputError(f"{self.data}: is missing: restore it, or start a new run.")
            return None
        content = self._read_data()
        self._check_file(self.splits, content["splits"], "restore it, or start a new run")
        known = {name: content[name] for name in ("unit", "columns", "inputs", "targets")}
        fingerprint = Fingerprint(
            **{**known, "columns": tuple(content["columns"])}, sha256=content["fingerprint"]
        )
        try:
            splits = SplitTable.from_csv(self.splits.read_text(encoding="utf-8"))
            if int(splits.row.max()) >= fingerprint.rows:
                raise ValueError("more rows than the data have")
        except (OSError, ValueError, OverflowError, csv.Error) as error:
            raise InputError(
                f"{self.splits}: was changed or damaged: restore it, or start a new run."
            ) from error
        return RunData(fingerprint, splits)

    def split_again(self) -> str:
        """A note on a run without a saved split."""
        return (
            f"{self.path}: was started by an older version, which did not save splits: the data "
            "are split again with the same seed."
        )

    def _read_data(self) -> dict[str, Any]:
        remedy = "restore it, or start a new run"
        content = read_json(self.data, remedy)
        texts = ("unit", "inputs", "targets", "fingerprint", "splits")
        whole = (
            all(isinstance(content.get(name), str) for name in texts)
            and len(content["inputs"]) == len(content["targets"])  # a digest a row, each
            and _texts(content.get("columns"))
            and isinstance(content.get("files"), dict)
            and _texts(list(content["files"].values()))
            and set(content["files"]) <= set(DATA)
        )
        if not whole:
            raise InputError(f"{self.data}: was changed or not written by smpgnn: {remedy}.")
        return content

    def _check_file(self, path: Path, digest: Any, remedy: str) -> None:
        """Refuse a file whose checksum is not the one that was written down."""
        if not path.exists():
            raise InputError(f"{path}: is missing: {remedy}.")
        if file_digest(path) != digest:
            raise InputError(f"{path}: was changed or damaged (wrong checksum): {remedy}.")

    def tidy(self) -> None:
        """Remove what a process that was killed had half-written."""
        for file in self.path.glob(".*.part"):
            file.unlink(missing_ok=True)

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        """One line an epoch."""
        if not history:
            return
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(history[0]))
        writer.writeheader()
        writer.writerows({name: f"{value:.7g}" for name, value in line.items()} for line in history)
        write_text(self.metrics, text.getvalue())

    def read_metrics(self) -> list[dict[str, float]]:
        """What `write_metrics` wrote."""
        if not self.metrics.exists():
            return []
        remedy = "write it again with --resume"
        files = self.read_record().get("files")
        if isinstance(files, dict) and self.metrics.name in files:
            self._check_file(self.metrics, files[self.metrics.name], remedy)
        try:
            with self.metrics.open(encoding="utf-8", newline="") as file:
                return [
                    {name: float(value) for name, value in line.items()}
                    for line in csv.DictReader(file, strict=True)
                ]
        except (OSError, ValueError, TypeError, csv.Error) as error:
            raise InputError(f"{self.metrics}: was changed or damaged: {remedy}.") from error

    def write_predictions(
        self, table: SplitTable, columns: Sequence[str], lines: Sequence[Sequence[Any]]
    ) -> None:
        """One line a test row (or node): the targets, and what is predicted."""
        numbers = {"row": (table.row + 1).tolist()}
        if table.node is not None:
            numbers["node"] = (table.node + 1).tolist()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*numbers, *columns])
        rows = zip(*numbers.values(), strict=True)
        writer.writerows((*row, *line) for row, line in zip(rows, lines, strict=True))
        write_text(self.predictions, text.getvalue())

    def write_record(self, record: dict[str, Any]) -> None:
        """run.json, with the checksums of the tables beside it."""
        files = {
            path.name: file_digest(path)
            for path in (self.metrics, self.predictions)
            if path.exists()
        }
        write_text(self.record, to_json({**record, "files": files}))

    def read_record(self) -> dict[str, Any]:
        """What `write_record` wrote; empty for a run that is not finished."""
        if not self.record.exists():
            return {}
        remedy = "restore it, or write it again with --resume"
        record = read_json(self.record, remedy)
        for name, kind in _RECORD.items():
            if not _fits(record.get(name), kind):
                raise InputError(
                    f"{self.record}: was changed or not written by smpgnn ('{name}'): {remedy}."
                )
        return record

    def draw_curves(self, monitor: str, history: list[dict[str, float]]) -> None:
        """Training loss and validation metric over the epochs, as curves.png."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        if not history:
            return
        epochs = [line["epoch"] for line in history]
        figure = Figure(figsize=(8, 3.2), layout="constrained")
        FigureCanvasAgg(figure)
        panels = ((f"val_{monitor}", f"validation {monitor}"), ("train_loss", "training loss"))
        for number, (name, label) in enumerate(panels):
            axis = figure.add_subplot(1, 2, number + 1)
            axis.plot(epochs, [line[name] for line in history], color=f"C{number}")
            axis.set_xlabel("epoch")
            axis.set_ylabel(label)
            axis.grid(alpha=0.3)
        with replacing(self.path / "curves.png") as beside:
            figure.savefig(beside, dpi=130, format="png")


def default_output(options: TrainOptions) -> str:
    """A folder under runs/ that names task, model and time."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return str(Path("runs") / f"{options.task_name()}-{options.network.model}-{stamp}")


def resumed_options(options: TrainOptions, given: Collection[str]) -> TrainOptions:
    """The settings of the run in `output`; of those `given` only where it runs may differ."""
    if not options.output:
        raise InputError("--resume: name the run to continue with --output RUN.")
    folder = RunFolder(options.output)
    stored = folder.read_options()
    if stored.task_name() != options.task_name():
        raise InputError(
            f"{options.output}: is a run of '{stored.task_name()}', not of '{options.task_name()}'."
        )
    before, now = flat(stored), flat(options)
    for name in given:
        known, wanted = before[name], now[name]
        if name in DATA and (folder.data.exists() or _same_file(known, wanted)):
            continue  # known by the fingerprint
        if name not in (*PLACE, "auto_batch") and known != wanted:  # the run has its batch_rows
            shown = name if name == "path" else "--" + name.replace("_", "-")
            raise InputError(
                f"{shown} {wanted}: the run has {known}, and --resume keeps its settings: "
                "leave it out, or start a new run."
            )
    place = {name: getattr(options, name) for name in (*PLACE, *DATA) if name in given}
    return replace(stored, **{**place, "output": options.output})


def settings(options: TrainOptions) -> dict[str, Any]:
    """What a run does, as plain values: all settings but where it runs and where its data are."""
    return {name: value for name, value in plain(options).items() if name not in (*PLACE, *DATA)}


def _same_file(one: str, other: str) -> bool:
    return bool(one and other) and os.path.realpath(one) == os.path.realpath(other)


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _fits(value: Any, kind: type) -> bool:
    """Whether a value of a record is of this kind; metrics are finite numbers by name."""
    if kind is dict:
        return isinstance(value, dict) and all(_fits(entry, float) for entry in value.values())
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and value == value and abs(value) <= sys.float_info.max
    return isinstance(value, kind) and not isinstance(value, bool)


def versions() -> dict[str, str]:
    """Versions of what a result may depend on."""
    from importlib.metadata import version

    import torch
    import torch_geometric

    import smpgnn

    return {
        "smpgnn": smpgnn.__version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "torch_geometric": torch_geometric.__version__,
        "pytorch_lightning": version("pytorch-lightning"),
    }


def commit() -> str | None:
    """The commit of the source, with '+' where it has changes; None outside of a checkout.

    For a copy of the source without its history SMPGNN_COMMIT names it.
    """
    file = Path(__file__).resolve()
    if named := os.environ.get("SMPGNN_COMMIT"):
        return named

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(
                ["git", "-C", str(file.parent), *words], capture_output=True, text=True, timeout=10
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    if git("ls-files", "--error-unmatch", file.name) is None:
        return None  # installed somewhere inside another repository
    head = git("rev-parse", "--short=12", "HEAD")
    if head is None:
        return None
    return head + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def device_name() -> str:
    """The GPU in use, else the processor."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_name()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        model = platform.processor() or platform.machine()
    threads = torch.get_num_threads()
    return f"{model}, {threads} thread{'s' if threads > 1 else ''}"
