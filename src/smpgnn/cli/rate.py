"""Progress and speed of long work: one line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_PAUSE = 2.0  # seconds between two lines


def show_rate(what: str) -> Callable[[int], None]:
    """A function to call with the number of finished rows, graphs, …"""
    started = last = time.monotonic()

    def show(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _PAUSE:
            last = now
            rate = done / (now - started)
            shown = f"{rate:,.1f}" if rate < 10 else f"{rate:,.0f}"
            print(f"{done:,} {what}, {shown} per second", file=sys.stderr)

    return show
