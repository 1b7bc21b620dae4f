"""Random graphs of the graph-properties benchmark, identical to the published ones.

The original code (Corso et al., 2020) draws from two seeded Mersenne Twisters, Python's and
NumPy's. This module repeats its draws in the same order with its own generators. It builds all
structures itself, because the Barabási-Albert generator of networkx has changed since.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Edges = list[tuple[int, int]]

_KEEP = 0.9  # probability that toggling keeps an edge
_TREE_DRAWS = 10_000


@dataclass(frozen=True)
class RandomGraphs:
    """Graphs of n nodes each: adjacency [G, n, n] uint8, value [G, n] float64, source [G] int64."""

    adjacency: NDArray[np.uint8]
    value: NDArray[np.float64]
    source: NDArray[np.int64]


class _Streams:
    """Python's and NumPy's generators with the same seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.python = random.Random(seed)
        self.numpy = np.random.RandomState(seed)


def draw_graphs(n: int, count: int, seed: int) -> tuple[RandomGraphs, int]:
    """`count` graphs of n nodes, drawn with the seeds after `seed`, and the last seed used."""
    adjacency = np.empty((count, n, n), dtype=np.uint8)
    value = np.empty((count, n))
    source = np.empty(count, dtype=np.int64)
    for g in range(count):
        streams = _Streams(seed := seed + 1)
        kind = _BUILDERS[streams.numpy.choice(len(_BUILDERS), p=_PROBABILITIES)]
        while (drawn := _attempt(kind, n, streams)) is None:
            streams = _Streams(seed := seed + 1)
        adjacency[g], value[g] = drawn
        source[g] = streams.numpy.randint(0, n)
    return RandomGraphs(adjacency, value, source), seed


def _attempt(
    kind: Builder, n: int, streams: _Streams
) -> tuple[NDArray[np.uint8], NDArray[np.float64]] | None:
    """A toggled graph and its node values, or None if a node is isolated or no tree was found."""
    edges = kind(n, streams)
    if edges is None:
        return None
    order = list(range(n))
    streams.python.shuffle(order)
    place = np.empty(n, dtype=np.int64)  # the row of each node
    place[order] = np.arange(n)
    ends = place[np.array(edges, dtype=np.int64).reshape(-1, 2)]
    adjacency = np.zeros((n, n), dtype=np.bool_)
    adjacency[ends[:, 0], ends[:, 1]] = adjacency[ends[:, 1], ends[:, 0]] = True
    value = streams.numpy.uniform(size=n)
    adjacency = _toggled(adjacency, streams.numpy)
    return (adjacency.astype(np.uint8), value) if adjacency.any(axis=0).all() else None


def _toggled(adjacency: NDArray[np.bool_], rng: np.random.RandomState) -> NDArray[np.bool_]:
    """Remove and add the same expected number of random edges."""
    n = len(adjacency)
    edges = int(adjacency.sum()) // 2
    missing = n * (n - 1) // 2 - edges
    if edges <= missing:
        stay, appear = _KEEP, (1 - _KEEP) * edges / missing
    else:
        stay, appear = _KEEP + (1 - _KEEP) * (edges - missing) / edges, 1 - _KEEP
    noise = rng.uniform(0.0, 0.5, size=(n, n))
    noise = noise + noise.T
    toggled = noise < np.where(adjacency, stay, appear)
    np.fill_diagonal(toggled, False)
    return toggled


# --- the ten kinds of structure on the nodes 0..n-1 ---

Builder = Callable[[int, _Streams], Edges | None]


def _erdos_renyi(n: int, streams: _Streams) -> Edges:
    """Each pair is an edge with the same random probability; gaps between edges are geometric."""
    log_absent = math.log(1.0 - (streams.python.random() * n) / n)
    if log_absent == 0.0:
        return []
    rng = random.Random(streams.seed)
    edges: Edges = []
    row, column = 1, -1
    while True:
        column += 1 + int(math.log(1.0 - rng.random()) / log_absent)
        while column >= row:
            column -= row
            row += 1
            if row >= n:
                return edges
        edges.append((row, column))


