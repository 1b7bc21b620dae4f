"""Signals: Ctrl-C, SIGTERM and SIGHUP end a command with one line and without a traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

from smpgnn.errors import Terminated

STATUS = 130
#: Signals that ask a process to end; Windows has no SIGHUP.
_TERMINATION = [
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
]  # fmt: skip

_called = False
_reminder: threading.Timer | None = None


def interrupted() -> bool:
    """Whether Ctrl-C was pressed inside `raising`."""
    return _called


def importing() -> contextlib.AbstractContextManager[None]:
    """Ctrl-C exits the process at once; for imports, during which no file is being written.

    Some libraries swallow an exception raised during their import, or raise another one.
    """
    return _handled(_exit)


@contextlib.contextmanager
def raising() -> Iterator[None]:
    """Ctrl-C raises `KeyboardInterrupt`, so that open files are cleaned up first.

    SIGTERM and SIGHUP raise `Terminated` from then on, unless they are ignored (as by nohup).
    """
    global _called
    if threading.current_thread() is threading.main_thread():  # others may not set handlers
        for number in _TERMINATION:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _terminate)
    before, sys.unraisablehook = sys.unraisablehook, _again(sys.unraisablehook)
    try:
        with _handled(_raise):
            yield
    finally:
        _called, sys.unraisablehook = False, before
        _forget()


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    try:
        # a background job ignores Ctrl-C, and continues to
        changed = before is not signal.SIG_IGN and signal.signal(signal.SIGINT, handler) is before
    except ValueError:  # only the main thread may set handlers
        changed = False
    try:
        yield
    finally:
        if changed:
            signal.signal(signal.SIGINT, before)


def _exit(*_: Any) -> NoReturn:
    os.write(2, b"smpgnn: interrupted.\n")
    os._exit(STATUS)


def _raise(*_: Any) -> NoReturn:
    global _called
    _called = True
    raise KeyboardInterrupt


def _terminate(number: int, _: FrameType | None) -> None:
    """Raise `Terminated`, and again a second later if a library has swallowed it."""
    _send_again(number, 1.0)
    handled = sys.exc_info()[1]
    while handled is not None and not isinstance(handled, Terminated):
        handled = handled.__context__
    if handled is None:  # do not interrupt the cleanup
        raise Terminated


def _send_again(number: int, seconds: float) -> None:
    """Send a signal to this process later, unless the command has ended by then."""
    global _reminder
    _forget()
    _reminder = threading.Timer(seconds, os.kill, (os.getpid(), number))
    _reminder.daemon = True
    _reminder.start()


def _forget() -> None:
    """Send no signal again."""
    global _reminder
    if _reminder is not None:
        _reminder.cancel()
        _reminder = None


def _again(usual: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A hook for exceptions that Python cannot raise; it sends an interrupt again, later."""

    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, Terminated):
            pass  # it is raised again anyway
        elif issubclass(unraisable.exc_type, KeyboardInterrupt):
            _send_again(signal.SIGINT, 0.05)
        else:
            usual(unraisable)

    return hook
