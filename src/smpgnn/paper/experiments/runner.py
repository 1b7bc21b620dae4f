"""Train what a plan asks for, in parallel processes; whatever ends it, it can go on later."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any

from smpgnn.errors import InputError, Terminated
from smpgnn.paper.experiments.plan import Final, Job, Pilot, Plan
from smpgnn.paper.experiments.protocol import CHOSEN, settings_of
from smpgnn.paper.experiments.records import Choice, Trial, write_choice
from smpgnn.paper.experiments.search import best_trial, read_trial
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.paper.experiments.worker import Outcome, work

_TICK = 0.5  # seconds between two looks at the processes
_PATIENCE = 30.0  # seconds that a worker gets to end by itself


@dataclass
class Task:
    """One training and how it stands; a final without `ready` waits for its learning rate.

    While a training runs whose rate was given up, `next` is what stands in its place.
    """

    job: Job
    ready: bool
    next: Job | None = None
    state: str = "waiting"  # waiting, running, done, failed, answered
    text: str = ""
    started: float = 0.0


@dataclass
class _Worker:
    """A process, the pipe to it, and what it is at; one that is `ending` gets no more work."""

    process: Any
    pipe: Any
    log: str
    task: Task | None = None
    ending: bool = False


@dataclass(frozen=True)
class Summary:
    """How it ended. `stopped` is '', or by what: 'minutes', 'interrupt', 'terminate'."""

    done: int
    left: int
    failed: tuple[tuple[str, str], ...]
    stopped: str


class Runner:
    """Keeps up to `jobs` workers busy with the tasks of a plan.

    Args:
        plan: what to train.
        jobs: worker processes; on a GPU they share it.
        minutes: stop after so long; 0: never.
        show: called with all tasks a few times a second.
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
        self.workers: list[_Worker] = []
        self._started = 0
        self.pilots = {pilot.key: pilot for pilot in plan.pilots if pilot.choice is None}
        self.trials = {
            key: [_trial_task(job) for job in pilot.trials] for key, pilot in self.pilots.items()
        }
        self.finals = [(final, _final_task(final, self.pilots)) for final in plan.finals]

    @property
    def tasks(self) -> list[Task]:
        return [t for trials in self.trials.values() for t in trials] + [t for _, t in self.finals]

    def run(self) -> Summary:
        """Train until all is done, the time is over, or someone interrupts."""
        stopped = ""
        with _sigterm_raises(), _alone(self.plan):
            try:
                for key in list(self.pilots):
                    self._choose(key)
                stopped = self._loop()
            except Terminated:
                stopped = "terminate"
            except KeyboardInterrupt:
                stopped = "interrupt"
            finally:
                self._end_workers()
        self.show(self.tasks)
        failed = [(task.job.label, task.text) for task in self.tasks if task.state == "failed"]
        done = sum(task.state == "done" for task in self.tasks)
        left = sum(task.state in ("waiting", "running") for task in self.tasks)
        return Summary(done, left, tuple(failed), stopped)

    def _loop(self) -> str:
        while True:
            if self.deadline is not None and time.monotonic() > self.deadline:
                return "minutes"
            self._give_work()
            busy = [worker for worker in self.workers if worker.task is not None]
            self.show(self.tasks)
            if not busy:
                return ""
            waiting = [worker.pipe for worker in busy] + [w.process.sentinel for w in busy]
            connection.wait(waiting, timeout=_TICK)
            for worker in busy:
                self._collect(worker)

    def _give_work(self) -> None:
        """Hand the next tasks to idle workers, and start workers as long as there is work."""
        self.workers = [w for w in self.workers if w.task is not None or w.process.is_alive()]
        for task in self._next_tasks():
            worker = next((w for w in self.workers if w.task is None), None)
            if worker is None:
                if len(self.workers) >= self.jobs:
                    return
                worker = self._start_worker()
            worker.task = task
            task.state, task.started = "running", time.monotonic()
            before = task.job.epochs_done()
            self.note(
                f"{task.job.label}: {f'goes on after epoch {before}' if before else 'starts'}"
            )
            worker.pipe.send(task.job)

    def _next_tasks(self) -> list[Task]:
        """First what has begun, then what answers cells, then trials."""
        finals = [task for _, task in self.finals if task.state == "waiting" and task.ready]
        trials = [t for trials in self.trials.values() for t in trials if t.state == "waiting"]
        return sorted(finals + trials, key=lambda task: task.job.epochs_done() == 0)

    def _start_worker(self) -> _Worker:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        log = str(Path(self.plan.work_dir) / "logs" / f"worker-{self._started}.log")
        threads = max(1, _cores() // self.jobs)
        process = context.Process(target=work, args=(theirs, log, threads), daemon=True)
        # Ctrl-C reaches all processes of a terminal: a worker ignores it from its first moment on
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._started += 1
        worker = _Worker(process, ours, log)
        self.workers.append(worker)
        return worker

    def _collect(self, worker: _Worker) -> None:
        """Take the outcome of a worker that has one, or take note of its death."""
        task = worker.task
        if task is None:
            return
        outcome: Outcome | None = None
        with contextlib.suppress(EOFError, OSError):
            if worker.pipe.poll():
                outcome = worker.pipe.recv()
        if outcome is None:
            if worker.process.is_alive():
                return
            worker.ending = True
            worker.process.join()
            outcome = Outcome(
                error=f"the worker process ended with status {worker.process.exitcode}: "
                f"see {worker.log}."
            )
        worker.task = None
        if outcome.stopped or worker.ending:
            worker.process.join()
            self.workers.remove(worker)
        if outcome.stopped:  # by someone else than this runner, or for another rate
            outcome = Outcome(error="the worker process was ended from outside.")
        self._finish(task, outcome)

    def _finish(self, task: Task, outcome: Outcome) -> None:
        seconds = time.monotonic() - task.started
        if task.next is not None:
            task.job, task.next, task.state = task.next, None, "waiting"
        elif outcome.choice is not None:
            self._change_rate(task, outcome.choice)
            self.note(f"{task.job.label}: {outcome.error}")
        elif outcome.error:
            task.state, task.text = "failed", outcome.error
            self.note(f"{task.job.label}: failed: {outcome.error}")
        else:
            task.state, task.text = "done", outcome.text
            self.note(f"{task.job.label}: done in {seconds:.0f} s: {outcome.text}")
        if task.job.trial:
            self._choose((task.job.table, task.job.row, task.job.training))

    def _change_rate(self, diverged: Task, choice: Choice) -> None:
        """Train all seeds of a row with another rate, also those that are done or at it."""
        key = next(final.pilot for final, task in self.finals if task is diverged)
        for final, task in self.finals:
            if final.pilot != key:
                continue
            job = final.with_choice(choice, self.plan.work_dir)
            if task.state == "running" and task is not diverged:
                task.next = job
                for worker in self.workers:
                    if worker.task is task:
                        worker.ending = True
                        worker.process.terminate()
            else:
                task.job, task.ready, task.state = job, True, "waiting"

    def _choose(self, key: tuple[str, str, str]) -> None:
        """Where all trials of a pilot have ended: choose, and let its finals go."""
        trials, pilot = self.trials[key], self.pilots[key]
        if any(task.state in ("waiting", "running") for task in trials):
            return
        waiting = [(final, task) for final, task in self.finals if final.pilot == key]
        try:
            if any(task.state == "failed" for task in trials):
                raise InputError("a trial of its learning rate failed.")
            choice = _choice(pilot)
            write_choice(pilot.trials[0].results, choice)
        except InputError as error:
            for _, task in waiting:
                if task.state == "waiting":
                    task.state, task.text = "failed", f"not started: {error}"
            return
        self.note(
            f"{pilot.table}: {pilot.row}, {pilot.training}: rate {choice.chosen:g}, "
            f"{choice.chosen_readout} chosen"
        )
        for final, task in waiting:
            if task.state == "waiting":
                task.job, task.ready = final.with_choice(choice, self.plan.work_dir), True

    def _end_workers(self) -> None:
        """Ask all to end; what they train goes on from its last finished epoch another time."""
        for worker in self.workers:
            if worker.task is None:
                with contextlib.suppress(OSError):
                    worker.pipe.send(None)
            else:
                worker.process.terminate()
        end = time.monotonic() + _PATIENCE
        try:
            for worker in self.workers:
                worker.process.join(max(0.1, end - time.monotonic()))
        except KeyboardInterrupt:
            self.note("ending the workers at once")
        for worker in self.workers:
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            if worker.task is not None:  # it may have finished in the last moment
                with contextlib.suppress(EOFError, OSError):
                    outcome = worker.pipe.recv() if worker.pipe.poll() else None
                    if outcome is not None and not outcome.stopped:
                        self._finish(worker.task, outcome)
                if worker.task.state == "running":
                    worker.task.state = "waiting"
            worker.pipe.close()
        self.workers.clear()


def _trial_task(job: Job) -> Task:
    trial = read_trial(job.folder)
    if trial is None:
        return Task(job, ready=True)
    return Task(job, ready=True, state="answered")


def _final_task(final: Final, pilots: dict[tuple[str, str, str], Pilot]) -> Task:
    state = "answered" if final.answered else "waiting"
    return Task(final.job, ready=final.pilot not in pilots, state=state)


def _choice(pilot: Pilot) -> Choice:
    """The best rate by what the trials left in their folders."""
    table, first = TABLES[pilot.table], pilot.trials[0]
    trials = tuple(trial for job in pilot.trials if (trial := _ended(job)) is not None)
    config = {k: v for k, v in settings_of(first.options).items() if k not in CHOSEN}
    best = best_trial(trials, table.larger_is_better, pilot.usual)
    return Choice(
        table=pilot.table,
        row=pilot.row,
        training=pilot.training,
        protocol=first.protocol,
        reduced=first.reduced,
        rule=pilot.rule,
        metric="validation " + table.metric.removeprefix("test "),
        trials=trials,
        chosen=best.lr,
        config=config,
        chosen_readout=best.readout,
    )


def _ended(job: Job) -> Trial | None:
    trial = read_trial(job.folder)
    if trial is None:
        raise InputError(f"{job.folder}: the trial has left no result: train it again.")
    return trial


def _cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def _alone(plan: Plan) -> Iterator[None]:
    """Refuse folders that another process works in; the claim ends with this process."""
    try:
        import fcntl
    except ImportError:  # there is no such thing on this system
        yield
        return
    with contextlib.ExitStack() as stack:
        for table in sorted({final.job.table for final in plan.open}):
            folder = Path(plan.work_dir) / table
            try:
                folder.mkdir(parents=True, exist_ok=True)
                file = stack.enter_context((folder / "lock").open("a"))
            except OSError as error:
                raise InputError(f"{folder}: cannot be made: {error.strerror}.") from error
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise InputError(
                    f"{folder}: another smpgnn paper reproduce works there: wait for its end, or "
                    "choose another --work-dir."
                ) from error
        yield


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    def end(*_: Any) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
