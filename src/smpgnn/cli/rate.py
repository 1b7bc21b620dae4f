"""What verbs print about long work: its speed every few seconds, and what was written."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from smpgnn.inference.predict import Written

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


def for_table(arguments: argparse.Namespace) -> dict[str, Any]:
    """How to read a table of SMILES, and whom to tell about its rows."""
    table = {name: getattr(arguments, name) for name in ("smiles_column", "separator")}
    return {**table, "progress": show_rate("rows")}


def print_written(written: Written, output: str, what: str) -> None:
    """Print how many rows were written, and how many of them lack `what`."""
    print(f"{written.rows} rows written to {output}")
    if written.failed:
        lack = "has" if written.failed == 1 else "have"
        column = written.columns[-1]
        print(f"{written.failed} of them {lack} no {what}: see the column '{column}'.")
