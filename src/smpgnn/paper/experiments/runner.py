"""Train what a plan asks for, each training in a process of its own; it can always be resumed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from smpgnn.errors import InputError, Terminated
from smpgnn.files import file_name
from smpgnn.paper.experiments.plan import Job, Pilot, PilotKey, Plan
from smpgnn.paper.experiments.protocol import CHOSEN, settings_of
from smpgnn.paper.experiments.records import Choice, write_choice
from smpgnn.paper.experiments.search import best_trial, read_trial
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.training.side_by_side import Outcome, Process, cores, end, wait


@dataclass(frozen=True)
class Trained:
    """The result of a job as text.

    With a `choice`, the training has diverged, and all seeds of its row must use that choice.
    """

    text: str
    choice: Choice | None = None


def work(job: Job) -> Trained:
    """Train a job in a process of its own, which has set its number of threads before torch."""
    from smpgnn.paper.experiments.worker import NextRate, perform

    try:
        return Trained(perform(job))
    except NextRate as error:
        return Trained(" ".join(str(error).splitlines()), error.choice)


@dataclass
class Task:
    """One training and its state.

    If the rate is given up while the training runs, `next` is the job to train instead.
    """

    job: Job
    state: str = "waiting"  # waiting, running, done, failed, answered
    text: str = ""
    next: Job | None = None
    process: Process | None = None

    @property
    def label(self) -> str:
        return self.job.label

    def standing(self) -> str:
        """The state as text."""
        if self.state == "running":
            return f"epoch {self.job.epochs_done()} of {self.job.options.epochs}"
        if self.state == "waiting":
            before = self.job.epochs_done()
            unfinished = f", epoch {before} of {self.job.options.epochs} reached" if before else ""
            return ("waiting" if self.job.ready else "waiting for its learning rate") + unfinished
        return f"{self.state}: {self.text}" if self.text else self.state


@dataclass(frozen=True)
class Summary:
    """The result of a run. `stopped` is '', 'minutes', 'interrupt' or 'terminate'."""

    done: int
    left: int
    failed: tuple[tuple[str, str], ...]
    stopped: str


class Runner:
    """Keeps up to `jobs` trainings of a plan running.

    Args:
        plan: what to train.
        jobs: number of processes; they share a GPU.
        minutes: stop after this time; 0: never.
        show: called with all tasks several times a second.
        note: called with a sentence when a task starts, ends or fails.
    """

    def __init__(
        self,
        plan: Plan,
        jobs: int,
        minutes: float,
        show: Callable[[list[Task]], None],
        note: Callable[[str], None],
    ) -> None:
        self.plan, self.jobs, self.show, self.note = plan, jobs, show, note
        self.deadline = time.monotonic() + 60 * minutes if minutes else None
        self.searches = {pilot.key: pilot for pilot in plan.searches}
        self.trials = [
            Task(job, "waiting" if read_trial(job.folder) is None else "answered")
            for pilot in plan.searches
            for job in pilot.trials
        ]
        self.finals = [Task(job, "answered" if job.answered else "waiting") for job in plan.finals]
        self.tasks = self.trials + self.finals

    @property
    def running(self) -> list[tuple[Task, Process]]:
        return [(task, task.process) for task in self.tasks if task.process is not None]

    def run(self) -> Summary:
        """Train until everything is done, the time is over, or someone interrupts."""
        stopped = ""
        with _alone(self.plan):
            try:
                for key in self.searches:
                    self._choose(key)
                stopped = self._loop()
            except Terminated:
                stopped = "terminate"
            except KeyboardInterrupt:
                stopped = "interrupt"
            finally:
                self._end()
        self.show(self.tasks)
        failed = [(task.job.label, task.text) for task in self.tasks if task.state == "failed"]
        done = sum(task.state == "done" for task in self.tasks)
        left = sum(task.state in ("waiting", "running") for task in self.tasks)
        return Summary(done, left, tuple(failed), stopped)

    def _loop(self) -> str:
        while self.deadline is None or time.monotonic() <= self.deadline:
            self._start_tasks()
            self.show(self.tasks)
            if not self.running:
                return ""
            wait([process for _, process in self.running])
            for task, process in self.running:
                outcome = process.outcome()
                if outcome is not None:
                    self._finish(task, process, outcome)
        return "minutes"

    def _start_tasks(self) -> None:
        """Start waiting tasks: first those with finished epochs, then finals, then trials."""
        waiting = [t for t in self.finals + self.trials if t.state == "waiting" and t.job.ready]
        waiting.sort(key=lambda task: task.job.epochs_done() == 0)
        for task in waiting[: self.jobs - len(self.running)]:
            job = task.job
            name = f"{file_name(f'{job.table} {job.row}')}-{job.folder.name}.log"
            log = Path(self.plan.work_dir) / "logs" / name
            threads = max(1, cores() // self.jobs)
            label = f"{job.label}: {job.folder}"
            task.process = Process(work, job, label=label, log=log, threads=threads)
            task.state, before = "running", job.epochs_done()
            self.note(f"{job.label}: {f'continues after epoch {before}' if before else 'starts'}")

    def _finish(self, task: Task, process: Process, outcome: Outcome) -> None:
        task.process = None
        found: Trained | None = outcome.value
        if task.next is not None:
            task.job, task.next, task.state = task.next, None, "waiting"
        elif found is not None and found.choice is not None:
            self._change_rate(task, found.choice)
            self.note(f"{task.job.label}: {found.text}")
        elif outcome.stopped:
            task.state, task.text = "failed", "its process was terminated."
        elif outcome.error:
            task.state, task.text = "failed", outcome.error
        elif found is not None:
            task.state, task.text = "done", found.text
        if task.state == "failed":
            self.note(f"{task.job.label}: failed: {task.text}")
        elif task.state == "done":
            self.note(f"{task.job.label}: done in {process.seconds:.0f} s: {task.text}")
        if task.job.trial and task.job.pilot is not None:
            self._choose(task.job.pilot)

    def _change_rate(self, diverged: Task, choice: Choice) -> None:
        """Train all seeds of a row with another rate, also finished and running ones."""
        for task in self.finals:
            if task.job.pilot != diverged.job.pilot:
                continue
            job = task.job.chosen(choice)
            if task.process is not None:
                task.next = job
                task.process.process.terminate()
            else:
                task.job, task.state = job, "waiting"

    def _choose(self, key: PilotKey) -> None:
        """Once all trials of a search have ended, choose, and release the finals."""
        trials = [task for task in self.trials if task.job.pilot == key]
        if any(task.state in ("waiting", "running") for task in trials):
            return
        pilot = self.searches[key]
        finals = [task for task in self.finals if task.job.pilot == key and task.state == "waiting"]
        try:
            if any(task.state == "failed" for task in trials):
                raise InputError("a trial of its learning rate failed.")
            choice = _choice(pilot)
            write_choice(pilot.trials[0].request.results, choice)
        except InputError as error:
            for task in finals:
                task.state, task.text = "failed", f"not started: {error}"
            return
        self.note(f"{pilot.label}: rate {choice.chosen:g}, {choice.chosen_readout} chosen")
        for task in finals:
            task.job = task.job.chosen(choice)

    def _end(self) -> None:
        """End all processes; their runs can be resumed from their last finished epoch."""
        tasks = [task for task, _ in self.running]
        for task, outcome in zip(tasks, end([one for _, one in self.running]), strict=True):
            task.process, task.state = None, "waiting"
            if outcome is not None and outcome.value is not None and not outcome.value.choice:
                task.state, task.text = "done", outcome.value.text  # in the last moment


def _choice(pilot: Pilot) -> Choice:
    """The best candidate by the trials in their folders."""
    (table, row, training), first = pilot.key, pilot.trials[0]
    trials = []
    for job in pilot.trials:
        trial = read_trial(job.folder)
        if trial is None:
            raise InputError(f"{job.folder}: the trial has left no result: train it again.")
        trials.append(trial)
    best = best_trial(tuple(trials), TABLES[table].larger_is_better, pilot.usual)
    return Choice(
        table=table,
        row=row,
        training=training,
        protocol=first.request.protocol,
        reduced=first.request.reduced,
        rule=pilot.rule,
        metric="validation " + TABLES[table].metric.removeprefix("test "),
        trials=tuple(trials),
        chosen=best.lr,
        config={k: v for k, v in settings_of(first.options).items() if k not in CHOSEN},
        chosen_readout=best.readout,
    )


@contextlib.contextmanager
def _alone(plan: Plan) -> Iterator[None]:
    """Lock the folders of the tables; refuse those that another process works in."""
    from filelock import FileLock, Timeout

    with contextlib.ExitStack() as stack:
        for table in sorted({job.table for job in plan.open}):
            folder = Path(plan.work_dir) / table
            try:
                folder.mkdir(parents=True, exist_ok=True)
                lock = FileLock(folder / "lock")
                lock.acquire(blocking=False)
                stack.callback(lock.release)
            except Timeout as error:  # an OSError, too
                raise InputError(
                    f"{folder}: another smpgnn paper reproduce is running there: wait until it "
                    "ends, or choose another --work-dir."
                ) from error
            except OSError as error:
                raise InputError(f"{folder}: cannot be created: {error.strerror}.") from error
        yield
