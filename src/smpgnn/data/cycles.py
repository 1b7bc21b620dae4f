"""Cycle detection: sparse bipartite graphs with or without a cycle of exactly k nodes.

A graph has two sides of p nodes, joined by a perfect matching. Each side is a random bipartite
graph on p/2 + p/2 nodes with edge probability sqrt(2)/p, in which every edge is replaced by a path
of k/2 - 1 edges. A pair {u, v} that is joined on both sides closes the cycle path, match, path,
match of 2(k/2 - 1) + 2 = k edges.

No other cycle is that short, so the label is exact. A cycle with 2t matching edges alternates
between 2t stretches within a side, each of one path or more, so for t >= 1 it has at least
2t(k/2 - 1) + 2t = tk edges, and k only for t = 1 and two single paths: the pair above. For t = 0
it is a cycle within a bipartite side, of at least 4(k/2 - 1) = 2k - 4 edges. That is more than k
except for k = 4, for which graphs with a 4-cycle within a side are rejected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from smpgnn.data.base import Splits
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError

Balance = Literal["independent", "matched"]
Sides = NDArray[np.bool_]  # [graphs, 2, p/2, p/2], the edges of both sides

BALANCES: tuple[Balance, ...] = ("independent", "matched")
CYCLE_SIZES: dict[int, tuple[int, ...]] = {
    4: (12, 20, 28, 36),
    6: (20, 31, 42, 56),
    8: (28, 50, 66, 72),
}
OOD_SIZES: dict[int, tuple[int, int, int]] = {4: (20, 28, 36), 6: (31, 42, 56), 8: (50, 66, 72)}
SIDE_NODES = (6, 10, 14, 18)  # p, by the position of n in its row of CYCLE_SIZES

# Graphs are drawn in blocks of this many (positive, negative) pairs, each block from its own random
# stream, so that a smaller data set is a prefix of a larger one.
_PAIRS = 512
_SWITCHES = 200  # attempts to find a negative twin of a positive


@dataclass(frozen=True)
class _Cell:
    """One cell of the paper's table: cycle length k and nominal size n."""

    k: int
    n: int
    balance: Balance

    def __post_init__(self) -> None:
        sizes = _known(self.k)
        if self.n not in sizes:
            raise InputError(f"n is {self.n!r}, but for k={self.k} it must be one of {sizes}.")
        if self.balance not in BALANCES:
            raise InputError(f"balance is {self.balance!r}, but it must be one of {BALANCES}.")

    @property
    def p(self) -> int:
        return SIDE_NODES[CYCLE_SIZES[self.k].index(self.n)]


def cycle_graphs(
    k: int, n: int, num_graphs: int, *, balance: Balance = "independent", seed: int
) -> GraphStore:
    """Graphs of nominal size n, every second one with a cycle of k nodes, labels y [G, 1] int64.

    These are the training graphs of `cycle_splits` with the same arguments. A smaller `num_graphs`
    gives a prefix of a larger one; graphs 2i and 2i + 1 have different classes.

    Args:
        balance: "independent" draws until both classes are full, so positives have more edges on
            average; "matched" pairs each positive with a negative twin that has the same number
            of nodes and edges and the same degrees.
    """
    return _graphs(_Cell(k, n, balance), "num_graphs", num_graphs, seed, stream=0)


def cycle_splits(
    k: int,
    n: int | None,
    *,
    balance: Balance = "independent",
    seed: int,
    train: int = 10_000,
    val: int = 1_000,
    test: int = 10_000,
) -> Splits:
    """One cell of the paper's table, with a validation set, which the paper does not have.

    The three splits come from separate random streams. `train=200` gives the first 200 of the
    10,000 training graphs: the low-data setting. With n=None training, validation and test graphs
    are out of distribution: of growing size.
    """
    _known(k)
    cells = [_Cell(k, size, balance) for size in (OOD_SIZES[k] if n is None else (n, n, n))]
    counts = {"train": train, "val": val, "test": test}
    parts = enumerate(zip(cells, counts.items(), strict=True))
    return Splits(*(_graphs(cell, *count, seed, stream) for stream, (cell, count) in parts))


def _known(k: int) -> tuple[int, ...]:
    if k not in CYCLE_SIZES:
        raise InputError(f"k is {k!r}, but it must be one of {tuple(CYCLE_SIZES)}.")
    return CYCLE_SIZES[k]


