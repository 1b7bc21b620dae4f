"""The conditions of Theorem 1, each checked separately, with the smallest counterexample found.

>>> from smpgnn import SMPLayer
>>> from smpgnn.paper.theory.conditions import check_conditions
>>> check_conditions(SMPLayer("max"), channels=3)
{}
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx
import torch
from torch import Tensor

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.topology import Topology
from smpgnn.layers.base import SMPLayer
from smpgnn.paper.theory.graphs import connected_graphs, undirected

#: The four functions of a layer, whether φ is a function of a set, and the layer as a whole.
CONDITIONS = ("prepare", "message", "aggregation", "order", "update", "layer")


@dataclass(frozen=True)
class Counterexample:
    """A permutation that breaks a condition.

    Args:
        condition: one of `CONDITIONS`.
        num_nodes, edges: the graph.
        permutation: node i is renamed permutation[i]; for 'order', message k arrives as number
            permutation[k].
        gap: the largest difference between the result of the permuted input and the permuted
            result.
    """

    condition: str
    num_nodes: int
    edges: tuple[tuple[int, int], ...]
    permutation: tuple[int, ...]
    gap: float

    def __str__(self) -> str:
        edges = " ".join(f"{a}–{b}" for a, b in self.edges)
        what = "messages reordered" if self.condition == "order" else "nodes renamed"
        names = " ".join(str(name) for name in self.permutation)
        return (
            f"{self.condition}: on the graph {edges}, {what} "
            f"{' '.join(str(k) for k in range(len(self.permutation)))} → {names} "
            f"changes the result by {self.gap:.2g}"
        )


def check_conditions(
    layer: SMPLayer,
    channels: int,
    *,
    max_nodes: int = 4,
    tolerance: float = 1e-8,
    seed: int = 0,
) -> dict[str, Counterexample]:
    """Try to break the conditions of Theorem 1, one by one, on random contexts.

    Returns a counterexample for each broken condition. Theorem 1 applies if all conditions hold;
    'layer' is its conclusion.

    Tries all connected graphs with 2 to `max_nodes` nodes, smallest first, with the exchanges of
    nodes k and k + 1 (they generate all permutations) and one random permutation. The layer is
    checked in eval mode and in the precision of its parameters: use float64.

    Args:
        layer: an `SMPLayer`, or three functions as a `FunctionLayer`.
        channels: the width of the contexts that the layer takes.
        max_nodes: at most 7.
        tolerance: largest difference allowed, relative to the largest entry (at least 1).
        seed: of contexts and permutations.
    """
    found: dict[str, Counterexample] = {}
    training = layer.training
    layer.eval()
    try:
        with torch.no_grad():
            for graph in connected_graphs(max_nodes, min_nodes=2):
                for condition, permutation, before, after in _trials(layer, graph, channels, seed):
                    gap = float((before - after).abs().max())
                    if gap <= tolerance * max(1.0, float(before.abs().max())):
                        continue
                    gap = torch.inf if gap != gap else gap  # a result that is not a number
                    edges = tuple((int(a), int(b)) for a, b in graph.edges)
                    names = tuple(permutation.tolist())
                    one = Counterexample(condition, len(graph), edges, names, gap)
                    found.setdefault(condition, one)
    finally:
        layer.train(training)
    return {name: found[name] for name in CONDITIONS if name in found}


def _trials(
    layer: SMPLayer, graph: nx.Graph, channels: int, seed: int
) -> Iterator[tuple[str, Tensor, Tensor, Tensor]]:
    """Condition, permutation, result of the permuted input, permuted result."""
    edge_index, n = undirected(graph).edge_index, len(graph)
    as_given = torch.arange(edge_index.size(1))
    before = _results(layer, _Numbering(edge_index, torch.arange(n), as_given), channels, seed)
    exchanges = [torch.arange(n) for _ in range(n - 1)]
    for k, names in enumerate(exchanges):
        names[[k, k + 1]] = names[[k + 1, k]]
    for names in [*exchanges, _random_permutation(n, seed)]:
        after = _results(layer, _Numbering(edge_index, names, as_given), channels, seed)
        # for the layer as a whole, edges are sorted by the new names of their ends
        sender, receiver = names[edge_index]
        by_name = torch.argsort(torch.argsort(receiver * n + sender))
        sorted_edges = _Numbering(edge_index, names, by_name)
        after["layer"] = _results(layer, sorted_edges, channels, seed)["layer"]
        for condition, result in after.items():
            yield condition, names, before[condition], result
    for arrival in (as_given.flip(0), _random_permutation(len(as_given), seed)):
        reordered = _Numbering(edge_index, torch.arange(n), arrival)
        after = _results(layer, reordered, channels, seed)
        yield "order", arrival, before["aggregation"], after["aggregation"]


class _Numbering:
    """A graph with renumbered nodes and edges; values are given and returned in the original one.

    Args:
        edge_index: in the original numbering.
        names: node i is named names[i].
        arrival: edge k has the number arrival[k].
    """

    def __init__(self, edge_index: Tensor, names: Tensor, arrival: Tensor) -> None:
        self.names, self.arrival = names, arrival
        renamed = torch.empty_like(edge_index)
        renamed[:, arrival] = names[edge_index]
        topology = Topology.checked(renamed, num_nodes=len(names))
        self.index = ContextIndex.build(topology, "onehot", 1)

    def contexts(self, values: Tensor) -> LocalContext:
        """Shapes: values [n, n, c]."""
        return LocalContext(self._renumbered(values, self.names), self.index.layout)

    def messages(self, values: Tensor) -> LocalContext:
        """Shapes: values [E, n, c]."""
        return LocalContext(self._renumbered(values, self.arrival), self.index.by_edge[0])

    def edge_attr(self, values: Tensor) -> Tensor:
        """Shapes: values [E, c]."""
        return torch.empty_like(values).index_copy(0, self.arrival, values)

    def read(self, found: LocalContext) -> Tensor:
        """Contexts [n, n, c] or messages [E, n, c] in the original numbering."""
        owners = self.names if found.layout is self.index.layout else self.arrival
        rows = found.rows.view(len(owners), len(self.names), -1)
        return rows[owners.unsqueeze(1), self.names]

    def _renumbered(self, values: Tensor, owners: Tensor) -> Tensor:
        rows = torch.empty_like(values)
        rows[owners.unsqueeze(1), self.names] = values
        return rows.flatten(0, 1)


def _results(layer: SMPLayer, graph: _Numbering, channels: int, seed: int) -> dict[str, Tensor]:
    """What each function of the layer makes of the same random values, in original numbers."""
    like = next(layer.parameters(), torch.empty(0, dtype=torch.float64))
    generator = torch.Generator().manual_seed(seed)
    n, edges, index = len(graph.names), len(graph.arrival), graph.index

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(like)

    y = graph.edge_attr(random(edges, layer.edge_channels)) if layer.edge_channels else None
    context = graph.contexts(random(n, n, channels))
    prepared = layer.prepare(context, index)
    width = prepared.num_channels
    ours, theirs = (graph.messages(random(edges, n, width)) for _ in range(2))
    sent = layer.message(ours, theirs, y)
    arrived = layer.aggregate(graph.messages(random(edges, n, sent.num_channels)), index)
    own, messages = (graph.contexts(random(n, n, size)) for size in (width, arrived.num_channels))
    return {
        "prepare": graph.read(prepared),
        "message": graph.read(sent),
        "aggregation": graph.read(arrived),
        "update": graph.read(layer.update(own, messages, index)),
        "layer": graph.read(layer(context, index, y)),
    }


def _random_permutation(size: int, seed: int) -> Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))
