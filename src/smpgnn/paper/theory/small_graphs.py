"""Small graphs that the programs of the theory share: the atlas, a few molecules, named pairs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import networkx as nx
import torch
from torch import Tensor

from smpgnn.errors import InputError
from smpgnn.paper.theory.families import prism, rook, shrikhande
from smpgnn.testing import Graph

ATLAS_NODES = 7


@cache
def connected_graphs(max_nodes: int, min_nodes: int = 1) -> tuple[nx.Graph, ...]:
    """All connected graphs of these sizes, one of each isomorphism class, by size."""
    if max_nodes > ATLAS_NODES:
        raise InputError(f"max_nodes must be at most {ATLAS_NODES}, not {max_nodes}.")
    return tuple(
        graph
        for graph in nx.graph_atlas_g()
        if min_nodes <= len(graph) <= max_nodes and len(graph) and nx.is_connected(graph)
    )


def undirected(graph: nx.Graph) -> Graph:
    """The edges of a graph with nodes 0, 1, …, each in both directions."""
    pairs = [pair for a, b in graph.edges for pair in ((a, b), (b, a))]
    edge_index = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T.contiguous()
    return Graph(None, edge_index, num_nodes=len(graph))


def adjacency_matrix(graph: nx.Graph) -> Tensor:
    """A, [n, n] float64."""
    return torch.from_numpy(nx.to_numpy_array(graph, nodelist=range(len(graph)), weight=None))


def renamed(graph: nx.Graph, permutation: Tensor) -> nx.Graph:
    """The same graph with node i renamed permutation[i]."""
    names = permutation.tolist()
    out = nx.Graph()
    out.add_nodes_from(range(len(graph)))
    out.add_edges_from((names[a], names[b]) for a, b in graph.edges)
    return out


def decalin() -> nx.Graph:
    """Two rings of six that share an edge."""
    graph = nx.cycle_graph(10)
    graph.add_edge(0, 5)
    return graph


def bicyclopentyl() -> nx.Graph:
    """Two rings of five joined by an edge: message passing takes it for decalin."""
    graph: nx.Graph = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    graph.add_edge(0, 5)
    return graph


def glycine() -> Graph:
    """Glycine as zwitterion, N⁺–C–C(=O)–O⁻: atoms [number, charge], bonds [order, polarity].

    The polarity is +1 where carbon meets another element, −1 between two carbons.
    """
    x = torch.tensor([[7, 1], [6, 0], [6, 0], [8, 0], [8, -1]], dtype=torch.float64)
    bonds = {(0, 1): (1, 1), (1, 2): (1, -1), (2, 3): (2, 1), (2, 4): (1, 1)}
    pairs = [pair for a, b in bonds for pair in ((a, b), (b, a))]
    values = [value for value in bonds.values() for _ in range(2)]
    return Graph(x, torch.tensor(pairs).T.contiguous(), torch.tensor(values, dtype=torch.float64))


#: Pairs that colour refinement, and so message passing, takes for equal.
PAIRS: dict[str, tuple[Callable[[], nx.Graph], Callable[[], nx.Graph]]] = {
    "prism, K₃,₃": (lambda: prism(3), lambda: nx.complete_bipartite_graph(3, 3)),
    "decalin, bicyclopentyl": (decalin, bicyclopentyl),
    "rook 4×4, Shrikhande": (rook, shrikhande),
}
