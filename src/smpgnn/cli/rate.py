"""Progress and speed of long work: one line every few seconds."""

from __future__ import annotations

import sys
import time
from typing import Protocol

_PAUSE = 2.0  # seconds between two lines


class Show(Protocol):
    """Called with the number of finished rows, graphs, … and what else to print."""

    def __call__(self, done: int, more: str = "") -> None: ...


def show_rate(what: str) -> Show:
    """A function to call with the number of finished rows, graphs, …"""
    started = last = time.monotonic()

    def show(done: int, more: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > _PAUSE:
            last = now
            rate = done / (now - started)
            shown = f"{rate:,.1f}" if rate < 10 else f"{rate:,.0f}"
            print(f"{done:,} {what}, {shown} per second{more}", file=sys.stderr)

    return show
