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
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np
import pandas as pd
from numpy.typing import NDArray

Colors = NDArray[np.int64]
Index = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Multisets:
    """Multisets of colours: of the rows in `index`, −1 for none, or of pairs with `second`.

    Shapes: index, second [K, W]; group [R], the multiset that each row receives; without it K = R.
    """

    index: Index
    second: Index | None = None
    group: Index | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a graph, their first colours, and what they receive in each round.

    Shapes: first [R].
    """

    first: Colors
    received: tuple[Multisets, ...]


Refinement = Callable[[nx.Graph], Rows]


def classes(graphs: Sequence[nx.Graph], refinement: Refinement) -> list[int]:
    """A number for each graph; equal numbers if the refinement cannot distinguish them."""
    found = [np.sort(colors) for colors in stable_colors(graphs, refinement)]
    number: dict[bytes, int] = {}
    return [number.setdefault(colors.tobytes(), len(number)) for colors in found]


def stable_colors(graphs: Sequence[nx.Graph], refinement: Refinement) -> list[Colors]:
    """The final colours of the rows of each graph; equal numbers are equal colours."""
    parts = [refinement(graph) for graph in graphs]
    *_, colors = _rounds(_joined(parts))
    return np.split(colors, np.cumsum([len(part.first) for part in parts])[:-1])


def told_apart(first: nx.Graph, second: nx.Graph, refinement: Refinement) -> bool:
    """Whether the refinement distinguishes two graphs; it stops as soon as it does."""
    parts = [refinement(first), refinement(second)]
    border = len(parts[0].first)
    if len(first) != len(second) or border != len(parts[1].first):
        return True
    for colors in _rounds(_joined(parts)):
        size = int(colors.max()) + 1
        counts = np.bincount(colors[:border], minlength=size)
        if not np.array_equal(counts, np.bincount(colors[border:], minlength=size)):
            return True
    return False


def _joined(parts: Sequence[Rows]) -> Rows:
    """The rows of all graphs, one graph after the other."""

    def indices(arrays: Sequence[Index], counts: Sequence[int]) -> Index:
        """Indices into what each graph has `counts` of, as indices into all of it."""
        width = max(array.shape[1] for array in arrays)
        joined = np.full((sum(map(len, arrays)), width), -1, dtype=np.int32)
        start = row = 0
        for array, count in zip(arrays, counts, strict=True):
            joined[row : row + len(array), : array.shape[1]] = np.where(
                array < 0, -1, array + np.int32(start)
            )
            start, row = start + count, row + len(array)
        return joined

    rows = [len(part.first) for part in parts]
    received = []
    for sets in zip(*(part.received for part in parts), strict=True):
        second = [one.second for one in sets if one.second is not None]
        group = [one.group[:, None] for one in sets if one.group is not None]
        received.append(
            Multisets(
                indices([one.index for one in sets], rows),
                indices(second, rows) if second else None,
                indices(group, [len(one.index) for one in sets])[:, 0] if group else None,
            )
        )
    return Rows(np.concatenate([part.first for part in parts]), tuple(received))


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
