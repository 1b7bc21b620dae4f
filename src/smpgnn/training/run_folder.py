"""The folder of a run: everything needed to understand, apply and continue it.

config.yaml            all settings
data.json              where the data are, their fingerprint and a summary
splits.csv             the split of each row of the data
run.json               versions, commit, device, parameters, wall time, results
metrics.csv            one row per epoch
curves.png             the same as a figure
model.safetensors      the best weights by the validation metric, for `smpgnn predict`
test_predictions.csv   their predictions for the test rows, beside the targets
report.html            a page about all of this
domain.safetensors     fingerprints of the training molecules, for `smpgnn predict --domain`
similarity.csv         similarity of the test molecules to those of training, and their errors
last.ckpt              checkpoint from which `--resume` continues
tensorboard/           the same metrics for TensorBoard; other loggers: csv/, mlflow/, wandb/
lock                   locked by the process that writes here; empty

A run with members (folds, an ensemble, or calibration rows) has, in place of metrics, figure, model
and checkpoint:

members/               a run folder and a log for each member
splits.csv             with folds: of each repeat and fold, its validation and test rows
calibration.json       what calibrates intervals and probabilities
reliability.csv        the data of reliability diagrams

Model, checkpoint and JSON files carry their checksum; that of splits.csv is in data.json, those of
metrics.csv, test_predictions.csv and similarity.csv are in run.json.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.checksums import file_digest, read_json, to_json
from smpgnn.config.options import TrainOptions, from_config, read_config, to_yaml
from smpgnn.errors import InputError
from smpgnn.files import replacing, write_text

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.training.run_data import RunData

#: Settings that may differ when a run is continued: where it runs, not what it does.
PLACE = (
    "output", "logger", "report", "device", "devices", "nodes", "data_dir", "cuda_graphs", "jobs",
)  # fmt: skip
#: Where the data are; they may move, and are identified by their fingerprint.
DATA = ("path", "labels", "data_dir")
#: What helps against damaged tables of results.
_AGAIN = "write it again with --resume"
#: Required entries of run.json: of every run, of one without members, and of one with members.
_ALWAYS = {"parameters": int, "validation": dict, "test": dict, "device": str, "wall_time_s": float}
_RECORD = {**_ALWAYS, "epochs": int, "best_epoch": int}
_MEMBERS_RECORD = {**_ALWAYS, "members": list, "test_sd": dict, "test_of_members": dict}


class RunFolder:
    """The folder of one run, and its files."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.data = self.path / "data.json"
        self.splits = self.path / "splits.csv"
        self.record = self.path / "run.json"
        self.metrics = self.path / "metrics.csv"
        self.model = self.path / "model.safetensors"
        self.predictions = self.path / "test_predictions.csv"
        self.similarity = self.path / "similarity.csv"
        self.report = self.path / "report.html"
        self.last = self.path / "last.ckpt"

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder; refuse one that another process writes to."""
        from filelock import FileLock, Timeout

        lock, what = FileLock(self.path / "lock"), "created"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            what = "written"
            lock.acquire(blocking=False)
        except Timeout as error:  # an OSError, too
            raise InputError(
                f"{self.path}: another process is training here: wait until it ends, or choose "
                "another --output."
            ) from error
        except OSError as error:
            reason = error.strerror or error
            raise InputError(f"{self.path}: cannot be {what}: {reason}.") from error
        try:
            yield
        finally:
            lock.release()

    def refuse_old(self) -> None:
        """Refuse a folder that contains a run already, and a name that no folder can have."""
        try:
            os.stat(self.config)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"{self.path}: cannot be created: {error.strerror}.") from error
        raise InputError(
            f"{self.path}: already contains a run: add --resume to continue it, "
            "or choose another --output."
        )

    def create(self, options: TrainOptions, data: RunData) -> None:
        """Fill the folder of a new run; config.yaml, which makes it one, comes last."""
        self.refuse_old()
        write_text(self.splits, data.splits.to_csv())
        self.write_data(options, data)
        write_text(self.config, to_yaml(options))

    def read_options(self) -> TrainOptions:
        """The settings of the run; paths of data are made absolute."""
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
        """Write data.json: fingerprint and location of the data, and the checksum of splits.csv."""
        files = {
            name: os.path.abspath(value) for name in DATA if (value := getattr(options, name, ""))
        }
        content = {
            "files": files,
            "rows": data.fingerprint.rows,
            **asdict(data.fingerprint),
            "fingerprint": data.fingerprint.sha256,
            "splits": file_digest(self.splits),
            **({} if data.summary is None else {"summary": data.summary}),
        }
        del content["sha256"]
        write_text(self.data, to_json(content))

    def read_data(self) -> RunData | None:
        """The split (or folds) and fingerprint of the data; None for a run of an older version."""
        from smpgnn.data.fingerprint import Fingerprint
        from smpgnn.training.run_data import FoldTable, RunData, SplitTable

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
            text = self.splits.read_text(encoding="utf-8")
            kind = FoldTable if text.startswith("repeat,") else SplitTable
            splits = kind.from_csv(text)
            if int(splits.row.max()) >= fingerprint.rows:
                raise ValueError("more rows than the data have")
        except (OSError, ValueError, OverflowError) as error:
            raise InputError(
                f"{self.splits}: was changed or damaged: restore it, or start a new run."
            ) from error
        return RunData(fingerprint, splits, content.get("summary"))

    def no_split(self) -> str:
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
            and isinstance(content.get("summary", {}), dict)
        )
        if not whole:
            raise InputError(f"{self.data}: was changed or not written by smpgnn: {remedy}.")
        return content

    def _check_file(self, path: Path, digest: Any, remedy: str) -> None:
        """Refuse a file whose checksum differs from the recorded one."""
        if not path.exists():
            raise InputError(f"{path}: is missing: {remedy}.")
        if file_digest(path) != digest:
            raise InputError(f"{path}: was changed or damaged (wrong checksum): {remedy}.")

    def tidy(self) -> None:
        """Remove the partial files of a killed process."""
        for file in self.path.glob(".*.part"):
            file.unlink(missing_ok=True)

    def write_metrics(self, history: list[dict[str, float]]) -> None:
        """Write metrics.csv, one row per epoch."""
        import pandas as pd

        if history:
            self.write_table(self.metrics, pd.DataFrame(history), float_format="%.7g", na_rep="nan")

    def read_metrics(self) -> list[dict[str, float]]:
        """Read what `write_metrics` wrote."""
        if not self.metrics.exists():
            return []
        frame = self._table(self.metrics, self._digests().get(self.metrics.name))
        try:
            numbers = frame.astype(float)
        except ValueError as error:
            raise InputError(f"{self.metrics}: was changed or damaged: {_AGAIN}.") from error
        names = [str(name) for name in numbers]
        return [dict(zip(names, line, strict=True)) for line in numbers.to_numpy().tolist()]

    def write_table(self, path: Path, frame: pd.DataFrame, **form: Any) -> None:
        """Write a table of results; `form` as of pandas."""
        write_text(path, frame.to_csv(index=False, lineterminator="\n", **form))

    def read_table(self, path: Path) -> pd.DataFrame | None:
        """One of the tables beside run.json, all cells as text; None if the run has none."""
        digest = self._digests().get(path.name)
        return None if digest is None else self._table(path, digest)

    def _digests(self) -> dict[str, Any]:
        """The checksums of the tables; older versions wrote none."""
        files = self.read_record().get("files")
        return files if isinstance(files, dict) else {}

    def _table(self, path: Path, digest: Any) -> pd.DataFrame:
        import pandas as pd

        if digest is not None:
            self._check_file(path, digest, _AGAIN)
        try:
            frame = pd.read_csv(path, dtype=str, keep_default_na=False)
            if frame.isna().to_numpy().any():
                raise ValueError("a line is too short")
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: was changed or damaged: {_AGAIN}.") from error
        return frame

    def write_record(self, record: dict[str, Any]) -> None:
        """Write run.json, with the checksums of the tables beside it."""
        files = {
            path.name: file_digest(path)
            for path in (self.metrics, self.predictions, self.similarity)
            if path.exists()
        }
        write_text(self.record, to_json({**record, "files": files}))

    def read_record(self) -> dict[str, Any]:
        """Read what `write_record` wrote; empty for an unfinished run."""
        if not self.record.exists():
            return {}
        remedy = f"restore it, or {_AGAIN}"
        record = read_json(self.record, remedy)
        kinds = _MEMBERS_RECORD if "members" in record else _RECORD
        wrong = [name for name, kind in kinds.items() if not _fits(record.get(name), kind)]
        if not wrong and not _fits_baseline(record.get("baseline", {}), record):
            wrong = ["baseline"]
        if wrong:
            raise InputError(
                f"{self.record}: was changed or not written by smpgnn ('{wrong[0]}'): {remedy}."
            )
        return record

    def draw_curves(self, monitor: str, history: list[dict[str, float]]) -> None:
        """Plot training loss and validation metric over the epochs, as curves.png."""
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
    """A folder under runs/, named after task, model and time."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return str(Path("runs") / f"{options.task_name()}-{options.network.model}-{stamp}")


def _texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _fits_baseline(value: Any, record: dict[str, Any]) -> bool:
    """Whether the entry 'baseline' of a run.json has what `training.verdict` shows."""
    if not isinstance(value, dict) or not value or isinstance(value.get("skipped"), str):
        return isinstance(value, dict)
    metric, better = value.get("metric"), value.get("better")
    return (
        _texts([value.get("name"), metric])
        and isinstance(better, dict)
        and _texts([better.get("validation"), better.get("test")])
        and all(
            _fits(value.get(part), dict)
            and (better[part] == "none" or metric in {*value[part]} & {*record[part]})
            for part in ("validation", "test")
        )
    )


def _fits(value: Any, kind: type) -> bool:
    """Whether an entry of run.json has this type; metrics are finite numbers by name."""
    if kind is dict:
        return isinstance(value, dict) and all(_fits(entry, float) for entry in value.values())
    if kind is float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return number and value == value and abs(value) <= sys.float_info.max
    return isinstance(value, kind) and not isinstance(value, bool)
