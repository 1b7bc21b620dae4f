"""How the trainings stand: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections import Counter
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.live import Live
from rich.table import Table as RichTable

from smpgnn.paper.experiments.runner import Task

_EVERY = 60.0  # seconds between two lines about what is running


class Display(Protocol):
    """What a runner tells about its tasks."""

    def __enter__(self) -> Display: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def show(self, tasks: list[Task]) -> None: ...

    def note(self, text: str) -> None: ...


def display() -> Display:
    """The one that fits the place that the output goes to."""
    console = Console(file=sys.stderr)
    return LiveTable(console) if console.is_terminal else PlainLines(console)


def counts(tasks: list[Task]) -> str:
    """How many tasks are in each state, in words."""
    number = Counter(task.state for task in tasks)
    order = ("done", "running", "waiting", "failed", "answered")
    words = {"answered": "answered before"}
    return ", ".join(f"{number[s]} {words.get(s, s)}" for s in order if number[s]) or "nothing"


def standing(task: Task) -> str:
    """The state of one task in words."""
    if task.state == "running":
        return f"epoch {task.job.epochs_done()} of {task.job.options.epochs}"
    if task.state == "waiting":
        before = task.job.epochs_done()
        unfinished = f", epoch {before} of {task.job.options.epochs} reached" if before else ""
        return ("waiting" if task.ready else "waiting for its learning rate") + unfinished
    return f"{task.state}: {task.text}" if task.text else task.state


class PlainLines:
    """A line for each start and end, and now and then one for what is running."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._start = self._said = time.monotonic()

    def __enter__(self) -> PlainLines:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def show(self, tasks: list[Task]) -> None:
        now = time.monotonic()
        if now - self._said < _EVERY:
            return
        self._said = now
        running = [
            f"{task.job.label}: {standing(task)}" for task in tasks if task.state == "running"
        ]
        self.note("; ".join([counts(tasks), *running]))

    def note(self, text: str) -> None:
        passed = time.monotonic() - self._start
        self.console.print(
            f"[{passed:5.0f} s] {text}", highlight=False, markup=False, soft_wrap=True
        )


class LiveTable:
    """What runs, what failed, what comes next and what is done, redrawn in place.

    As much of it as the window holds; what ends stays as a line above.
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.live = Live(console=console, refresh_per_second=2, transient=False)

    def __enter__(self) -> LiveTable:
        self.live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.live.stop()

    def show(self, tasks: list[Task]) -> None:
        table = RichTable(box=None, caption=counts(tasks), caption_justify="left")
        table.add_column("training")
        table.add_column("state")
        rank = ("running", "failed", "waiting", "done", "answered")
        listed = sorted(tasks, key=lambda task: rank.index(task.state))
        room = max(4, self.console.height - 6)
        for task in listed[:room]:
            table.add_row(task.job.label, standing(task))
        if len(listed) > room:
            table.add_row(f"and {len(listed) - room} more", "")
        self.live.update(table)

    def note(self, text: str) -> None:
        if ": done " in text or ": failed" in text or "chosen" in text:
            self.console.print(text, highlight=False, markup=False)
