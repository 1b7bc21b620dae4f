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
from smpgnn.paper.theory.refinement import classes, color_refinement
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
    degree = int(ground_truth(graph).a.sum(dim=1).max())
    channels = channels_of(graph, max_degree)
    if degree > channels.max_degree:
        raise InputError(
            f"max_degree {channels.max_degree} is below the largest degree of the graph, {degree}."
        )
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
    degree = int(Topology.checked(graph.edge_index, num_nodes=graph.size).degree.max())
    return Channels(
        degree if max_degree is None else max_degree,
        0 if graph.x is None else graph.x.size(1),
        0 if graph.edge_attr is None else graph.edge_attr.size(1),
    )


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


def run(max_nodes: int = 6) -> None:
    """Show the embedding lemma, the reconstruction, what it distinguishes, and its limits.

    Args:
        max_nodes: reconstruct all connected graphs up to this size.
    """
    _show_embedding()
    _show_attributes()
    _show_small_graphs(max_nodes)
    _show_pairs()
    _show_limits()


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
    print("Lemma 1: unit vectors in 2·d_max dimensions and their inner products.")
    print_table(table)


def _show_attributes() -> None:
    graph = glycine()
    truth, channels, n = ground_truth(graph), channels_of(graph), graph.size
    table: list[list[object]] = [["layer", "know all edges", "all atoms", "all bonds"]]
    for number, contexts in enumerate(reconstruction(graph, 3), start=1):
        found = decode(contexts, channels)
        pairs = ((found.a, truth.a), (found.x, truth.x), (found.y, truth.y))
        table.append([number, *(int((f == t).flatten(1).all(dim=1).sum()) for f, t in pairs)])
    assert all(found.at(i).equals(truth) for i in range(n)), "glycine was not reconstructed"
    print(f"\nTheorem 2 on glycine, N⁺–C–C(=O)–O⁻: n = {n}, d_max = {channels.max_degree}, "
          f"c_X = c_Y = 2, Δ = 3, width {channels.width(n)}.")  # fmt: skip
    print("How many of its nodes have learned its attributes:")
    print_table(table)


def _show_small_graphs(max_nodes: int) -> None:
    table: list[list[object]] = [
        ["nodes", "graphs", "decoded", "≠ A_i⁽ˡ⁾", "whole at every node", "distinct",
         "renamed: equal"]
    ]  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for n in range(2, max_nodes + 1):
        graphs = connected_graphs(n, n)
        decoded = wrong = whole = equal = 0
        distinct = set()
        for graph in graphs:
            depth = nx.diameter(graph) + 1
            layers = reconstruction(undirected(graph), depth, n - 1)
            found = torch.stack([decode(contexts, Channels(n - 1)).a for contexts in layers])
            decoded += depth * n
            wrong += int((found != receptive_fields(graph, depth)).flatten(2).any(dim=2).sum())
            whole += bool((found[-1] == adjacency_matrix(graph)).all())
            first = sorted_rows(layers[-1][0])
            distinct.add(first.numpy().tobytes())
            copy = renamed(graph, torch.randperm(n, generator=generator))
            others = reconstruction(undirected(copy), depth, n - 1)[-1]
            equal += all(torch.equal(first, sorted_rows(other)) for other in others)
        assert wrong == 0, "a context does not decode to A_i⁽ˡ⁾"
        assert whole == len(distinct) == equal == len(graphs), f"the theorem fails on {n} nodes"
        table.append([n, len(graphs), decoded, wrong, whole, len(distinct), equal])
    print("\nAll connected graphs, Δ + 1 layers; every context is decoded after every layer.")
    print_table(table)


def _show_pairs() -> None:
    print("\nPairs that colour refinement (1-WL) cannot distinguish:")
    for name, pair in PAIRS.items():
        graphs = [make() for make in pair]
        depth = max(nx.diameter(graph) for graph in graphs) + 1
        ends = [reconstruction(undirected(graph), depth)[-1] for graph in graphs]
        for graph, contexts in zip(graphs, ends, strict=True):
            found = decode(contexts, channels_of(undirected(graph))).a
            assert (found == adjacency_matrix(graph)).all(), f"{name} was not reconstructed"
        one, two = (sorted_rows(contexts[0]) for contexts in ends)
        assert not torch.equal(one, two), f"{name} have equal contexts"
        blind = len(set(classes(graphs, color_refinement))) == 1
        assert blind, f"colour refinement distinguishes {name}"
        print(f"  {name:<24} reconstructed at every node after {depth} layers; contexts differ")


def _show_limits() -> None:
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
