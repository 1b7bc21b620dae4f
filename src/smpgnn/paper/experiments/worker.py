"""The process of one training. Nothing here imports torch before the number of threads is set."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from smpgnn.errors import InputError
from smpgnn.paper.experiments.brec_options import BrecOptions
from smpgnn.paper.experiments.brec_worker import perform_brec
from smpgnn.paper.experiments.plan import Job
from smpgnn.paper.experiments.records import (
    Choice,
    Curves,
    Record,
    Trial,
    choice_path,
    read_choice,
    write_choice,
    write_record,
)
from smpgnn.paper.experiments.search import held_back, next_best, write_trial
from smpgnn.paper.experiments.tables import TABLES

if TYPE_CHECKING:
    from smpgnn.data.base import Splits
    from smpgnn.data.store import GraphStore
    from smpgnn.training.prepare import Prepared
    from smpgnn.training.train import Result


@dataclass(frozen=True)
class Trained:
    """The result of a job as text.

    With a `choice`, the training has diverged, and all seeds of its row must use that choice.
    """

    text: str
    choice: Choice | None = None


class NextRate(InputError):
    """A training has diverged, and there is another rate for all seeds of its row."""

    def __init__(self, message: str, choice: Choice) -> None:
        super().__init__(message)
        self.choice = choice


def work(job: Job) -> Trained:
    """Train a job in a process of its own."""
    try:
        return Trained(perform(job))
    except NextRate as error:
        return Trained(" ".join(str(error).splitlines()), error.choice)


def perform(job: Job) -> str:
    """Train a job, or resume it; write its records or trial, and return the result as text."""
    if isinstance(job.options, BrecOptions):
        return perform_brec(job)
    from smpgnn.paper.experiments.measures import scale_of
    from smpgnn.training.callbacks import Diverged
    from smpgnn.training.prepare import prepare
    from smpgnn.training.run_folder import RunFolder
    from smpgnn.training.train import train_run

    options, folder = job.options, RunFolder(job.options.output)
    samples = job.request.reduction.samples
    prepared = prepare(options)
    if samples is not None and TABLES[job.table].task != "cycles":
        prepared = replace(prepared, splits=_fewer(prepared.splits, samples))
    if job.trial:
        prepared = replace(prepared, splits=held_back(prepared.splits))
    trial = Trial(options.lr, None, 0, 0, readout=options.network.readout)
    try:
        result = train_run(
            replace(options, report=False),
            resume=folder.config.exists(),
            prepared=prepared,
            quiet=True,
        )
    except Diverged as error:
        if not job.trial:
            raise _after_divergence(job, error) from error
        reason = f"diverged: {_why(job, error)}"
        write_trial(folder.path, replace(trial, epochs=job.epochs_done(), error=reason))
        return "diverged"
    monitor, history = prepared.task.monitor, folder.read_metrics()
    if not job.trial:
        return _write_records(job, prepared, result, history)
    value = scale_of(TABLES[job.table]) * result.validation[monitor]
    best, epochs = result.best_epoch, len(history)
    write_trial(folder.path, replace(trial, validation=value, best_epoch=best, epochs=epochs))
    return f"validation {monitor} {value:.4g}"


def _why(job: Job, error: InputError) -> str:
    """The error without the folder, which does not belong in a record."""
    return str(error).removeprefix(f"{job.folder}: ")


def _after_divergence(job: Job, error: InputError) -> InputError:
    """Choose the next best rate for all seeds of the row; the error to raise."""
    if job.choice is None:
        return error
    old, results = job.choice, job.request.results
    path = choice_path(results, old.table, old.row, old.training, old.reduced)
    choice = read_choice(path) or old
    if (choice.chosen, choice.chosen_readout) == (old.chosen, old.chosen_readout):
        try:
            choice = next_best(old, TABLES[job.table].larger_is_better, _why(job, error))
        except InputError:  # there is no other
            return error
        write_choice(results, choice)
    return NextRate(
        f"training diverged at rate {job.options.lr:g}: all seeds use the next best rate, "
        f"{choice.chosen:g}.",
        choice,
    )


def _write_records(
    job: Job, prepared: Prepared, result: Result, history: list[dict[str, float]]
) -> str:
    from smpgnn.paper.experiments.measures import measure, scale_of
    from smpgnn.training.run_folder import RunFolder

    options, request, table = job.options, job.request, TABLES[job.table]
    samples = request.reduction.samples
    scores = measure(table, job.training, options, prepared, result, samples)
    run = RunFolder(options.output).read_record()
    names = (
        "parameters", "epochs", "best_epoch", "wall_time_s", "peak_memory_mib", "memory_of",
        "device", "versions", "commit",
    )  # fmt: skip
    shown = []
    for cell in table.training(job.training).cells:
        score = scores[cell.name]
        record = Record(
            **job.origin(cell),
            value=score.test,
            validation=score.validation,
            curves=Curves.of(history, prepared.task.monitor, scale_of(table)),
            by_size=score.by_size,
            **{name: run[name] for name in names},
        )
        with _undisturbed():
            write_record(request.results, record)
        shown.append(f"{cell.name}: {score.test:.{table.digits}f}")
    return ", ".join(shown)


def _fewer(splits: Splits, count: int) -> Splits:
    """So many graphs of each split, evenly spaced."""
    import torch

    from smpgnn.data.base import Splits

    def some(store: GraphStore) -> GraphStore:
        if len(store) <= count:
            return store
        return store.select(torch.arange(count) * len(store) // count)

    return Splits(some(splits.train), some(splits.val), some(splits.test))


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Delay SIGTERM, so that no partial file remains among the records."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
