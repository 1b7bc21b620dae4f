"""Run the program in this process, with limits on time and memory.

A training that has nothing to refuse ends where its first epoch would start, so that thousands of
command lines a minute can be tried; a case that `trains` runs to its end.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import resource
import signal
import socket
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType, TracebackType
from typing import Any, NoReturn
from unittest import mock

#: Maximum processor time of a case in seconds; wall time may be longer on a shared machine.
SECONDS = 10.0
#: Maximum additional memory of a case in MiB.
MEMORY = 700
_WALL = 90.0

_last_interrupt = float("-inf")  # when a case was interrupted


class TooSlow(BaseException):
    """The case took too long."""


class Started(BaseException):
    """A training is about to start its first epoch."""


@dataclass(frozen=True)
class Outcome:
    """The result of a case. Status -1: an uncaught exception, with its traceback in `error`."""

    status: int
    out: str
    err: str
    error: str = ""
    place: str = ""  # the exception and where in smpgnn it came from
    started: bool = False
    seconds: float = 0.0
    mebibytes: float = 0.0


class Program:
    """Calls the program in the current working folder.

    `models` are names of models that are never damaged; they are loaded once. Use as a context
    manager: inside, the process has no network and limited memory, and file descriptor 2 is
    captured.
    """

    def __init__(
        self, models: Collection[str] = (), seconds: float = SECONDS, memory: int = MEMORY
    ) -> None:
        self.models, self.seconds, self.memory = models, seconds, memory
        self._stack = contextlib.ExitStack()
        self._trains = self._inside = False

    def __enter__(self) -> Program:
        try:
            self._open()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _open(self) -> None:
        from pytorch_lightning import Trainer

        from smpgnn.cli import main as entry
        from smpgnn.inference import predict
        from smpgnn.training import train

        stack, fit, load = self._stack, Trainer.fit, predict.load_model
        loaded = functools.cache(load)
        parser = functools.cache(entry.build_parser)  # which takes longer than most cases

        def start(trainer: Trainer, *args: Any, **kwargs: Any) -> None:
            if not self._trains:
                raise Started
            fit(trainer, *args, **kwargs)

        def start_members(*args: Any, **kwargs: Any) -> None:
            raise Started  # they would train in other processes

        def load_model(path: str | Path) -> Any:
            return (loaded if path in self.models else load)(path)

        def interrupt(status: int) -> NoReturn:
            raise KeyboardInterrupt

        def no_network(*_: object) -> NoReturn:
            raise OSError("there is no network")

        cache = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(mock.patch.object(entry, "build_parser", parser))
        # during imports, Ctrl-C ends the process; here it must not
        stack.enter_context(mock.patch.object(os, "_exit", interrupt))
        stack.enter_context(mock.patch.object(Trainer, "fit", start))
        stack.enter_context(mock.patch.object(train, "train_all", start_members))
        stack.enter_context(mock.patch.object(predict, "load_model", load_model))
        stack.enter_context(mock.patch.object(socket.socket, "connect", no_network))
        stack.enter_context(mock.patch.object(socket, "getaddrinfo", no_network))
        stack.enter_context(mock.patch.dict(os.environ, {"XDG_CACHE_HOME": cache}))
        os.environ.pop("SMPGNN_DATA", None)
        self._captured = stack.enter_context(_captured_stderr())
        stack.enter_context(_handlers())
        stack.enter_context(_stdin_is_empty())
        stack.callback(os.chdir, Path.cwd())
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = _memory("VmSize") + (self.memory + 1300) * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (int(limit), hard))
        stack.callback(resource.setrlimit, resource.RLIMIT_AS, (soft, hard))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def call(
        self, words: tuple[str, ...], *, interrupt: float | None = None, trains: bool = False
    ) -> Outcome:
        """Run `smpgnn WORDS` in the current folder."""
        from smpgnn.cli import main as entry

        self._trains = trains
        out = io.TextIOWrapper(io.BytesIO(), "utf-8", "strict")
        err = io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace")
        status, error, place, started = -1, "", "", False
        _reset_peak()
        before, begun = _memory("VmRSS"), time.process_time()
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.object(sys, "argv", ["smpgnn", *words]))
            stack.enter_context(contextlib.redirect_stdout(out))
            stack.enter_context(contextlib.redirect_stderr(err))
            stack.enter_context(_usual_warnings())
            stack.enter_context(_same_signals())
            stack.enter_context(_limited(self.seconds, interrupt, lambda: self._inside))
            try:
                self._inside = True
                try:
                    entry.main()
                finally:
                    self._inside = False
            except SystemExit as stop:
                status = _status(stop)
            except Started:
                status, started = 0, True
            except (Exception, TooSlow, KeyboardInterrupt) as failure:
                if isinstance(failure.__context__, SystemExit) and interrupt is not None:
                    status = _status(failure.__context__)  # interrupted after it had ended
                else:
                    error = traceback.format_exc(limit=-12)[-6000:]
                    place = _place(failure)
        if interrupt is not None:
            _forget_modes()
        seconds = time.process_time() - begun
        grown = (_memory("VmHWM") - before) / 2**20
        if sys.exc_info()[0] is None:
            out.flush()
            err.flush()
        text = err.buffer.getvalue().decode("utf-8") + self._captured()  # type: ignore[attr-defined]
        shown = out.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]
        return Outcome(status, shown, text, error, place, started, seconds, grown)


def _status(stop: SystemExit) -> int:
    return stop.code if isinstance(stop.code, int) else int(stop.code is not None)


def _forget_modes() -> None:
    """Remove torch modes that an interrupt left active; a real process would have ended."""
    import torch
    from torch._C import _len_torch_function_stack
    from torch.overrides import _pop_mode

    while _len_torch_function_stack():
        _pop_mode()
    torch.set_grad_enabled(True)


def _place(failure: BaseException) -> str:
    """The type of an exception and the innermost line of smpgnn in its traceback."""
    frames = traceback.extract_tb(failure.__traceback__)
    ours = [frame for frame in frames if f"{os.sep}smpgnn{os.sep}" in frame.filename]
    last = (ours or frames or [None])[-1]
    where = f"{Path(last.filename).name}:{last.lineno}" if last else "?"
    return f"{type(failure).__name__} at {where}"


def _memory(name: str) -> float:
    """A line of /proc/self/status, in bytes; 0 where there is none."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(name + ":"):
                return float(line.split()[1]) * 1024
    return 0.0


