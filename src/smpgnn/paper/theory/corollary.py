r"""Corollary 1: any function of the graph from the context of any node.

.. math:: f_\text{eq} = \sigma \circ f, \qquad
          f_\text{in} = \frac1n \sum_{v_i \in V} \sigma \circ f

f is the network of Theorem 2. σ does what a universal network for sets would have to do: it decodes
the context and computes a function of the graph it finds.
"""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import torch
from torch import Tensor

from smpgnn.paper.theory.graphs import decalin, distances, undirected
from smpgnn.paper.theory.reconstruction import channels_of, reconstruction
from smpgnn.paper.theory.tables import print_table
from smpgnn.paper.theory.three_steps import decode

#: A function h of an adjacency matrix [n, n], with one value per node [n].
GraphFunction = Callable[[Tensor], Tensor]


def eccentricities(a: Tensor) -> Tensor:
    """The distance to the node furthest away, one value per node: equivariant."""
    return distances(a).max(dim=1).values


def triangles(a: Tensor) -> Tensor:
    """The number of triangles, tr(A³)/6, the same for each node: invariant."""
    return ((a @ a @ a).trace() / 6).expand(a.size(0))


def is_connected(a: Tensor) -> Tensor:
    """1 if every node reaches every other, else 0, the same for each node: invariant."""
    return distances(a).isfinite().all().to(a.dtype).expand(a.size(0))


def layers_needed(graph: nx.Graph) -> int:
    """Δ + 1, for the component with the largest diameter Δ."""
    parts = (graph.subgraph(part) for part in nx.connected_components(graph))
    return 1 + max(int(nx.diameter(part)) for part in parts)


def known_graphs(graph: nx.Graph, num_layers: int | None = None) -> Tensor:
    """A according to the context of each node after the last layer, [n, n, n].

    Args:
        graph: with nodes 0 … n − 1.
        num_layers: of the network of Theorem 2, by default `layers_needed`.
    """
    edges = undirected(graph)
    contexts = reconstruction(edges, num_layers or layers_needed(graph))[-1]
    return decode(contexts, channels_of(edges)).a


def ask(known: Tensor, function: GraphFunction) -> Tensor:
    """h(A) according to each node: row i is the answer of node i, [n, n]."""
    return torch.stack([function(a) for a in known])


def equivariant(answers: Tensor) -> Tensor:
    """f_eq: each node's answer for itself, [n, n] to [n]."""
    return answers.diagonal()


def invariant(answers: Tensor) -> float:
    """f_in = (1/n) Σ_i: the mean over nodes of what each answers for itself."""
    return float(equivariant(answers).mean())


def run() -> None:
    """Ask every node of a few graphs for equivariant and invariant functions of its graph."""
    named = {
        "decalin": decalin(),
        "Petersen": nx.petersen_graph(),
        "prism": nx.circular_ladder_graph(3),
        "bull": nx.bull_graph(),
        "two triangles": nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3)),
        "triangle and path": nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4)),
    }
    table: list[list[object]] = [
        ["graph", "layers", "eccentricities (f_eq)", "triangles", "connected", "nodes that agree"]
    ]
    for name, graph in named.items():
        known, n = known_graphs(graph), len(graph)
        answers = [ask(known, function) for function in (eccentricities, triangles, is_connected)]
        together = torch.cat(answers, dim=1)
        agree = int((together == together[0]).all(dim=1).sum())
        connected = nx.is_connected(graph)
        assert invariant(answers[2]) == float(connected), f"connectivity of {name}"
        shown = ["–", "–"]
        if connected:
            truth = [float(nx.eccentricity(graph, i)) for i in range(n)]
            count = sum(nx.triangles(graph).values()) / 3
            assert equivariant(answers[0]).tolist() == truth, f"eccentricity of {name}"
            assert invariant(answers[1]) == count, f"triangles of {name}"
            assert agree == n, f"the nodes of {name} disagree"
            shown = [_digits(equivariant(answers[0])), f"{count:.0f}"]
        yes = "yes" if connected else "no"
        table.append([name, layers_needed(graph), *shown, yes, f"{agree} of {n}"])
    parted = equivariant(ask(known_graphs(named["triangle and path"]), triangles))
    early = invariant(ask(known_graphs(nx.cycle_graph(3), num_layers=1), triangles))
    assert early == 0, "one layer tells a node about the edge opposite"
    print("σ ∘ f: each node decodes its context and computes a function of the whole graph.\n")
    print_table(table)
    print("\nAll nodes of a connected graph give the same, correct answer. Otherwise each node")
    print("knows its own component only: it sees that the graph is not connected, since the other")
    print(f"rows stay without edges, but the nodes of 'triangle and path' count {_digits(parted)}")
    print(f"triangles. Δ layers may be too few: after one (Δ = 1) the nodes of a triangle count "
          f"{early:.0f}.")  # fmt: skip


def _digits(values: Tensor) -> str:
    return " ".join(f"{value:.0f}" for value in values.tolist())
