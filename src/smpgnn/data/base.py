"""Splits: the training, validation and test graphs of a data set."""

from __future__ import annotations

from dataclasses import dataclass

from smpgnn.data.store import GraphStore


@dataclass(frozen=True, eq=False)
class Splits:
    """Training, validation and test graphs."""

    train: GraphStore
    val: GraphStore
    test: GraphStore
