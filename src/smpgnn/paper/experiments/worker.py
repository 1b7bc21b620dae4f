"""Perform one job: a trial of a candidate, or a final training and its records."""

from __future__ import annotations

from dataclasses import replace

import torch

from smpgnn.data.base import Splits
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.paper.experiments.brec_options import BrecOptions
from smpgnn.paper.experiments.brec_worker import perform_brec
from smpgnn.paper.experiments.measures import measure, scale_of
from smpgnn.paper.experiments.plan import Job
from smpgnn.paper.experiments.records import (  # fmt: skip
    Choice,
    Curves,
    Trial,
    choice_path,
    read_choice,
    write_choice,
)
from smpgnn.paper.experiments.search import held_back, next_best, write_trial
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.training.callbacks import Diverged
from smpgnn.training.prepare import prepare
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.train import train_run

_OF_THE_RUN = (
    "parameters", "epochs", "best_epoch", "wall_time_s", "peak_memory_mib", "memory_of", "device",
    "versions", "commit",
)  # fmt: skip


class NextRate(InputError):
    """A training has diverged, and there is another rate for all seeds of its row."""

    def __init__(self, message: str, choice: Choice) -> None:
        super().__init__(message)
        self.choice = choice


def perform(job: Job) -> str:
    """Train a job, or resume it; write its records or trial, and return the result as text."""
    if isinstance(job.options, BrecOptions):
        return perform_brec(job)
    options, folder, table = job.options, RunFolder(job.options.output), TABLES[job.table]
    samples = job.request.reduction.samples
    prepared = prepare(options)
    if samples is not None and table.task != "cycles":
        parts = (prepared.splits.train, prepared.splits.val, prepared.splits.test)
        prepared = replace(prepared, splits=Splits(*(_some(part, samples) for part in parts)))
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
        # the folder does not belong in a record
        reason = str(error).removeprefix(f"{job.folder}: ")
        if not job.trial:
            raise _after_divergence(job, error, reason) from error
        trial = replace(trial, epochs=job.epochs_done(), error=f"diverged: {reason}")
        write_trial(folder.path, trial)
        return "diverged"
    monitor, history = prepared.task.monitor, folder.read_metrics()
    if job.trial:
        value = scale_of(table) * result.validation[monitor]
        best, epochs = result.best_epoch, len(history)
        write_trial(folder.path, replace(trial, validation=value, best_epoch=best, epochs=epochs))
        return f"validation {monitor} {value:.4g}"
    run = folder.read_record()
    return job.write(
        measure(job, prepared, result),
        curves=Curves.of(history, monitor, scale_of(table)),
        **{name: run[name] for name in _OF_THE_RUN},
    )


def _after_divergence(job: Job, error: InputError, reason: str) -> InputError:
    """Choose the next best rate for all seeds of the row; the error to raise."""
    if job.choice is None:
        return error
    old, results = job.choice, job.request.results
    path = choice_path(results, old.table, old.row, old.training, old.reduced)
    choice = read_choice(path) or old
    if (choice.chosen, choice.chosen_readout) == (old.chosen, old.chosen_readout):
        try:
            choice = next_best(old, TABLES[job.table].larger_is_better, reason)
        except InputError:  # there is no other
            return error
        write_choice(results, choice)
    return NextRate(
        f"training diverged at rate {job.options.lr:g}: all seeds use the next best rate, "
        f"{choice.chosen:g}.",
        choice,
    )


def _some(store: GraphStore, count: int) -> GraphStore:
    """So many graphs, evenly spaced."""
    if len(store) <= count:
        return store
    return store.select(torch.arange(count) * len(store) // count)
