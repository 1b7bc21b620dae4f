"""Theorem 2: a network whose contexts hold the whole graph with its attributes, at every node."""

from __future__ import annotations

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError, check_counts
from smpgnn.paper.theory.embedding import adjacency_of, embedding, margins
from smpgnn.paper.theory.graphs import (
    PAIRS,
    adjacency_matrix,
    bicyclopentyl,
    connected_graphs,
    decalin,
    glycine,
    renamed,
    rook,
    shrikhande,
    undirected,
)
from smpgnn.paper.theory.ladder import color_refinement
from smpgnn.paper.theory.refinement import classes
from smpgnn.paper.theory.tables import power, print_table
from smpgnn.paper.theory.three_steps import Channels, Decoded, FirstLayer, ThreeStepLayer, decode
from smpgnn.paper.theory.warm_up import receptive_fields
from smpgnn.testing import Graph


def reconstruction(graph: Graph, num_layers: int, max_degree: int | None = None) -> list[Tensor]:
    """U⁽ˡ⁾ for l = 1 … num_layers of the network of Theorem 2, in float64.

    Args:
        graph: one undirected graph without self loops; edge attributes must be symmetric.
        num_layers: Δ + 1 let every node reconstruct a connected graph of diameter Δ.
        max_degree: d_max of the class of graphs, by default that of the graph.

    Shapes: a list of [n, n, 2·d_max + c_X + n·c_Y].
    """
    check_counts(num_layers=num_layers, at_least=1)
    topology = Topology.checked(graph.edge_index, num_nodes=graph.size)
    channels = channels_of(graph, max_degree)
    index = ContextIndex.build(topology, "onehot", num_layers)
    x = None if graph.x is None else graph.x.double()
    edge_attr = None if graph.edge_attr is None else graph.edge_attr.double()
    context = FirstLayer(channels)(index.initial(x, torch.float64), index, edge_attr)
    contexts = [context]
    for _ in range(num_layers - 1):
        contexts.append(ThreeStepLayer(channels)(contexts[-1], index))
    return [context.rows.view(graph.size, graph.size, -1) for context in contexts]


def channels_of(graph: Graph, max_degree: int | None = None) -> Channels:
    """The channels that Theorem 2 states for a class of graphs that contains this one."""
    truth = ground_truth(graph)
    degree = int(truth.a.sum(dim=1).max())
    if max_degree is None:
        max_degree = degree
    if max_degree < degree:
        raise InputError(
            f"max_degree {max_degree} is below the largest degree of the graph, {degree}."
        )
    return Channels(max_degree, truth.x.size(1), truth.y.size(0))


def ground_truth(graph: Graph) -> Decoded:
    """The graph as matrices: what each context should say in the end."""
    n = graph.size
    if n == 0:
        raise InputError("graph has no node: give it at least one.")
    sender, receiver = graph.edge_index
    a = torch.zeros(n, n, dtype=torch.float64)
    a.index_put_((receiver, sender), torch.ones(1, dtype=torch.float64), accumulate=True)
    if not torch.equal(a, a.T) or a.diagonal().any() or (a > 1).any():
        raise InputError(
            "graph must be simple: every edge once in each direction, and no self loops."
        )
    x = torch.zeros(n, 0, dtype=torch.float64) if graph.x is None else graph.x.double()
    channels = 0 if graph.edge_attr is None else graph.edge_attr.size(1)
    y = torch.zeros(channels, n, n, dtype=torch.float64)
    if graph.edge_attr is not None:
        y[:, receiver, sender] = graph.edge_attr.double().T
    if not torch.equal(y, y.transpose(-1, -2)):
        raise InputError("edge_attr must be the same in both directions of an edge.")
    return Decoded(a, x, y)


def sorted_rows(context: Tensor) -> Tensor:
    """The rows of one context, to six decimals, in lexicographic order: equal up to row order.

    The contexts of graphs that are not isomorphic differ by more than this rounding: some inner
    product is 0 in one and above `MARGIN` in the other.

    Shapes: context [n, c].
    """
    rows = context.round(decimals=6) + 0.0  # no negative zeros
    return rows[np.lexsort(rows.numpy().T[::-1])]


def check(graph: nx.Graph, depth: int, max_degree: int | None = None) -> Tensor:
    """The contexts after `depth` layers, [n, n, width].

    Raises `AssertionError` unless every context after every layer l decodes to A_i⁽ˡ⁾, and after
    the last layer to A.
    """
    edges = undirected(graph)
    layers = reconstruction(edges, depth, max_degree)
    found = decode(torch.stack(layers), channels_of(edges, max_degree)).a
    name = f"the graph {list(graph.edges)}"
    assert torch.equal(found, receptive_fields(graph, depth)), f"{name}: a context is not A_i⁽ˡ⁾"
    assert bool((found[-1] == adjacency_matrix(graph)).all()), f"{name} was not reconstructed"
    return layers[-1]


