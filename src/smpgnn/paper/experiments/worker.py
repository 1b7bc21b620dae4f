"""A worker process: trains one job after the other, since starting torch takes its time.

Nothing here imports torch before the number of threads is set.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from smpgnn.errors import InputError
from smpgnn.files import discard_unfinished
from smpgnn.paper.experiments.plan import Job
from smpgnn.paper.experiments.protocol import settings_of
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


@dataclass(frozen=True)
class Outcome:
    """What came of a job: `error` is one sentence, empty if all went well.

    With a `choice` the training has diverged, and all seeds of its row are to take that.
    """

    text: str = ""
    error: str = ""
    stopped: bool = False
    choice: Choice | None = None


class NextRate(InputError):
    """A training has diverged, and there is another rate for all seeds of its row."""

    def __init__(self, message: str, choice: Choice) -> None:
        super().__init__(message)
        self.choice = choice


def work(pipe: Any, log: str, threads: int) -> None:
    """Take jobs from the pipe and send their outcomes, until None comes."""
    assert isinstance(pipe, connection.Connection)
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    _log_to(log)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the runner decides
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    while True:
        try:
            job = pipe.recv()
        except EOFError:
            return
        if job is None:
            return
        outcome = _attempt(job)
        try:
            pipe.send(outcome)
        except OSError:  # the runner is gone
            return
        if outcome.stopped:
            return


def _attempt(job: Job) -> Outcome:
    print(f"=== {job.label}: {job.folder}", flush=True)
    try:
        return Outcome(text=perform(job))
    except KeyboardInterrupt:
        return Outcome(stopped=True)
    except InputError as error:
        choice = error.choice if isinstance(error, NextRate) else None
        return Outcome(error=" ".join(str(error).splitlines()), choice=choice)
    except BaseException as error:
        traceback.print_exc()
        detail = " ".join(str(error).split())[:300]
        return Outcome(error=f"{type(error).__name__}: {detail}.")
    finally:
        _free_memory()


def perform(job: Job) -> str:
    """Train a job, from where its run folder stands, write what came of it, and say it in short."""
    from smpgnn.paper.experiments.measures import scale_of
    from smpgnn.training.callbacks import Diverged
    from smpgnn.training.prepare import prepare
    from smpgnn.training.run_folder import RunFolder
    from smpgnn.training.train import train_run

    options, folder = job.options, RunFolder(job.options.output)
    prepared = prepare(options)
    if job.samples is not None and TABLES[job.table].task != "cycles":
        prepared = replace(prepared, splits=_fewer(prepared.splits, job.samples))
    if job.trial:
        prepared = replace(prepared, splits=held_back(prepared.splits))
    try:
        result = train_run(options, resume=folder.config.exists(), prepared=prepared, quiet=True)
    except Diverged as error:
        if not job.trial:
            raise _after_divergence(job, error) from error
        epochs = job.epochs_done()
        trial = Trial(
            options.lr, None, 0, epochs, f"diverged: {_why(job, error)}", options.network.readout
        )
        write_trial(folder.path, trial)
        return "diverged"
    monitor = prepared.task.monitor
    history = folder.read_metrics()
    if job.trial:
        value = scale_of(TABLES[job.table]) * result.validation[monitor]
        trial = Trial(
            options.lr, value, result.best_epoch, len(history), readout=options.network.readout
        )
        write_trial(folder.path, trial)
        return f"validation {monitor} {value:.4g}"
    return _write_records(job, prepared, result, history)


def _why(job: Job, error: InputError) -> str:
    """What happened, without the folder, which is none of a record's business."""
    return str(error).removeprefix(f"{job.folder}: ")


def _after_divergence(job: Job, error: InputError) -> InputError:
    """Choose the next best rate for all seeds of the row; what to say."""
    if job.choice is None:
        return error
    old = job.choice
    path = choice_path(job.results, old.table, old.row, old.training, old.reduced)
    choice = read_choice(path) or old
    if (choice.chosen, choice.chosen_readout) == (old.chosen, old.chosen_readout):
        try:
            choice = next_best(old, TABLES[job.table].larger_is_better, _why(job, error))
        except InputError:  # there is no other
            return error
        write_choice(job.results, choice)
    return NextRate(
        f"training diverged at rate {job.options.lr:g}: all seeds take the next best rate, "
        f"{choice.chosen:g}.",
        choice,
    )


def _write_records(job: Job, prepared: Any, result: Any, history: list[dict[str, float]]) -> str:
    from smpgnn.config.options import TrainOptions
    from smpgnn.paper.experiments.measures import measure, scale_of
    from smpgnn.training.run_folder import RunFolder

    options: TrainOptions = job.options
    table = TABLES[job.table]
    scores = measure(table, job.training, options, prepared, result, job.samples)
    run = RunFolder(options.output).read_record()
    curves = Curves.of(history, prepared.task.monitor, scale_of(table))
    shown = []
    for cell in table.training(job.training).cells:
        score = scores[cell.name]
        record = Record(
            table=job.table,
            row=job.row,
            cell=cell.value,
            seed=options.seed,
            protocol=job.protocol,
            reduced=job.reduced,
            metric=table.metric,
            value=score.test,
            validation=score.validation,
            parameters=run["parameters"],
            epochs=run["epochs"],
            best_epoch=run["best_epoch"],
            wall_time_s=run["wall_time_s"],
            peak_memory_mib=run["peak_memory_mib"],
            memory_of=run["memory_of"],
            jobs=job.jobs,
            device=run["device"],
            versions=run["versions"],
            commit=run["commit"],
            samples=job.samples,
            config=settings_of(options),
            search=job.choice,
            curves=curves,
            by_size=score.by_size,
        )
        with _undisturbed():
            write_record(job.results, record)
        shown.append(f"{cell.name}: {score.test:.{table.digits}f}")
    return ", ".join(shown)


def _fewer(splits: Splits, count: int) -> Splits:
    """So many graphs of each part, evenly spaced."""
    import torch

    from smpgnn.data.base import Splits

    def some(store: GraphStore) -> GraphStore:
        if len(store) <= count:
            return store
        return store.select(torch.arange(count) * len(store) // count)

    return Splits(some(splits.train), some(splits.val), some(splits.test))


def _free_memory() -> None:
    """What a run leaves behind goes back to the others on the card."""
    import gc

    gc.collect()
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        if torch.cuda.is_initialized():
            torch.cuda.empty_cache()


def _log_to(path: str) -> None:
    """All that this process prints goes to a file."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)


def _end(*_: Any) -> NoReturn:
    """At once: an exception in the middle of an import would leave half a module.

    In training the handler of `train_run` stands in its place, which ends the run in good order.
    """
    discard_unfinished()
    os._exit(143)


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """SIGTERM waits, so that no half-written file is left among the records."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _end_with_parent() -> None:
    """Where the runner is killed outright, its workers end, too."""
    runner = parent_process()
    if runner is not None:
        connection.wait([runner.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
