"""A program of `smpgnn paper theory`: a claim of the paper, and a function that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A claim of the paper as a program.

    Args:
        name: the word after `smpgnn paper theory`.
        claim: where it stands in the paper and what it says, in one line.
        run: prints what it constructs and finds; raises `AssertionError` where the claim fails.
    """

    name: str
    claim: str
    run: Callable[[], None]