def run(max_nodes: int = 6) -> None:
    """Show the embedding lemma, the reconstruction, what it distinguishes, and its limits.

    Args:
        max_nodes: reconstruct all connected graphs up to this size.
    """
    print("Lemma 1: unit vectors in 2·d_max dimensions and their inner products.")
    _show_embedding()
    print("\nTheorem 2 on glycine, N⁺–C–C(=O)–O⁻, with attributes of atoms and bonds:")
    _show_attributes()
    print(
        "\nAll connected graphs, Δ + 1 layers. Every context after every layer decodes to A_i⁽ˡ⁾,"
    )
    print("the last to A; renamed copies have the same rows, other graphs have others.")
    _show_small_graphs(max_nodes)
    print("\nPairs that colour refinement (1-WL) cannot distinguish:")
    _show_pairs()
    path = receptive_fields(nx.path_graph(3), 1)[0, 0]
    least = float(torch.linalg.eigvalsh(1 - path).min())
    assert least < 0, "11ᵀ − A_i⁽¹⁾ has a square root after all"
    print(
        f"\nUnlike the proof: 11ᵀ − A_i⁽¹⁾ has the eigenvalue {least:.2f} at the end of a path of"
    )
    print(
        "3, so it is not UUᵀ for any U; layer 1 uses Lemma 1 instead. On the triangle, exchanging"
    )
    print("1 and 2 changes neither the graph nor node 0: a strictly equivariant layer makes U_0[1]")
    print("and U_0[2] equal, never orthogonal. Rows follow a renaming up to automorphisms only.")


def _show_embedding() -> None:
    named = {
        "K₅": nx.complete_graph(5),
        "K₃,₃": nx.complete_bipartite_graph(3, 3),
        "Petersen": nx.petersen_graph(),
        "decalin": decalin(),
        "bicyclopentyl": bicyclopentyl(),
        "rook 4×4": rook(),
        "Shrikhande": shrikhande(),
    }
    table: list[list[object]] = [["graph", "n", "width", "largest on edges", "smallest off edges"]]
    for name, graph in named.items():
        a = adjacency_matrix(graph)
        vectors = embedding(a)
        on, off = margins(vectors, a)
        assert torch.equal(adjacency_of(vectors), a), f"the vectors are not orthogonal as {name} is"
        table.append([name, len(a), vectors.size(1), power(on), power(off)])
    print_table(table)


def _show_attributes() -> None:
    graph = glycine()
    truth, channels, n = ground_truth(graph), channels_of(graph), graph.size
    table: list[list[object]] = [["layer", "width", "know all edges", "all atoms", "all bonds"]]
    for number, contexts in enumerate(reconstruction(graph, 3), start=1):
        found = decode(contexts, channels)
        pairs = ((found.a, truth.a), (found.x, truth.x), (found.y, truth.y))
        known = [f"{int((f == t).flatten(1).all(dim=1).sum())} of {n}" for f, t in pairs]
        table.append([number, channels.width(n), *known])
    assert all(found.at(i).equals(truth) for i in range(n)), "glycine was not reconstructed"
    print_table(table)


def _show_small_graphs(max_nodes: int) -> None:
    table: list[list[object]] = [["nodes", "graphs", "decoded", "distinct"]]
    generator = torch.Generator().manual_seed(0)
    for n in range(2, max_nodes + 1):
        graphs = connected_graphs(n, n)
        decoded, distinct = 0, set()
        for graph in graphs:
            depth = nx.diameter(graph) + 1
            first = sorted_rows(check(graph, depth, n - 1)[0])
            copy = renamed(graph, torch.randperm(n, generator=generator))
            for context in check(copy, depth, n - 1):
                assert torch.equal(first, sorted_rows(context)), f"a copy of {graph.edges} differs"
            decoded += 2 * depth * n
            distinct.add(first.numpy().tobytes())
        assert len(distinct) == len(graphs), f"two graphs with {n} nodes have equal contexts"
        table.append([n, len(graphs), decoded, len(distinct)])
    print_table(table)


def _show_pairs() -> None:
    for name, pair in PAIRS.items():
        graphs = [make() for make in pair]
        depth = max(nx.diameter(graph) for graph in graphs) + 1
        one, two = (sorted_rows(check(graph, depth)[0]) for graph in graphs)
        assert not torch.equal(one, two), f"{name} have equal contexts"
        blind = len(set(classes(graphs, color_refinement))) == 1
        assert blind, f"colour refinement distinguishes {name}"
        print(f"  {name:<24} reconstructed at every node after {depth} layers; contexts differ")
