"""A run folder explains itself: settings, metrics, weights, versions, commit, device, time, curves.

config.yaml          all settings
run.json             versions, commit, device, parameters, wall time, results
metrics.csv          one line an epoch
curves.png           the same as a figure
model.safetensors    the best weights by the validation metric, ready for `smpgnn predict`
last.ckpt            where `--resume` goes on
tensorboard/         the same metrics for TensorBoard
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import subprocess
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from smpgnn.errors import InputError
from smpgnn.files import replacing, write_text
from smpgnn.options import TrainOptions, from_config, read_config, to_yaml

#: What may differ when a run goes on: where it runs, not what it does.
PLACE = ("output", "device", "devices", "nodes", "data_dir", "cuda_graphs")


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

    def refuse_old(self) -> None:
        """Refuse a folder that holds a run already, and a name that no folder can have."""
        try:
            os.stat(self.config)
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made: {error.strerror}.") from error
        else:
            raise InputError(
                f"{self.path}: holds a run already: add --resume to go on with it, "
                "or choose another --output."
            )

    def create(self, options: TrainOptions) -> None:
        """Make the folder of a new run."""
        try:
            self.refuse_old()
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made: {error.strerror}.") from error
        write_text(self.config, to_yaml(options))

    def read_options(self) -> TrainOptions:
        """The settings of the run."""
        if not self.config.exists():
            raise InputError(f"{self.path}: holds no run: there is no config.yaml in it.")
        return from_config(read_config(self.config), str(self.config))

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
        with self.metrics.open(encoding="utf-8", newline="") as file:
            return [
                {name: float(value) for name, value in line.items()}
                for line in csv.DictReader(file)
            ]

    def write_record(self, record: dict[str, Any]) -> None:
        write_text(self.record, json.dumps(record, indent=1) + "\n")

    def read_record(self) -> dict[str, Any]:
        if not self.record.exists():
            return {}
        try:
            record: dict[str, Any] = json.loads(self.record.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{self.record}: cannot be read: {error}.") from error
        return record

    def draw_curves(self, monitor: str) -> None:
        """Training loss and validation metric over the epochs, as curves.png."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        history = self.read_metrics()
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
    return str(Path("runs") / f"{options.task_name()}-{options.model}-{stamp}")


def resumed_options(options: TrainOptions, given: Collection[str]) -> TrainOptions:
    """The settings of the run in `output`; of those `given` only where it runs may differ."""
    if not options.output:
        raise InputError("--resume: name the run to go on with: --output RUN.")
    stored = RunFolder(options.output).read_options()
    if stored.task_name() != options.task_name():
        raise InputError(
            f"{options.output}: is a run of '{stored.task_name()}', not of '{options.task_name()}'."
        )
    for name in given:
        known, wanted = getattr(stored, name), getattr(options, name)
        if name not in (*PLACE, "auto_batch") and known != wanted:  # the run has its batch_rows
            shown = name if name == "path" else "--" + name.replace("_", "-")
            raise InputError(
                f"{shown} {wanted}: the run has {known}, and --resume goes on with its settings: "
                "leave it out, or start a new run."
            )
    place = {name: getattr(options, name) for name in PLACE if name in given}
    return replace(stored, **{**place, "output": options.output})


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
