r"""Corollary 1: any function of the graph from the context of any node.

.. math:: f_\text{eq} = \sigma \circ f, \qquad
          f_\text{in} = \frac1n \sum_{v_i \in V} \sigma \circ f

f is the network of Theorem 2, and σ what a universal network for sets would have to compute: it
decodes the context and computes the function of the graph that it finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import networkx as nx
import torch
from torch import Tensor

from smpgnn.paper.theory.program import Program
from smpgnn.paper.theory.reconstruction import channels_of, reconstruction
from smpgnn.paper.theory.small_graphs import decalin, undirected
from smpgnn.paper.theory.three_steps import Channels, decode


@dataclass(frozen=True)
class SetFunction:
    """A function σ of one context, through the matrix that it holds.

    Args:
        name: what it computes.
        of_graph: from the adjacency matrix [n, n] to one value a node, [n].
    """

    name: str
    of_graph: Callable[[Tensor], Tensor]

    def __call__(self, context: Tensor, channels: Channels) -> Tensor:
        """h(A) as one node knows it. Shapes: context [n, width], returns [n]."""
        return self.of_graph(decode(context, channels).a)


def hops(a: Tensor) -> Tensor:
    """Distances from a matrix alone: the least power of A + I that has a path, [n, n]."""
    n = a.size(0)
    reached = torch.eye(n, dtype=a.dtype)
    found = torch.where(reached > 0, 0.0, torch.inf).to(a.dtype)
    for hop in range(1, n):
        reached = ((reached @ a + reached) > 0).to(a.dtype)
        found = torch.where((reached > 0) & found.isinf(), float(hop), found)
    return found


def eccentricities(a: Tensor) -> Tensor:
    """The distance to the node furthest away, one for each node: equivariant."""
    return hops(a).max(dim=1).values


def triangles(a: Tensor) -> Tensor:
    """The number of triangles, tr(A³)/6, the same for each node: invariant."""
    return ((a @ a @ a).trace() / 6).expand(a.size(0))


def is_connected(a: Tensor) -> Tensor:
    """1 where every node reaches every other, else 0, the same for each node: invariant."""
    return hops(a).isfinite().all().to(a.dtype).expand(a.size(0))


ECCENTRICITY = SetFunction("eccentricity", eccentricities)
TRIANGLES = SetFunction("triangles", triangles)
CONNECTED = SetFunction("connected", is_connected)


@dataclass(frozen=True, eq=False)
class Contexts:
    """The contexts of all nodes after the last layer, [n, n, width], and their channels."""

    values: Tensor
    channels: Channels
    num_layers: int

    @classmethod
    def of(cls, graph: nx.Graph, num_layers: int | None = None) -> Contexts:
        """Run the network of Theorem 2; Δ + 1 layers, Δ of the largest part, unless given."""
        if num_layers is None:
            parts = (graph.subgraph(part) for part in nx.connected_components(graph))
            num_layers = 1 + max(nx.diameter(part) for part in parts)
        edges = undirected(graph)
        return cls(reconstruction(edges, num_layers)[-1], channels_of(edges), num_layers)

    def ask(self, function: SetFunction) -> Tensor:
        """h(A) as each node knows it: row i is the answer of node i, [n, n]."""
        return torch.stack([function(context, self.channels) for context in self.values])


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
    print("σ ∘ f: each node decodes its context and computes the function of the whole graph.\n")
    print(f"{'graph':<18} {'n':>3} {'layers':>7} {'eccentricities (f_eq)':<25} {'triangles':>10} "
          f"{'connected':>10} {'nodes that agree':>17}")  # fmt: skip
    for name, graph in named.items():
        contexts, n = Contexts.of(graph), len(graph)
        eccentricity, count, connected = (
            contexts.ask(function) for function in (ECCENTRICITY, TRIANGLES, CONNECTED)
        )
        whole = nx.is_connected(graph)
        assert invariant(connected) == float(whole), f"connectivity of {name}"
        everything = torch.cat([eccentricity, count, connected], dim=1)
        agree = int((everything == everything[0]).all(dim=1).sum())
        text = shown = "–"
        if whole:
            truth = [float(nx.eccentricity(graph, i)) for i in range(n)]
            total = sum(nx.triangles(graph).values()) / 3
            assert equivariant(eccentricity).tolist() == truth, f"eccentricity of {name}"
            assert invariant(count) == total, f"triangles of {name}"
            assert agree == n, f"the nodes of {name} disagree"
            text, shown = _digits(equivariant(eccentricity)), f"{total:.0f}"
        print(f"{name:<18} {n:>3} {contexts.num_layers:>7} {text:<25} {shown:>10} "
              f"{'yes' if whole else 'no':>10} {f'{agree} of {n}':>17}")  # fmt: skip
    parted = equivariant(Contexts.of(named["triangle and path"]).ask(TRIANGLES))
    early = invariant(Contexts.of(nx.cycle_graph(3), num_layers=1).ask(TRIANGLES))
    assert early == 0, "one layer tells a node of the edge opposite"
    print(
        "\nAll nodes of a connected graph give one answer, the true one. In parts, each node knows"
    )
    print("its own part only: it sees that the graph is not connected (the other rows stay without")
    print(f"an edge), but the nodes of 'triangle and path' count {_digits(parted)} triangles.")
    print(f"Δ layers may not do: with one (Δ = 1) the nodes of a triangle count {early:.0f}.")


def _digits(values: Tensor) -> str:
    return " ".join(f"{value:.0f}" for value in values.tolist())


PROGRAM = Program(
    "corollary",
    "Corollary 1: equivariant and invariant functions of the graph from any single node's context",
    run,
)
