"""The rings of a graph that do not depend on how its nodes are numbered (Vismara, 1997)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import networkx as nx

Pair = tuple[int, int]


def relevant_cycles(pairs: list[Pair]) -> list[frozenset[Pair]]:
    """The cycles of all minimum cycle bases, each as the set of its edges, shortest first.

    A cycle is relevant if it is not a sum (symmetric difference) of strictly shorter ones. In
    graphs of high symmetry a minimum cycle basis depends on the numbering of the nodes (five of the
    six faces of a cube are one); the union of all of them does not.

    Args:
        pairs: the edges (a, b) with a < b, each once.
    """
    whole = nx.k_core(nx.Graph(pairs), 2)  # without trees
    core = [pair for pair in pairs if whole.has_edge(*pair)]
    bit = {pair: 1 << number for number, pair in enumerate(core)}
    neighbors = {node: list(whole[node]) for node in whole}
    searches = [_Search(root, neighbors, bit) for root in neighbors]
    basis: dict[int, int] = {}  # by their highest bit
    missing = len(core) - len(whole) + nx.number_connected_components(whole)
    found: list[int] = []
    length = 3
    while len(basis) < missing:
        cycles = {cycle for search in searches for cycle in search.cycles(length)}
        new = [cycle for cycle in sorted(cycles) if _reduced(cycle, basis)]
        found += new
        for cycle in new:
            rest = _reduced(cycle, basis)
            if rest:
                basis[rest.bit_length()] = rest
        length += 1
    return [frozenset(pair for pair in core if bit[pair] & cycle) for cycle in found]


class _Search:
    """Shortest paths from `root` through larger nodes, as (edges, nodes) in bits, hop by hop."""

    def __init__(self, root: int, neighbors: dict[int, list[int]], bit: dict[Pair, int]) -> None:
        self.root, self.neighbors, self.bit = root, neighbors, bit
        self.distance = {root: 0}
        self.levels: list[dict[int, list[tuple[int, int]]]] = [{root: [(0, 1 << root)]}]
        self.frontier = [root]

    def cycles(self, length: int) -> Iterator[int]:
        """Cycles of this length with `root` as smallest node, made of two shortest paths.

        In a relevant cycle, all ways along its shorter side are shortest paths of the graph.
        """
        half = length // 2
        while len(self.levels) <= half:
            self._grow()
        ends = self.levels[half]
        if length % 2 == 0:
            for end, paths in ends.items():
                for (one, a), (other, b) in combinations(paths, 2):
                    if a & b == 1 << self.root | 1 << end:
                        yield one | other
            return
        for p in ends:
            for q in self.neighbors[p]:
                if p < q and q in ends:
                    for one, a in ends[p]:
                        for other, b in ends[q]:
                            if a & b == 1 << self.root:
                                yield one | other | self.bit[p, q]

    def _grow(self) -> None:
        depth = len(self.levels)
        level: dict[int, list[tuple[int, int]]] = {}
        frontier: list[int] = []
        for node in self.frontier:
            for other in self.neighbors[node]:
                if other not in self.distance:
                    self.distance[other] = depth
                    frontier.append(other)
        for node, paths in self.levels[-1].items():
            for other in self.neighbors[node]:
                if other > self.root and self.distance[other] == depth:
                    step = self.bit[min(node, other), max(node, other)]
                    level.setdefault(other, []).extend(
                        (edges | step, nodes | 1 << other) for edges, nodes in paths
                    )
        self.levels.append(level)
        self.frontier = frontier


def _reduced(cycle: int, basis: dict[int, int]) -> int:
    """A cycle reduced by those of the basis; 0 if it is a sum of them."""
    while cycle and cycle.bit_length() in basis:
        cycle ^= basis[cycle.bit_length()]
    return cycle
