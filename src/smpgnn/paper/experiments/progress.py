"""The state of the trainings: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.table import Table as RichTable

from smpgnn.paper.experiments.runner import Task

_EVERY = 60.0  # seconds between two lines about running trainings


@contextmanager
def display() -> Iterator[PlainLines]:
    """The display that fits the place of the output."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield PlainLines(console)
        return
    with Live(console=console, refresh_per_second=2, transient=False) as live:
        yield LiveTable(console, live)


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
    """A line for each start and end, and from time to time one for all running trainings."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._start = self._said = time.monotonic()

    def show(self, tasks: list[Task]) -> None:
        """Show all tasks; called several times a second."""
        now = time.monotonic()
        if now - self._said >= _EVERY:
            self._said = now
            running = [task for task in tasks if task.state == "running"]
            lines = [f"{task.job.label}: {standing(task)}" for task in running]
            self.note("; ".join([counts(tasks), *lines]))

    def note(self, text: str) -> None:
        """Show the start, end or failure of a task."""
        passed = time.monotonic() - self._start
        line = f"[{passed:5.0f} s] {text}"
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)


class LiveTable(PlainLines):
    """A table of running, failed, waiting and finished trainings, as many as fit the window."""

    def __init__(self, console: Console, live: Live) -> None:
        super().__init__(console)
        self.live = live

    def show(self, tasks: list[Task]) -> None:
        table = RichTable(box=None, caption=counts(tasks), caption_justify="left")
        table.add_column("training")
        table.add_column("state")
        rank = ("running", "failed", "waiting", "done", "answered")
        listed = sorted(tasks, key=lambda task: rank.index(task.state))
        most = max(4, self.console.height - 6)
        for task in listed[:most]:
            table.add_row(task.job.label, standing(task))
        if len(listed) > most:
            table.add_row(f"and {len(listed) - most} more", "")
        self.live.update(table)

    def note(self, text: str) -> None:
        if ": done " in text or ": failed" in text or "chosen" in text:
            self.console.print(text, highlight=False, markup=False)
