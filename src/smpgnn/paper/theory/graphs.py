"""Small graphs that the programs share, and graphs of networkx as tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import networkx as nx
import torch
from scipy.sparse.csgraph import shortest_path
from torch import Tensor

from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError
from smpgnn.testing import Graph

#: The atlas of networkx contains all graphs up to this size.
ATLAS_NODES = 7


def topology(graphs: Sequence[nx.Graph]) -> Topology:
    """A batch of undirected graphs with nodes 0, 1, …, every edge in both directions."""
    edges: list[tuple[int, int]] = []
    batch: list[int] = []
    for number, graph in enumerate(graphs):
        start = len(batch)
        for a, b in graph.edges:
            edges += [(start + a, start + b), (start + b, start + a)]
        batch += [number] * len(graph)
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T.contiguous()
    return Topology.checked(
        edge_index, torch.tensor(batch, dtype=torch.long), num_graphs=len(graphs)
    )


def undirected(graph: nx.Graph) -> Graph:
    """One graph without attributes, as a network takes it."""
    return Graph(None, topology([graph]).edge_index, num_nodes=len(graph))


def adjacency_matrix(graph: nx.Graph) -> Tensor:
    """A, [n, n] float64."""
    return torch.from_numpy(nx.to_numpy_array(graph, nodelist=range(len(graph)), weight=None))


def distances(adjacency: Tensor) -> Tensor:
    """The number of hops between all nodes, inf where there is no path, [n, n]."""
    return torch.from_numpy(shortest_path(adjacency.numpy(), unweighted=True))


def renamed(graph: nx.Graph, permutation: Tensor) -> nx.Graph:
    """The same graph with node i renamed permutation[i]."""
    return nx.relabel_nodes(graph, dict(enumerate(permutation.tolist())))


@cache
def all_graphs() -> tuple[nx.Graph, ...]:
    """One graph of each isomorphism class with 1 to 7 nodes, by size."""
    return tuple(nx.graph_atlas_g()[1:])


@cache
def connected_graphs(max_nodes: int, min_nodes: int = 1) -> tuple[nx.Graph, ...]:
    """The connected ones of these sizes."""
    if max_nodes > ATLAS_NODES:
        raise InputError(f"max_nodes must be at most {ATLAS_NODES}, not {max_nodes}.")
    sized = (graph for graph in all_graphs() if min_nodes <= len(graph) <= max_nodes)
    return tuple(graph for graph in sized if nx.is_connected(graph))


def rook() -> nx.Graph:
    """The squares of a 4×4 board, joined where a rook moves."""
    return nx.convert_node_labels_to_integers(nx.line_graph(nx.complete_bipartite_graph(4, 4)))


def shrikhande() -> nx.Graph:
    """Pairs of numbers modulo 4, joined if they differ by ±(1, 0), ±(0, 1) or ±(1, 1)."""
    graph = nx.Graph()
    for a in range(4):
        for b in range(4):
            for da, db in ((1, 0), (0, 1), (1, 1)):
                graph.add_edge((a, b), ((a + da) % 4, (b + db) % 4))
    return nx.convert_node_labels_to_integers(graph)


def decalin() -> nx.Graph:
    """Two rings of six that share an edge."""
    graph = nx.cycle_graph(10)
    graph.add_edge(0, 5)
    return graph


def bicyclopentyl() -> nx.Graph:
    """Two rings of five joined by an edge: message passing cannot tell it from decalin."""
    graph: nx.Graph = nx.disjoint_union(nx.cycle_graph(5), nx.cycle_graph(5))
    graph.add_edge(0, 5)
    return graph


def glycine() -> Graph:
    """Glycine as a zwitterion, N⁺–C–C(=O)–O⁻: atoms [number, charge], bonds [order, polarity].

    The polarity is +1 between carbon and another element, −1 between two carbons.
    """
    x = torch.tensor([[7, 1], [6, 0], [6, 0], [8, 0], [8, -1]], dtype=torch.float64)
    bonds = {(0, 1): (1, 1), (1, 2): (1, -1), (2, 3): (2, 1), (2, 4): (1, 1)}
    y = torch.tensor(list(bonds.values()), dtype=torch.float64).repeat_interleave(2, dim=0)
    return Graph(x, topology([nx.Graph(list(bonds))]).edge_index, y)


#: Pairs that colour refinement, and therefore message passing, cannot distinguish.
PAIRS: dict[str, tuple[Callable[[], nx.Graph], Callable[[], nx.Graph]]] = {
    "prism, K₃,₃": (
        lambda: nx.circular_ladder_graph(3),
        lambda: nx.complete_bipartite_graph(3, 3),
    ),
    "decalin, bicyclopentyl": (decalin, bicyclopentyl),
    "rook 4×4, Shrikhande": (rook, shrikhande),
}
