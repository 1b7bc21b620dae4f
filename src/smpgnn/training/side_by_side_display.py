"""The state of trainings side by side: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table

_EVERY = 60.0  # seconds between two lines about running trainings
_STATES = ("done", "running", "waiting", "failed", "answered")


class Training(Protocol):
    """One training; `state` is one of waiting, running, done, failed, answered (done before)."""

    state: str

    @property
    def label(self) -> str: ...

    def standing(self) -> str:
        """Its state as text."""


@contextmanager
def display(*, quiet: bool = False) -> Iterator[PlainLines]:
    """The display that fits the place of the output."""
    console = Console(stderr=True, quiet=quiet)
    if quiet or not console.is_terminal:
        yield PlainLines(console)
        return
    with Live(console=console, refresh_per_second=2, transient=False) as live:
        yield LiveTable(console, live)


def counts(trainings: Sequence[Training]) -> str:
    """How many trainings are in each state, as text."""
    number = Counter(one.state for one in trainings)
    words = {"answered": "answered before"}
    return ", ".join(f"{number[s]} {words.get(s, s)}" for s in _STATES if number[s]) or "nothing"


class PlainLines:
    """A line for each start and end, and from time to time one for all running trainings."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._start = self._said = time.monotonic()

    def show(self, trainings: Sequence[Training]) -> None:
        """Show all trainings; called several times a second."""
        now = time.monotonic()
        if now - self._said >= _EVERY:
            self._said = now
            running = [one for one in trainings if one.state == "running"]
            lines = [f"{one.label}: {one.standing()}" for one in running]
            self.note("; ".join([counts(trainings), *lines]))

    def note(self, text: str) -> None:
        """Show the start, end or failure of a training."""
        passed = time.monotonic() - self._start
        line = f"[{passed:5.0f} s] {text}"
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


class LiveTable(PlainLines):
    """A table of running, failed, waiting and finished trainings, as many as fit the window."""

    def __init__(self, console: Console, live: Live) -> None:
        super().__init__(console)
        self.live = live

    def show(self, trainings: Sequence[Training]) -> None:
        table = Table(box=None, caption=counts(trainings), caption_justify="left")
        table.add_column("training")
        table.add_column("state")
        rank = ("running", "failed", "waiting", "done", "answered")
        listed = sorted(trainings, key=lambda one: rank.index(one.state))
        most = max(4, self.console.height - 6)
        for one in listed[:most]:
            table.add_row(one.label, one.standing())
        if len(listed) > most:
            table.add_row(f"and {len(listed) - most} more", "")
        self.live.update(table)

    def note(self, text: str) -> None:
        if ": done " in text or ": failed" in text or "chosen" in text:
            self.console.print(text, highlight=False, markup=False)