def _graphs(cell: _Cell, name: str, num_graphs: int, seed: int, stream: int) -> GraphStore:
    """`num_graphs` graphs of stream 0 (training), 1 (validation) or 2 (test)."""
    if num_graphs < 1:
        raise InputError(f"{name} is {num_graphs}, but it must be at least 1.")
    if seed < 0:
        raise InputError(f"seed is {seed}, but it must be 0 or more.")
    blocks = []
    for block in range(-(-num_graphs // (2 * _PAIRS))):
        entropy = [seed, cell.k, cell.p, BALANCES.index(cell.balance), stream, block]
        rng = np.random.default_rng(np.random.SeedSequence(entropy))
        blocks.append(_block(cell, rng))
    return GraphStore.concat(blocks).select(torch.arange(num_graphs))


# --- the two sides ---


def _draw(cell: _Cell, rng: np.random.Generator) -> Sides:
    """Random valid graphs of both classes."""
    half = cell.p // 2
    sides = rng.random((2 * _PAIRS, 2, half, half)) < np.sqrt(2) / cell.p
    valid = ~_side_cycle(sides).any(axis=1) if cell.k == 4 else slice(None)
    return np.asarray(sides[valid])


def _positive(sides: Sides) -> NDArray[np.bool_]:
    """Whether any pair is an edge on both sides, [graphs]."""
    return np.asarray((sides[:, 0] & sides[:, 1]).any(axis=(1, 2)))


def _side_cycle(sides: Sides) -> NDArray[np.bool_]:
    """Whether a side [..., p/2, p/2] has a 4-cycle: two nodes with two common neighbours."""
    rows = sides.astype(np.float32)
    common = rows @ rows.swapaxes(-1, -2)
    common *= 1 - np.eye(sides.shape[-1], dtype=np.float32)
    return np.asarray((common > 1.5).any(axis=(-1, -2)))


def _pairs(cell: _Cell, rng: np.random.Generator) -> Sides:
    """Positives with their negatives, [pairs, (positive, negative), 2, p/2, p/2]."""
    classes: tuple[list[Sides], list[Sides]] = [], []
    while min(sum(map(len, drawn)) for drawn in classes) < _PAIRS:
        sides = _draw(cell, rng)
        positive = _positive(sides)
        if cell.balance == "independent":
            new = sides[positive], sides[~positive]
        else:
            twins, reached = _negative_twins(cell, sides[positive], rng)
            new = sides[positive][reached], twins[reached]
        for drawn, more in zip(classes, new, strict=True):
            drawn.append(more)
    return np.stack([np.concatenate(drawn)[:_PAIRS] for drawn in classes], axis=1)


def _negative_twins(
    cell: _Cell, sides: Sides, rng: np.random.Generator
) -> tuple[Sides, NDArray[np.bool_]]:
    """Random switches {u,v}, {x,y} -> {u,y}, {x,v} on the second side until no pair is shared.

    Returns the graphs and which of them succeeded.
    """
    twins = sides.copy()
    left = np.arange(len(sides))  # the graphs that are still positive
    for _ in range(_SWITCHES):
        if left.size == 0:
            break
        second = twins[left, 1]
        graph = np.arange(left.size)
        (u, v), (x, y) = _random_edge(second, rng), _random_edge(second, rng)
        # No switch if u = x or v = y, or if one of the new edges exists already.
        free = ~second[graph, u, y] & ~second[graph, x, v]
        graph, u, v, x, y = graph[free], u[free], v[free], x[free], y[free]
        second[graph, u, v] = second[graph, x, y] = False
        second[graph, u, y] = second[graph, x, v] = True
        twins[left, 1] = second
        bad = _positive(twins[left])
        if cell.k == 4:
            bad |= _side_cycle(second)
        left = left[bad]
    reached = np.ones(len(sides), dtype=np.bool_)
    reached[left] = False
    return twins, reached


def _random_edge(
    side: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """One uniform edge (u, v) of each side in [graphs, p/2, p/2]; no side is empty."""
    keys = rng.random(side.shape, dtype=np.float32) + side
    best = keys.reshape(len(side), -1).argmax(axis=1)
    u, v = np.divmod(best, side.shape[2])
    return u, v


# --- from sides to graphs ---


def _block(cell: _Cell, rng: np.random.Generator) -> GraphStore:
    """The graphs of a block; edges in both directions, node indices local to each graph."""
    pairs = _pairs(cell, rng)
    label = np.tile(np.array([1, 0]), (_PAIRS, 1))
    # The order within a pair is random, so that the position does not reveal the class.
    swap = rng.random(_PAIRS) < 0.5
    pairs[swap], label[swap] = pairs[swap, ::-1], label[swap, ::-1]
    num_nodes, graph, ends = _edges(cell, pairs.reshape(-1, *pairs.shape[2:]))
    name = _shuffled(num_nodes, rng)
    start = np.cumsum(num_nodes) - num_nodes
    ends = name[start[graph] + ends]  # [2, E]
    graph, both = np.tile(graph, 2), np.concatenate([ends, ends[::-1]], axis=1)
    # Sorted, so that the edge order does not reveal the construction.
    order = np.lexsort((both[1], both[0], graph))
    return GraphStore.of_sizes(
        num_nodes,
        np.bincount(graph, minlength=len(num_nodes)),
        edge_index=torch.from_numpy(both[:, order]),
        y=torch.from_numpy(label).view(-1, 1),
    )


def _edges(
    cell: _Cell, sides: Sides
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Node counts [graphs] and each edge once: its graph [E] and its two ends [2, E].

    Nodes: the first side, the second side, then the inner nodes of the paths.
    """
    p, inner = cell.p, (cell.k - 4) // 2
    graph, side, u, v = (index.astype(np.int64) for index in np.nonzero(sides))
    count = np.bincount(graph, minlength=len(sides)).astype(np.int64)
    rank = np.arange(graph.size) - (np.cumsum(count) - count)[graph]  # within its graph
    path = [side * p + u]
    path += [2 * p + rank * inner + step for step in range(inner)]
    path += [side * p + p // 2 + v]
    match = np.tile(np.arange(p), len(sides))
    graphs = np.concatenate([np.repeat(np.arange(len(sides)), p), np.tile(graph, inner + 1)])
    ends = np.stack([np.concatenate([match, *path[:-1]]), np.concatenate([match + p, *path[1:]])])
    return 2 * p + count * inner, graphs, ends


def _shuffled(num_nodes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """A random permutation of the nodes of each graph, [N], as local indices."""
    graph = np.repeat(np.arange(len(num_nodes)), num_nodes)
    start = np.repeat(np.cumsum(num_nodes) - num_nodes, num_nodes)
    name = np.empty(graph.size, dtype=np.int64)
    name[np.lexsort((rng.random(graph.size), graph))] = np.arange(graph.size) - start
    return name