def _barabasi_albert(n: int, streams: _Streams) -> Edges:
    """Attach each new node to m others, proportionally to their degree; the first to m isolated."""
    m = int(streams.python.random() * (n - 1)) + 1
    rng = random.Random(streams.seed)
    edges: Edges = []
    by_degree: list[int] = []  # each node once per edge
    targets: set[int] = set(range(m))
    for new in range(m, n):
        edges += [(new, target) for target in targets]
        # The published graphs depend on the iteration order of a set of integers.
        by_degree += [*targets, *[new] * m]
        targets = set()
        while new + 1 < n and len(targets) < m:
            targets.add(rng.choice(by_degree))
    return edges


def _largest_divisor(n: int) -> int:
    """The largest divisor of n that is at most its square root."""
    return max(d for d in range(1, math.isqrt(n) + 1) if n % d == 0)


def _grid(n: int, streams: _Streams) -> Edges:
    width = n // _largest_divisor(n)
    across = [(i, i + 1) for i in range(n - 1) if (i + 1) % width]
    return across + [(i, i + width) for i in range(n - width)]


def _caveman(n: int, streams: _Streams) -> Edges:
    size = n // _largest_divisor(n)
    return [(i, j) for i in range(n) for j in range(i + 1, (i // size + 1) * size)]


def _tree(n: int, streams: _Streams) -> Edges | None:
    """A caterpillar with power-law degrees, redrawn one by one until they are those of a tree."""
    # NumPy seeded with a list of one integer draws the same numbers as Python seeded with it.
    bulk = np.random.RandomState([streams.seed])
    pareto = (1.0 - bulk.random_sample(n + _TREE_DRAWS)) ** -0.5
    drawn: list[int] = np.minimum(np.rint(pareto), n).astype(np.int64).tolist()
    degrees, spare = drawn[:n], drawn[n:]
    rng = random.Random(0)
    state = bulk.get_state(legacy=False)["state"]
    rng.setstate((3, (*state["key"].tolist(), state["pos"]), None))
    excess = sum(degrees) - 2 * (n - 1)
    for _ in range(_TREE_DRAWS // 2):
        if excess == 0:
            break
        node = rng.randrange(n)
        excess -= degrees[node]
        degrees[node] = spare.pop()
        excess += degrees[node]
    else:
        return None
    backbone = sorted(d for d in degrees if d > 1)
    edges = list(pairwise(range(len(backbone) + 2)))
    leaf = len(backbone) + 2
    for node, d in enumerate(backbone, start=1):
        edges += [(node, i) for i in range(leaf, leaf + d - 2)]
        leaf += d - 2
    return edges


def _ladder(n: int, streams: _Streams) -> Edges:
    rungs = n // 2
    rails = list(pairwise(range(rungs))) + list(pairwise(range(rungs, 2 * rungs)))
    odd = [(0, n - 1)] if n % 2 else []
    return rails + [(i, i + rungs) for i in range(rungs)] + odd


def _line(n: int, streams: _Streams) -> Edges:
    return list(pairwise(range(n)))


def _star(n: int, streams: _Streams) -> Edges:
    return [(0, i) for i in range(1, n)]


def _caterpillar(n: int, streams: _Streams) -> Edges:
    rng = streams.numpy
    rng.seed(streams.seed)
    backbone = int(rng.randint(1, n))
    legs = [(i, int(rng.randint(backbone))) for i in range(backbone, n)]
    return list(pairwise(range(backbone))) + legs


def _lobster(n: int, streams: _Streams) -> Edges:
    rng = streams.numpy
    rng.seed(streams.seed)
    backbone = int(rng.randint(1, n))
    legs_end = int(rng.randint(backbone + 1, n + 1))
    legs = [(i, int(rng.randint(backbone))) for i in range(backbone, legs_end)]
    claws = [(i, int(rng.randint(backbone, legs_end))) for i in range(legs_end, n)]
    return list(pairwise(range(backbone))) + legs + claws


_MIXTURE: tuple[tuple[Builder, float], ...] = (
    (_erdos_renyi, 0.2),
    (_barabasi_albert, 0.2),
    (_grid, 0.05),
    (_caveman, 0.05),
    (_tree, 0.15),
    (_ladder, 0.05),
    (_line, 0.05),
    (_star, 0.05),
    (_caterpillar, 0.1),
    (_lobster, 0.1),
)
_BUILDERS = tuple(builder for builder, _ in _MIXTURE)
_PROBABILITIES = tuple(probability for _, probability in _MIXTURE)
