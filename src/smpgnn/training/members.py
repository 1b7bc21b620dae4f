"""A run of several members: trained side by side, in run folders inside that of the run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from smpgnn.config.options import TableOptions
from smpgnn.data.fingerprint import Fingerprint
from smpgnn.data.splits import PARTS
from smpgnn.errors import InputError
from smpgnn.training.member_plan import MEMBERS, Member, members
from smpgnn.training.run_data import RunData, SplitTable
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.side_by_side import Outcome, Process, cores, end, epochs_done, wait
from smpgnn.training.side_by_side_display import PlainLines, display

#: Members side by side on a GPU by default; more would mostly wait for each other.
_ON_A_GPU = 4


@dataclass(frozen=True, eq=False)
class Given:
    """Data from Python, and their split: the arguments of `prepare_python`. None by default."""

    data: Any = None
    parts: Mapping[str, Any] = field(default_factory=partial(dict.fromkeys, PARTS))
    labels: Any = None


@dataclass(frozen=True)
class Job:
    """What the process of a member needs: its settings, its split and the data."""

    options: TableOptions
    data: RunData
    given: Given


def train_member(job: Job) -> str:
    """Train a member, or continue it; returns the result as text."""
    from smpgnn.training.from_python import prepare_python
    from smpgnn.training.train import train_run

    options: Any = job.options
    given = job.given
    prepared = prepare_python(options, given.data, given.parts, job.data, given.labels)
    begun = RunFolder(job.options.output).config.exists()
    result = train_run(job.options, resume=begun, prepared=prepared, quiet=True)
    monitor = result.saved.task.monitor
    return f"validation {monitor} {result.validation.get(monitor, float('nan')):.4f}"


@dataclass
class Training:
    """The training of one member, as the display shows it."""

    member: Member
    job: Job
    state: str = "waiting"
    text: str = ""
    process: Process | None = None

    @property
    def label(self) -> str:
        return self.member.name

    def standing(self) -> str:
        """The state as text."""
        if self.state in ("running", "waiting"):
            done, epochs = epochs_done(self.job.options.output), self.job.options.epochs
            reached = f"epoch {done} of {epochs}"
            return reached if self.state == "running" else f"waiting, {reached}"
        return f"{self.state}: {self.text}" if self.text else self.state


def jobs_of(
    options: TableOptions,
    fingerprint: Fingerprint,
    splits: Mapping[tuple[int, int], SplitTable],
    given: Given | None,
) -> list[Job]:
    """The job of each member."""
    return [
        Job(one.options(options), RunData(fingerprint, splits[one.group]), given or Given())
        for one in members(options)
    ]


def train_all(options: TableOptions, jobs: list[Job], *, on_gpu: bool, quiet: bool) -> None:
    """Train the members that have no result yet, side by side.

    An interrupt ends all processes; the run can then be resumed.
    """
    trainings = [Training(one, job) for one, job in zip(members(options), jobs, strict=True)]
    for training in trainings:
        if RunFolder(training.job.options.output).read_record():
            training.state = "answered"
    side_by_side = min(options.jobs or _usual_jobs(on_gpu=on_gpu), len(trainings))
    with display(quiet=quiet) as shown:
        try:
            _loop(trainings, side_by_side, shown)
        finally:
            running = [one for one in trainings if one.process is not None]
            end([one.process for one in running if one.process is not None])
    _check(options, trainings)


def _usual_jobs(*, on_gpu: bool) -> int:
    return min(cores(), _ON_A_GPU) if on_gpu else cores()


def _loop(trainings: list[Training], side_by_side: int, shown: PlainLines) -> None:
    while True:
        running = [one for one in trainings if one.process is not None]
        waiting = [one for one in trainings if one.state == "waiting"]
        waiting.sort(key=lambda one: epochs_done(one.job.options.output) == 0)
        for training in waiting[: side_by_side - len(running)]:
            _start(training, max(1, cores() // side_by_side), shown)
            running.append(training)
        shown.show(trainings)
        if not running:
            return
        wait([one.process for one in running if one.process is not None])
        for training in running:
            outcome = training.process.outcome() if training.process is not None else None
            if outcome is not None:
                _finish(training, outcome, shown)


def _start(training: Training, threads: int, shown: PlainLines) -> None:
    output = Path(training.job.options.output)
    log = output.with_name(f"{output.name}.log")
    before = epochs_done(output)
    training.process = Process(
        train_member, training.job, label=training.label, log=log, threads=threads
    )
    training.state = "running"
    shown.note(f"{training.label}: {f'continues after epoch {before}' if before else 'starts'}")


def _finish(training: Training, outcome: Outcome, shown: PlainLines) -> None:
    assert training.process is not None
    seconds, training.process = training.process.seconds, None
    if outcome.stopped:
        training.state, training.text = "failed", "its process was terminated."
    elif outcome.error:
        training.state, training.text = "failed", outcome.error
    else:
        training.state, training.text = "done", outcome.value
    how = f"done in {seconds:.0f} s" if training.state == "done" else "failed"
    shown.note(f"{training.label}: {how}: {training.text}")


def _check(options: TableOptions, trainings: list[Training]) -> None:
    """Refuse a run in which a member failed."""
    failed = [one for one in trainings if one.state == "failed"]
    if failed:
        first = failed[0]
        reason = first.text.removeprefix(f"{first.job.options.output}: ").rstrip(".")
        raise InputError(
            f"{options.output}: {len(failed)} of {len(trainings)} members failed; {first.label}: "
            f"{reason} (log: {Path(options.output) / MEMBERS / first.label}.log); --resume trains "
            "the missing ones."
        )
