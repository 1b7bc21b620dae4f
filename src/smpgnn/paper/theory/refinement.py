r"""Refinements: exact upper bounds on what networks can distinguish.

A refinement colours the *rows* of all graphs to be compared: nodes, pairs of nodes, or a node and
two marks. In every round a row receives multisets of colours, and its new colour numbers its old
one together with these, until no colour splits any more. Two graphs are *distinguished* if some
colour occurs a different number of times in them. Which multisets a row receives is all that
tells refinements apart (`smpgnn.paper.theory.ladder`): lists of indices, as in the layers.

A layer computes a row from no more than a round of its refinement uses, so a network cannot
distinguish what the refinement does not. One input is not local: the average degree of the graph
(and n in means). It adds nothing. Graphs with equal colours have equal numbers of nodes and equal
degrees, hence equal averages, and for a fixed average all rows are functions of the colours.

Shapes: R rows of all graphs together, one graph after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import NDArray

Colors = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Multisets:
    """Multisets of colours: of the rows in `index`, −1 for none, or of pairs with `second`.

    Shapes: index, second [K, W]; group [R], the multiset that each row receives; without it K = R.
    """

    index: NDArray[np.int32]
    second: NDArray[np.int32] | None = None
    group: NDArray[np.int32] | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of some graphs, their first colours, and what they receive in each round.

    Shapes: first [R]; ptr [G + 1], where the rows of each graph start.
    """

    first: Colors
    ptr: NDArray[np.int64]
    received: tuple[Multisets, ...]


Refinement = Callable[[Sequence[nx.Graph]], Rows]


def classes(graphs: Sequence[nx.Graph], refinement: Refinement) -> list[int]:
    """A number for each graph; equal numbers if the refinement cannot distinguish them."""
    found = [np.sort(colors) for colors in stable_colors(graphs, refinement)]
    number: dict[bytes, int] = {}
    return [number.setdefault(colors.tobytes(), len(number)) for colors in found]


def stable_colors(graphs: Sequence[nx.Graph], refinement: Refinement) -> list[Colors]:
    """The final colours of the rows of each graph; equal numbers are equal colours."""
    rows = refinement(graphs)
    *_, colors = _rounds(rows)
    return np.split(colors, rows.ptr[1:-1])


def told_apart(first: nx.Graph, second: nx.Graph, refinement: Refinement) -> bool:
    """Whether the refinement distinguishes two graphs; it stops as soon as it does."""
    if len(first) != len(second):
        return True
    rows = refinement([first, second])
    border = rows.ptr[1]
    if 2 * border != len(rows.first):
        return True
    for colors in _rounds(rows):
        size = int(colors.max()) + 1
        counts = np.bincount(colors[:border], minlength=size)
        if not np.array_equal(counts, np.bincount(colors[border:], minlength=size)):
            return True
    return False


def _rounds(rows: Rows) -> Iterator[Colors]:
    """The colours after 0, 1, … rounds, until none splits any more."""
    colors = _numbered(rows.first[:, None])
    count, before = int(colors.max()) + 1, 0
    yield colors
    while count > before:
        colors = _numbered(np.stack([colors, *(_received(colors, m) for m in rows.received)], 1))
        count, before = int(colors.max()) + 1, count
        yield colors


def _received(colors: Colors, multisets: Multisets) -> Colors:
    """The number of the multiset that each row receives, [R]."""
    padded = np.append(colors, -1)
    values = padded[multisets.index]
    if multisets.second is not None:
        values = values * len(padded) + padded[multisets.second]
    values.sort(axis=1)
    numbers = _numbered(values)
    return numbers if multisets.group is None else numbers[multisets.group]


def _numbered(values: Colors) -> Colors:
    """Equal rows get equal numbers 0, 1, …, [K, W] to [K].

    Rows are told apart by a random hash, and rows of one hash are compared, so no two different
    rows ever share a number.
    """
    random = np.random.default_rng(0)
    while True:
        key = np.zeros(len(values), dtype=np.uint64)
        for column in values.T:
            key += column.astype(np.uint64) * random.integers(2**63, dtype=np.uint64)
        number = pd.factorize(key)[0]
        example = np.empty(len(values), dtype=np.int64)
        example[number[::-1]] = np.arange(len(values))[::-1]
        if np.array_equal(values[example[number]], values):
            return number
