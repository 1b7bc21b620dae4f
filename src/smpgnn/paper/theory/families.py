"""Families of graphs that are hard to tell apart, generated on the spot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import networkx as nx
import torch

from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError
from smpgnn.paper.theory.refinement import classes, color_refinement

#: The lengths of the skips of the circular skip links of Murphy et al. (2019), on 41 nodes.
SKIPS = (2, 3, 4, 5, 6, 9, 11, 12, 13, 16)
CSL_NODES = 41


@dataclass(frozen=True)
class Family:
    """Graphs, and the pairs of them that are to be told apart; no pair is isomorphic.

    Args:
        name: the word for it on the command line.
        text: what the graphs are, in one line.
        graphs: the graphs, with nodes 0, 1, ….
        pairs: places in `graphs`.
    """

    name: str
    text: str
    graphs: tuple[nx.Graph, ...]
    pairs: tuple[tuple[int, int], ...]


def topology(graphs: Sequence[nx.Graph]) -> Topology:
    """A batch of undirected graphs with nodes 0, 1, …, every edge in both directions."""
    edges: list[tuple[int, int]] = []
    batch: list[int] = []
    for number, graph in enumerate(graphs):
        start = len(batch)
        for a, b in graph.edges:
            edges += [(start + a, start + b), (start + b, start + a)]
        batch += [number] * graph.number_of_nodes()
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T.contiguous()
    return Topology.checked(
        edge_index, torch.tensor(batch, dtype=torch.long), num_graphs=len(graphs)
    )


def regular() -> Family:
    """Two regular graphs of the same size and degree: colour refinement sees one node in both.

    A ring against two smaller ones, prisms against Möbius ladders, K₃,₃ against the prism, and
    random regular graphs drawn until two are not isomorphic.
    """
    found = [(nx.cycle_graph(a + b), _union(nx.cycle_graph(a), nx.cycle_graph(b)))
             for a, b in ((3, 3), (3, 4), (4, 4), (4, 5), (5, 5), (6, 6))]  # fmt: skip
    found += [(prism(n), moebius_ladder(n)) for n in (3, 4, 5, 6, 7, 8)]
    found += [_random_regular(n, degree) for n in (8, 10, 12, 14) for degree in (3, 4)]
    return _of_pairs("regular", "two regular graphs of equal size and degree", found)


def csl() -> Family:
    """Circular skip links: a ring of 41 nodes and the chords of one length, 10 graphs."""
    graphs = tuple(nx.circulant_graph(CSL_NODES, [1, skip]) for skip in SKIPS)
    text = f"circular skip links: a ring of {CSL_NODES} nodes with chords of one length"
    return Family("csl", text, graphs, tuple(combinations(range(len(graphs)), 2)))


def cfi() -> Family:
    """Graphs of Cai, Fürer and Immerman (1992), straight and twisted, over small base graphs.

    With a base of treewidth t, k-dimensional folklore refinement tells the two apart iff k ≥ t:
    rings, the diamond, K₂,₃ and ladders have treewidth 2, K₄, the wheel, K₃,₃ and the prism 3.
    Ladders of four and more rungs part the refinement of contexts from the folklore one.
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
        prism(3),
    )
    pairs = [(cfi_graph(base, twisted=False), cfi_graph(base, twisted=True)) for base in bases]
    return _of_pairs("cfi", "CFI graphs, straight and twisted, over small base graphs", pairs)


def strongly_regular() -> Family:
    """The 4×4 rook's graph and the Shrikhande graph: strongly regular, both (16, 6, 2, 2)."""
    text = "strongly regular graphs (16, 6, 2, 2): the 4×4 rook's graph and Shrikhande's"
    return _of_pairs("strongly-regular", text, [(rook(), shrikhande())])


