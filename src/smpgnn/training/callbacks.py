"""Callbacks of training: checkpoints and early stopping, SIGTERM, the progress bar."""

from __future__ import annotations

import contextlib
import json
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytorch_lightning as pl
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from smpgnn.checksums import add_last_line
from smpgnn.errors import InputError, Terminated
from smpgnn.files import replacing
from smpgnn.training.memory import peak_mib, reset_peak
from smpgnn.training.module import GraphModule
from smpgnn.training.provenance import device_name
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.saved import SavedModel, save_model


class Diverged(InputError):
    """The loss or the validation metric is no longer a number."""


class Keeper(pl.Callback):
    """Writes metrics.csv, the model to keep and last.ckpt after every epoch, and stops early.

    Each file is written atomically, so a run that is killed at any moment continues from its last
    finished epoch.
    """

    def __init__(self, folder: RunFolder, saved: SavedModel, patience: int, keep: str) -> None:
        self.folder, self.saved, self.patience, self.keep = folder, saved, patience, keep
        self.best: float | None = None
        self.best_epoch = -1
        self.stopped = False
        self.history: list[dict[str, float]] = []
        self.peak_mib = 0.0
        self.seconds_before = 0.0
        self._start = time.monotonic()

    @property
    def kept_epoch(self) -> int:
        """The epoch of the weights in the model."""
        return self.best_epoch if self.keep == "best" else len(self.history)

    @property
    def seconds(self) -> float:
        """Wall time of the run so far, including the time before it was resumed."""
        return self.seconds_before + time.monotonic() - self._start

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        reset_peak(pl_module.device)
        if self.stopped:  # early, before the run was resumed
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, GraphModule)
        task = pl_module.task
        values = {name: float(value) for name, value in trainer.callback_metrics.items()}
        values["lr"] = float(trainer.optimizers[0].param_groups[0]["lr"])  # not rounded to float32
        epoch = trainer.current_epoch + 1
        self.history.append({"epoch": epoch, "seconds": round(self.seconds, 3), **values})
        value = values[f"val_{task.monitor}"]
        if not math.isfinite(values["train_loss"]) or math.isnan(value):
            raise Diverged(
                f"{self.folder.path}: training diverged in epoch {epoch} (loss "
                f"{values['train_loss']:.4g}): start a new run with a lower --lr "
                f"(now {pl_module.options.lr:g}) or a lower --clip."
            )
        better = self.best is None or self._rank(epoch) < self._rank(self.best_epoch)
        if better:
            self.best, self.best_epoch = value, epoch
        if self.patience and epoch - self.best_epoch >= self.patience:
            trainer.should_stop = True
        self.stopped = trainer.should_stop
        self.peak_mib = max(self.peak_mib, peak_mib(pl_module.device))
        if trainer.is_global_zero:
            self.folder.write_metrics(self.history)
            if self.kept_epoch == epoch:
                save_model(self.folder.model, self.saved)
            with replacing(self.folder.last) as beside:
                trainer.save_checkpoint(beside)
                add_last_line(beside)
        else:
            trainer.save_checkpoint(self.folder.last)  # collective; only the first one writes
        trainer.strategy.barrier("last")

    def _rank(self, epoch: int) -> tuple[float, float]:
        """How good the metrics of an epoch are; smaller is better."""
        line = self.history[epoch - 1].items()
        return self.saved.task.rank({name.removeprefix("val_"): value for name, value in line})

    def state_dict(self) -> dict[str, Any]:
        return {
            "best": self.best,
            "best_epoch": self.best_epoch,
            "stopped": self.stopped,
            "history": json.dumps(self.history),  # one string loads faster than thousands of lists
            "seconds": self.seconds,
            "peak_memory_mib": self.peak_mib,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.best, self.best_epoch = state_dict["best"], state_dict["best_epoch"]
        self.stopped = state_dict["stopped"]
        self.seconds_before = state_dict["seconds"]
        self.history = json.loads(state_dict["history"])
        task = self.saved.task
        needed = {"epoch", "seconds", "train_loss", f"val_{task.monitor}"}
        needed |= {f"val_{task.tie}"} if task.tie else set()
        if not isinstance(self.history, list) or not all(
            isinstance(line, dict)
            and needed <= line.keys()
            and all(isinstance(value, int | float) for value in line.values())
            for line in self.history
        ):
            raise InputError("the checkpoint has no history of this run")
        self.peak_mib = state_dict.get("peak_memory_mib", 0.0)  # older checkpoints lack it


class Terminator(pl.Callback):
    """Ends training at once on SIGTERM.

    Processes wait for each other inside torch, where no Python signal handler runs. Until they have
    met (from `waiting` to `setup`), SIGTERM and Ctrl-C have their default effect.
    """

    def __init__(self) -> None:
        self.called = self.began = False
        self._before: dict[int, Any] = {}

    def waiting(self) -> None:
        """Restore the default signal handlers of the system."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, signal.SIG_DFL)

    def met(self) -> None:
        """Restore our signal handlers."""
        while self._before:
            signal.signal(*self._before.popitem())

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self.met()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.began = True
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._end)  # Lightning restores the old one

    def _end(self, *_: Any) -> None:
        self.called = True
        raise Terminated


@contextlib.contextmanager
def stage(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Show on a terminal what happens inside, and remove it afterwards."""
    console = Console(file=sys.stderr)
    if quiet or not console.is_terminal:
        yield
        return
    with console.status(f"{text} …"):
        yield


class ProgressLine(pl.Callback):
    """One progress bar for the whole run, with loss, validation metric and remaining time.

    Without a terminal it prints a line every ten seconds at most.
    """

    def __init__(self, keeper: Keeper) -> None:
        self.keeper = keeper
        self.console = Console(file=sys.stderr)
        self.bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=self.console,
        )
        self.task = self.bar.add_task("train", epoch="", note="")
        self._printed = 0.0

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        steps = int(trainer.num_training_batches)
        total, done = steps * int(trainer.max_epochs or 0), steps * trainer.current_epoch
        self.bar.update(self.task, total=total, completed=done)
        if not trainer.is_global_zero:
            return
        note = f"training on {device_name(pl_module.device)}"
        if pl_module.device.type == "cuda":
            note += "; kernels are compiled first"
        if self.console.is_terminal:
            self.bar.update(self.task, note=note)
            self.bar.start()
        else:
            self.console.print(f"{note[0].upper()}{note[1:]}.", highlight=False, soft_wrap=True)

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any
    ) -> None:
        if self.console.is_terminal:
            epoch = f"{trainer.current_epoch + 1}/{trainer.max_epochs}"
            self.bar.update(self.task, advance=1, epoch=epoch)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        assert isinstance(pl_module, GraphModule)
        if not trainer.is_global_zero:
            return
        line, monitor = self.keeper.history[-1], pl_module.task.monitor
        note = (
            f"loss {line['train_loss']:.4g}  validation {monitor} {line[f'val_{monitor}']:.4f}"
            f"  best {self.keeper.best:.4f}"
        )
        epoch = trainer.current_epoch + 1
        last = trainer.should_stop or epoch == trainer.max_epochs
        if self.console.is_terminal:
            self.bar.update(self.task, note=note)
        elif last or epoch == 1 or time.monotonic() - self._printed > 10:
            self._printed = time.monotonic()
            line_of_epoch = f"epoch {epoch}/{trainer.max_epochs}  {note}  {line['seconds']:.0f} s"
            self.console.print(line_of_epoch, highlight=False, soft_wrap=True)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.bar.live.stop()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        self.bar.live.stop()
