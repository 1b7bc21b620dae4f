"""Ctrl-C at any moment: one line and exit status 130, never a traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn

STATUS = 130

_called = False


def interrupted() -> bool:
    """Whether Ctrl-C has been pressed while `raising` was in force."""
    return _called


def importing() -> contextlib.AbstractContextManager[None]:
    """Ctrl-C ends the process at once: for a time in which nothing is open or half-written.

    An exception in the middle of an import would be turned into another one here and there, or
    swallowed, by the libraries that are loaded.
    """
    return _handled(_leave)


@contextlib.contextmanager
def raising() -> Iterator[None]:
    """Ctrl-C raises `KeyboardInterrupt`, so that whatever is open is put in order first."""
    global _called
    before, sys.unraisablehook = sys.unraisablehook, _again(sys.unraisablehook)
    try:
        with _handled(_raise):
            yield
    finally:
        _called, sys.unraisablehook = False, before


@contextlib.contextmanager
def _handled(handler: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    try:
        # a job in the background is deaf to Ctrl-C, and stays so
        changed = before is not signal.SIG_IGN and signal.signal(signal.SIGINT, handler) is before
    except ValueError:  # only the main thread may set handlers
        changed = False
    try:
        yield
    finally:
        if changed:
            signal.signal(signal.SIGINT, before)


def _leave(*_: Any) -> NoReturn:
    os.write(2, b"smpgnn: interrupted.\n")
    os._exit(STATUS)


def _raise(*_: Any) -> NoReturn:
    global _called
    _called = True
    raise KeyboardInterrupt


def _again(usual: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A hook for exceptions that Python has to swallow: an interrupt comes again, outside."""

    def hook(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            from threading import Timer

            Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        else:
            usual(unraisable)

    return hook
