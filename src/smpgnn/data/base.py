"""Splits: the three parts that every data set of the package comes in."""

from __future__ import annotations

from dataclasses import dataclass

from smpgnn.data.store import GraphStore


@dataclass(frozen=True, eq=False)
class Splits:
    """Graphs to train on, to choose a model on, and to report on."""

    train: GraphStore
    val: GraphStore
    test: GraphStore
