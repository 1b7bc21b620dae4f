"""Raise termination signals as exceptions, so that open files are cleaned up first."""

from __future__ import annotations

import signal
import threading
from typing import Any, NoReturn

from smpgnn.errors import Terminated

_ENDING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP


def raise_when_ended() -> None:
    """From now on raise `Terminated` on SIGTERM and SIGHUP, unless ignored (as by nohup)."""
    if threading.current_thread() is not threading.main_thread():
        return  # only the main thread may set handlers
    for number in _ENDING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(*_: Any) -> NoReturn:
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)  # do not interrupt the cleanup
    raise Terminated
