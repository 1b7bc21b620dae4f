"""Whether calls of networks may be replayed (`smpgnn.capture.calls`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_paused = 0


@contextmanager
def eager_calls() -> Iterator[None]:
    """Run networks eagerly inside this context, on a GPU too."""
    global _paused
    _paused += 1
    try:
        yield
    finally:
        _paused -= 1


def paused() -> bool:
    """Whether `eager_calls` is active."""
    return _paused > 0
