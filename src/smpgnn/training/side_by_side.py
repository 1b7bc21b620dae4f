"""Train side by side: each training has a process of its own, with its share of the processors.

Nothing here imports torch, so that a new process sets its number of threads first.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from pathlib import Path
from typing import Any, NoReturn

from smpgnn.errors import InputError
from smpgnn.files import discard_unfinished
from smpgnn.signals import no_script, without_interrupts

_TICK = 0.5  # seconds between two checks of the processes
_PATIENCE = 30.0  # seconds before a process that was asked to end is killed


@dataclass(frozen=True)
class Outcome:
    """What a training returned, or one sentence on its `error`; `stopped`: it was asked to end."""

    value: Any = None
    error: str = ""
    stopped: bool = False


class Process:
    """A process that trains one job.

    Args:
        perform: a function of a module, called with the job in the process.
        job: its argument, which can be pickled.
        label: names the job in the log.
        log: the file for all output of the process.
        threads: number of threads, unless OMP_NUM_THREADS says otherwise.
    """

    def __init__(
        self, perform: Callable[[Any], Any], job: Any, *, label: str, log: Path, threads: int
    ) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe(duplex=False)
        self.log, self.started = log, time.monotonic()
        content = pickle.dumps((perform, job))
        arguments = (content, label, theirs, str(log), threads)
        self.process = context.Process(target=_work, args=arguments)
        self.process.daemon = True
        # Ctrl-C reaches all processes of a terminal; this one must ignore it from the beginning.
        with without_interrupts(), no_script():
            self.process.start()
        theirs.close()

    @property
    def seconds(self) -> float:
        """Time since its start."""
        return time.monotonic() - self.started

    def outcome(self) -> Outcome | None:
        """The outcome of the job; None while it is being trained."""
        alive = self.process.is_alive()
        with contextlib.suppress(EOFError, OSError):
            if self.pipe.poll():
                found: Outcome = self.pipe.recv()
                self.close(_PATIENCE)
                return found
        if alive:
            return None
        status = self.process.exitcode
        return Outcome(error=f"its process ended with status {status}: see {self.log}.")

    def close(self, seconds: float) -> None:
        """Wait for the end of the process, and kill it after this time."""
        self.process.join(seconds)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def wait(processes: Sequence[Process]) -> None:
    """Wait until one of the processes has news, or for half a second."""
    ends = [end for one in processes for end in (one.pipe, one.process.sentinel)]
    connection.wait(ends, timeout=_TICK)


def end(processes: Sequence[Process]) -> list[Outcome | None]:
    """End the processes; their runs can be resumed from their last finished epoch.

    The outcome of each, if it finished in the last moment.
    """
    limit = time.monotonic() + _PATIENCE
    for one in processes:
        one.process.terminate()
    with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C kills them at once
        for one in processes:
            one.process.join(max(0.1, limit - time.monotonic()))
    for one in processes:
        one.close(0.0)
    return [one.outcome() for one in processes]


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def epochs_done(folder: str | Path) -> int:
    """The finished epochs of the run in a folder, by its metrics.csv."""
    try:
        with (Path(folder) / "metrics.csv").open("rb") as file:
            return max(0, sum(1 for _ in file) - 1)
    except OSError:
        return 0


def _work(content: bytes, label: str, pipe: Any, log: str, threads: int) -> None:
    """Train a job and send its outcome; the output of the process goes to `log`."""
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    _log_to(log)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the parent decides
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print(f"=== {label}", flush=True)
    outcome = _attempt(content)
    with contextlib.suppress(OSError):  # the parent is gone
        pipe.send(outcome)


def _attempt(content: bytes) -> Outcome:
    try:
        perform, job = pickle.loads(content)
        return Outcome(perform(job))
    except KeyboardInterrupt:
        return Outcome(stopped=True)
    except InputError as error:
        return Outcome(error=" ".join(str(error).splitlines()))
    except BaseException as error:
        traceback.print_exc()
        detail = " ".join(str(error).split())[:300]
        return Outcome(error=f"{type(error).__name__}: {detail}.")


def _log_to(path: str) -> None:
    """Send all output of this process to a file."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)


def _end(*_: Any) -> NoReturn:
    """End at once: an exception in the middle of an import would leave half a module.

    During training the handler of `train_run` takes its place and ends the run properly.
    """
    discard_unfinished()
    os._exit(143)


def _end_with_parent() -> None:
    """End this process if its parent is killed."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)
