"""How far long work has come, and how fast: a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

_PAUSE = 2.0  # seconds between two lines


def show_rate(what: str) -> Callable[[int], None]:
    """To be called with the number of rows, graphs, … that are done."""
    started = last = time.monotonic()

    def show(done: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _PAUSE:
            last = now
            rate = done / (now - started)
            shown = f"{rate:,.1f}" if rate < 10 else f"{rate:,.0f}"
            print(f"{done:,} {what}, {shown} a second", file=sys.stderr)

    return show
