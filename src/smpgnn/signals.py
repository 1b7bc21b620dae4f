"""Keep Ctrl-C and the running script from child processes."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from types import ModuleType


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C has no effect inside, nor in the processes that start: this one ends them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def no_script() -> Iterator[None]:
    """Hide the running script: a new process would run it again to find our function."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