def atlas() -> Family:
    """All graphs with up to 7 nodes that share their colour refinement with another one."""
    everything = [graph for graph in nx.graph_atlas_g() if graph.number_of_nodes()]
    kind = classes(everything, color_refinement)
    members: dict[int, list[int]] = {}
    for place, number in enumerate(kind):
        members.setdefault(number, []).append(place)
    several = [places for places in members.values() if len(places) > 1]
    kept = [place for places in several for place in places]
    new = {place: number for number, place in enumerate(kept)}
    pairs = tuple((new[a], new[b]) for places in several for a, b in combinations(places, 2))
    text = "all graphs with up to 7 nodes, the pairs that colour refinement takes for equal"
    return Family("atlas", text, tuple(everything[place] for place in kept), pairs)


FAMILIES: dict[str, Callable[[], Family]] = {
    "regular": regular,
    "csl": csl,
    "cfi": cfi,
    "strongly-regular": strongly_regular,
    "atlas": atlas,
}


def family(name: str) -> Family:
    """The family of this name."""
    if name not in FAMILIES:
        raise InputError(f"families must be of {', '.join(FAMILIES)}, not {name!r}.")
    return FAMILIES[name]()


def prism(n: int) -> nx.Graph:
    """Two rings of n nodes, joined node by node."""
    return nx.circular_ladder_graph(n)


def moebius_ladder(n: int) -> nx.Graph:
    """A ring of 2n nodes, each joined to the one opposite; K₃,₃ for n = 3."""
    return nx.circulant_graph(2 * n, [1, n])


def rook() -> nx.Graph:
    """The squares of a 4×4 board, joined where a rook moves."""
    return _numbered(nx.line_graph(nx.complete_bipartite_graph(4, 4)))


def shrikhande() -> nx.Graph:
    """Pairs of numbers modulo 4, joined where they differ by ±(1, 0), ±(0, 1) or ±(1, 1)."""
    graph = nx.Graph()
    for a in range(4):
        for b in range(4):
            for da, db in ((1, 0), (0, 1), (1, 1)):
                graph.add_edge((a, b), ((a + da) % 4, (b + db) % 4))
    return _numbered(graph)


def cfi_graph(base: nx.Graph, *, twisted: bool) -> nx.Graph:
    """The CFI graph over a connected base graph.

    A node (v, S) for every node v of the base and every set S of edges at v of even size, for one v
    of odd size if `twisted`; (v, S) and (w, T) are joined where vw is an edge that is in both sets
    or in neither.
    """
    if base.number_of_nodes() == 0 or not nx.is_connected(base):
        raise InputError("base must be a connected graph with at least one node.")
    first = next(iter(base))
    graph = nx.Graph()
    sets: dict[Any, list[frozenset[frozenset[Any]]]] = {}
    for v in base:
        edges = [frozenset((v, w)) for w in base[v]]
        odd = twisted and v == first
        sizes = range(int(odd), len(edges) + 1, 2)
        sets[v] = [frozenset(chosen) for size in sizes for chosen in combinations(edges, size)]
        graph.add_nodes_from((v, chosen) for chosen in sets[v])
    for v, w in base.edges:
        edge = frozenset((v, w))
        graph.add_edges_from(
            ((v, s), (w, t)) for s in sets[v] for t in sets[w] if (edge in s) == (edge in t)
        )
    return _numbered(graph)


def _random_regular(n: int, degree: int) -> tuple[nx.Graph, nx.Graph]:
    first = nx.random_regular_graph(degree, n, seed=0)
    seed = 1
    while nx.is_isomorphic(first, second := nx.random_regular_graph(degree, n, seed=seed)):
        seed += 1
    return first, second


def _of_pairs(name: str, text: str, pairs: Sequence[tuple[nx.Graph, nx.Graph]]) -> Family:
    graphs = tuple(_numbered(graph) for pair in pairs for graph in pair)
    return Family(name, text, graphs, tuple((2 * k, 2 * k + 1) for k in range(len(pairs))))


def _union(first: nx.Graph, second: nx.Graph) -> nx.Graph:
    return nx.disjoint_union(first, second)


def _numbered(graph: nx.Graph) -> nx.Graph:
    return nx.convert_node_labels_to_integers(graph)
