"""Theorem 2: a network whose contexts hold the whole graph with its attributes, at every node."""

from __future__ import annotations

import networkx as nx
import numpy as np
import torch
from torch import Tensor

from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError, check_counts
from smpgnn.paper.theory.embedding import adjacency_of, embedding, margins, width_of
from smpgnn.paper.theory.families import rook, shrikhande
from smpgnn.paper.theory.program import Program
from smpgnn.paper.theory.refinement import classes, color_refinement
from smpgnn.paper.theory.small_graphs import (
    PAIRS,
    adjacency_matrix,
    bicyclopentyl,
    connected_graphs,
    decalin,
    glycine,
    renamed,
    undirected,
)
from smpgnn.paper.theory.three_steps import Channels, Decoded, FirstLayer, ThreeStepLayer, decode
from smpgnn.paper.theory.warm_up import receptive_fields
from smpgnn.testing import Graph


def reconstruction(graph: Graph, num_layers: int, max_degree: int | None = None) -> list[Tensor]:
    """U⁽ˡ⁾ for l = 1 … num_layers of the network of Theorem 2, in float64.

    Args:
        graph: one undirected graph without self loops; attributes of edges symmetric.
        num_layers: Δ + 1 let every node reconstruct a connected graph of diameter Δ.
        max_degree: d_max of the class of graphs; that of the graph where not given.

    Shapes: a list of [n, n, 2·d_max + c_X + n·c_Y].
    """
    check_counts(num_layers=num_layers, at_least=1)
    topology = Topology.checked(graph.edge_index, num_nodes=graph.size)
    truth = ground_truth(graph)
    channels = channels_of(graph, max_degree)
    if int(truth.a.sum(dim=1).max()) > channels.max_degree:
        raise InputError(
            f"max_degree {channels.max_degree} is below the largest degree of the graph, "
            f"{int(truth.a.sum(dim=1).max())}."
        )
    index = ContextIndex.build(topology, "onehot", num_layers)
    x = None if graph.x is None else graph.x.double()
    context = index.initial(x, torch.float64)
    edge_attr = None if graph.edge_attr is None else graph.edge_attr.double()
    context = FirstLayer(channels)(context, index, edge_attr)
    contexts = [context]
    later = ThreeStepLayer(channels)
    for _ in range(num_layers - 1):
        contexts.append(later(contexts[-1], index))
    n = graph.size
    return [c.rows.view(n, n, channels.width(n)) for c in contexts]


def channels_of(graph: Graph, max_degree: int | None = None) -> Channels:
    """The channels that Theorem 2 states for a class of graphs that holds this one."""
    degree = int(Topology.checked(graph.edge_index, num_nodes=graph.size).degree.max())
    return Channels(
        degree if max_degree is None else max_degree,
        0 if graph.x is None else graph.x.size(1),
        0 if graph.edge_attr is None else graph.edge_attr.size(1),
    )


def ground_truth(graph: Graph) -> Decoded:
    """The graph as matrices: what each context is to say in the end."""
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
    """The rows of one context, to six decimals, in lexicographic order: what row order hides.

    Contexts that hold graphs which are not isomorphic differ by more than the rounding: some inner
    product is 0 in one and above `MARGIN` in the other.

    Shapes: context [n, c].
    """
    rows = context.round(decimals=6) + 0.0  # no negative zeros
    return rows[np.lexsort(rows.numpy().T[::-1])]


def run() -> None:
    """Show the embedding lemma, the reconstruction, what it tells apart, and its limits."""
    _show_embedding()
    _show_attributes()
    _show_atlas()
    _show_pairs()
    _show_limits()


def _show_embedding() -> None:
    print("Lemma 1: unit vectors in 2·d_max dimensions, orthogonal exactly on edges.")
    print(f"  {'graph':<16} {'n':>3} {'d_max':>6} {'width':>6} {'largest on edges':>17} "
          f"{'smallest off edges':>19}")  # fmt: skip
    named = {
        "K₅": nx.complete_graph(5),
        "K₃,₃": nx.complete_bipartite_graph(3, 3),
        "Petersen": nx.petersen_graph(),
        "decalin": decalin(),
        "bicyclopentyl": bicyclopentyl(),
        "rook 4×4": rook(),
        "Shrikhande": shrikhande(),
    }
    for name, graph in named.items():
        a = adjacency_matrix(graph)
        vectors = embedding(a)
        on, off = margins(vectors, a)
        print(f"  {name:<16} {len(a):>3} {width_of(a) // 2:>6} {vectors.size(1):>6} {on:>17.0e} "
              f"{off:>19.0e}")  # fmt: skip
        assert torch.equal(adjacency_of(vectors), a), f"the vectors are not orthogonal as {name} is"


def _show_attributes() -> None:
    graph = glycine()
    truth, channels, n = ground_truth(graph), channels_of(graph), graph.size
    print(f"\nTheorem 2 on glycine, N⁺–C–C(=O)–O⁻: n = {n}, d_max = {channels.max_degree}, "
          f"c_X = c_Y = 2, Δ = 3, width {channels.width(n)}.")  # fmt: skip
    for number, contexts in enumerate(reconstruction(graph, 3), start=1):
        found = decode(contexts, channels)
        edges, atoms, bonds = (
            int((got == want).flatten(1).all(dim=1).sum())
            for got, want in ((found.a, truth.a), (found.x, truth.x), (found.y, truth.y))
        )
        print(f"  layer {number}: nodes that know all edges {edges}, atoms {atoms}, bonds {bonds}")
    assert all(found.at(i).equals(truth) for i in range(n)), "glycine was not reconstructed"


def _show_atlas() -> None:
    print("\nAll connected graphs, Δ + 1 layers; every context decoded after every layer.")
    print(f"  {'nodes':>5} {'graphs':>7} {'decoded':>8} {'≠ A_i⁽ˡ⁾':>9} "
          f"{'whole at every node':>20} {'distinct':>9} {'renamed: equal':>15}")  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for n in range(2, 7):
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
        print(f"  {n:>5} {len(graphs):>7} {decoded:>8} {wrong:>9} {whole:>20} {len(distinct):>9} "
              f"{equal:>15}")  # fmt: skip
        assert wrong == 0, "a context does not decode to A_i⁽ˡ⁾"
        assert whole == len(distinct) == equal == len(graphs), f"the theorem fails on {n} nodes"


def _show_pairs() -> None:
    print("\nPairs that colour refinement (1-WL) takes for equal:")
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
        assert blind, f"{name} are told apart by colour refinement"
        print(f"  {name:<24} reconstructed at every node after {depth} layers; contexts differ")


def _show_limits() -> None:
    path = receptive_fields(nx.path_graph(3), 1)[0, 0]
    least = float(torch.linalg.eigvalsh(1 - path).min())
    assert least < 0, "11ᵀ − A_i⁽¹⁾ has a square root after all"
    print(f"\nNot as the proof has it: 11ᵀ − A_i⁽¹⁾ has the eigenvalue {least:.2f} at the end of a")
    print("path of 3, so no UUᵀ equals it; layer 1 uses Lemma 1. And on the triangle, exchanging 1")
    print("and 2 changes neither graph nor node 0: a strictly equivariant layer makes U_0[1] and")
    print("U_0[2] equal, never orthogonal. So rows follow a renaming up to automorphisms.")


PROGRAM = Program(
    "reconstruction",
    "Theorem 2: contexts of width 2·d_max + c_X + n·c_Y hold the whole graph at every node",
    run,
)
