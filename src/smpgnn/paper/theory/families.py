"""Families of graphs that are hard to distinguish."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import networkx as nx

from smpgnn.errors import InputError
from smpgnn.paper.theory.graphs import all_graphs, rook, shrikhande
from smpgnn.paper.theory.ladder import color_refinement
from smpgnn.paper.theory.programs import FAMILY_NAMES
from smpgnn.paper.theory.refinement import classes

#: Chord lengths of the circular skip links of Murphy et al. (2019), on 41 nodes.
SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
CSL_NODES = 41


@dataclass(frozen=True)
class Family:
    """Graphs, and the pairs of them to be distinguished; no pair is isomorphic."""

    text: str  # what the graphs are, in one line
    graphs: tuple[nx.Graph, ...]  # with nodes 0, 1, …
    pairs: tuple[tuple[int, int], ...]  # indices into `graphs`


def regular() -> Family:
    """Two regular graphs of the same size and degree: colour refinement gives all nodes one colour.

    A ring and two smaller ones, prisms and Möbius ladders, and random regular graphs, drawn until
    two are not isomorphic.
    """
    rings = [
        (nx.cycle_graph(a + b), nx.disjoint_union(nx.cycle_graph(a), nx.cycle_graph(b)))
        for a, b in ((3, 3), (3, 4), (4, 4), (4, 5), (5, 5), (6, 6))
    ]
    ladders = [
        (nx.circular_ladder_graph(n), nx.circulant_graph(2 * n, [1, n])) for n in range(3, 9)
    ]
    random = [_random_regular(n, degree) for n in (8, 10, 12, 14) for degree in (3, 4)]
    text = "two regular graphs of equal size and degree"
    return of_pairs(text, [*rings, *ladders, *random])


def csl() -> Family:
    """Circular skip links: a ring of 41 nodes with chords of one length, 10 graphs."""
    graphs = tuple(nx.circulant_graph(CSL_NODES, [1, skip]) for skip in SKIPS)
    text = f"circular skip links: a ring of {CSL_NODES} nodes with chords of one length"
    return Family(text, graphs, tuple(combinations(range(len(graphs)), 2)))


def cfi() -> Family:
    """Graphs of Cai, Fürer and Immerman (1992), straight and twisted, over small base graphs.

    If the base has treewidth t, k-dimensional folklore refinement distinguishes the two iff k ≥ t:
    rings, the diamond, K₂,₃ and ladders have treewidth 2, K₄, the wheel, K₃,₃ and the prism 3.
    Ladders with four or more rungs separate the refinement of contexts from the folklore one.
    """
    bases = (
        nx.cycle_graph(3),
        nx.cycle_graph(4),
        nx.diamond_graph(),
        nx.complete_bipartite_graph(2, 3),
        nx.ladder_graph(4),
        nx.ladder_graph(5),
        nx.complete_graph(4),
        nx.wheel_graph(5),
        nx.complete_bipartite_graph(3, 3),
        nx.circular_ladder_graph(3),
    )
    pairs = [(cfi_graph(base, twisted=False), cfi_graph(base, twisted=True)) for base in bases]
    return of_pairs("CFI graphs, straight and twisted, over small base graphs", pairs)


def strongly_regular() -> Family:
    """The 4×4 rook's graph and the Shrikhande graph: strongly regular, both (16, 6, 2, 2)."""
    text = "strongly regular graphs (16, 6, 2, 2): the 4×4 rook's graph and Shrikhande's"
    return of_pairs(text, [(rook(), shrikhande())])


def atlas() -> Family:
    """All graphs with up to 7 nodes that colour refinement cannot tell from another one."""
    members = defaultdict(list)
    for graph, kind in zip(all_graphs(), classes(all_graphs(), color_refinement), strict=True):
        members[kind].append(graph)
    graphs: list[nx.Graph] = []
    pairs: list[tuple[int, int]] = []
    for alike in members.values():
        if len(alike) > 1:
            pairs += combinations(range(len(graphs), len(graphs) + len(alike)), 2)
            graphs += alike
    text = "all graphs with up to 7 nodes, the pairs that colour refinement takes for equal"
    return Family(text, tuple(graphs), tuple(pairs))


FAMILIES: dict[str, Callable[[], Family]] = dict(
    zip(FAMILY_NAMES, (regular, csl, cfi, strongly_regular, atlas), strict=True)
)


def cfi_graph(base: nx.Graph, *, twisted: bool) -> nx.Graph:
    """The CFI graph over a connected base graph.

    It has a node (v, S) for every node v of the base and every set S of an even number of edges at
    v (an odd number for one v if `twisted`). It joins (v, S) and (w, T) if vw is an edge that is in
    both sets or in neither.
    """
    if len(base) == 0 or not nx.is_connected(base):
        raise InputError("base must be a connected graph with at least one node.")
    first = next(iter(base))
    graph = nx.Graph()
    sets: dict[Any, list[frozenset[frozenset[Any]]]] = {}
    for v in base:
        edges = [frozenset((v, w)) for w in base[v]]
        sizes = range(int(twisted and v == first), len(edges) + 1, 2)
        sets[v] = [frozenset(chosen) for size in sizes for chosen in combinations(edges, size)]
        graph.add_nodes_from((v, chosen) for chosen in sets[v])
    for v, w in base.edges:
        edge = frozenset((v, w))
        graph.add_edges_from(
            ((v, s), (w, t)) for s in sets[v] for t in sets[w] if (edge in s) == (edge in t)
        )
    return nx.convert_node_labels_to_integers(graph)


def _random_regular(n: int, degree: int) -> tuple[nx.Graph, nx.Graph]:
    first = nx.random_regular_graph(degree, n, seed=0)
    seed = 1
    while nx.is_isomorphic(first, second := nx.random_regular_graph(degree, n, seed=seed)):
        seed += 1
    return first, second


def of_pairs(text: str, pairs: Iterable[tuple[nx.Graph, nx.Graph]]) -> Family:
    """Single pairs as a family."""
    graphs = tuple(nx.convert_node_labels_to_integers(graph) for pair in pairs for graph in pair)
    return Family(text, graphs, tuple((k, k + 1) for k in range(0, len(graphs), 2)))