def _reset_peak() -> None:
    with contextlib.suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


@contextlib.contextmanager
def _usual_warnings() -> Iterator[None]:
    """Python's default warning filters, but show every warning each time."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("always")
        for kind in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", kind)
        yield


@contextlib.contextmanager
def _same_signals() -> Iterator[None]:
    """Restore the signal handlers that the program replaces."""
    kinds = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(kind) for kind in kinds]
    try:
        yield
    finally:
        for kind, handler in zip(kinds, before, strict=True):
            if signal.getsignal(kind) is not handler:
                signal.signal(kind, handler)


@contextlib.contextmanager
def _handlers() -> Iterator[None]:
    def slow(number: int, frame: FrameType | None) -> NoReturn:
        raise TooSlow

    def interrupted(number: int, frame: FrameType | None) -> None:
        # the program may send itself an interrupt that it could not raise at once
        if time.monotonic() - _last_interrupt > 1.0:
            raise KeyboardInterrupt

    handlers: dict[signal.Signals, Callable[[int, FrameType | None], Any]] = {
        signal.SIGPROF: slow,
        signal.SIGALRM: slow,
        signal.SIGINT: interrupted,
    }
    before = {kind: signal.signal(kind, handler) for kind, handler in handlers.items()}
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


@contextlib.contextmanager
def _limited(seconds: float, interrupt: float | None, inside: Callable[[], bool]) -> Iterator[None]:
    """Limit processor time and wall time, or interrupt after `interrupt` seconds.

    Interrupts apply only while `inside` is true, which means that the program runs.
    """

    def interrupted(number: int, frame: FrameType | None) -> None:
        global _last_interrupt
        _last_interrupt = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, _WALL, 1.0)
        signal.signal(signal.SIGALRM, slow)
        if not inside():
            return
        # SIGTERM only if the program handles it: otherwise it would end the fuzzer
        handled = callable(signal.getsignal(signal.SIGTERM))
        kinds = (signal.SIGINT, signal.SIGTERM) if handled else (signal.SIGINT,)
        signal.raise_signal(Random(interrupt).choice(kinds))

    slow = signal.getsignal(signal.SIGALRM)
    if interrupt is not None:
        signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    signal.setitimer(signal.ITIMER_REAL, _WALL if interrupt is None else max(interrupt, 1e-4), 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, slow)


@contextlib.contextmanager
def _captured_stderr() -> Iterator[Callable[[], str]]:
    """What C and C++ write to file descriptor 2, past Python's sys.stderr."""
    with tempfile.TemporaryFile() as file:
        sys.stderr.flush()
        before = os.dup(2)
        os.dup2(file.fileno(), 2)

        def take() -> str:
            if not os.fstat(file.fileno()).st_size:
                return ""
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            text = os.read(file.fileno(), 10_000).decode("utf-8", "replace")
            os.lseek(file.fileno(), 0, os.SEEK_SET)
            os.ftruncate(file.fileno(), 0)
            return text

        try:
            yield take
        finally:
            os.dup2(before, 2)
            os.close(before)


@contextlib.contextmanager
def _stdin_is_empty() -> Iterator[None]:
    before, null = os.dup(0), os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(null)
