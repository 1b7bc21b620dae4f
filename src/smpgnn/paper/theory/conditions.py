"""The conditions of Theorem 1, each checked on its own, with the smallest counterexample found.

>>> from smpgnn import SMPLayer
>>> from smpgnn.paper.theory.conditions import check_conditions
>>> check_conditions(SMPLayer("max"), channels=3).broken
()
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import networkx as nx
import torch
from torch import Tensor

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.layout import RowLayout
from smpgnn.contexts.topology import Topology
from smpgnn.layers.base import SMPLayer
from smpgnn.paper.theory.small_graphs import connected_graphs, undirected


@dataclass(frozen=True)
class Counterexample:
    """A permutation that a condition does not survive.

    Args:
        condition: one of `CONDITIONS`.
        num_nodes, edges: the graph.
        permutation: node i is renamed permutation[i]; for 'order', message k comes as number
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


@dataclass(frozen=True)
class Verdict:
    """What was found of a layer: a counterexample for each condition that is broken."""

    broken: tuple[Counterexample, ...]

    def of(self, condition: str) -> Counterexample | None:
        """The counterexample of this condition, None where it holds."""
        return next((one for one in self.broken if one.condition == condition), None)

    @property
    def theorem_applies(self) -> bool:
        """Whether all conditions of the theorem hold; the layer itself is none of them."""
        return all(one.condition == "layer" for one in self.broken)


@dataclass(frozen=True, eq=False)
class _Trial:
    """A graph before and after renaming, and where the rows of contexts and messages go."""

    layer: SMPLayer
    old: ContextIndex
    new: ContextIndex
    rows: Tensor
    lifted: Tensor
    generator: torch.Generator
    like: Tensor
    channels: int

    @classmethod
    def build(
        cls, layer: SMPLayer, old: ContextIndex, names: Tensor, channels: int, seed: int
    ) -> _Trial:
        new, rows = old.permute(names)
        before, receiver, _ = old.by_edge
        after, _, _ = new.by_edge
        start = new.table.ptr[new.topology.receiver]
        lifted = (after.ptr[:-1] - start)[before.owner] + rows[receiver]
        like = next(layer.parameters(), torch.empty(0, dtype=torch.float64))
        generator = torch.Generator().manual_seed(seed)
        return cls(layer, old, new, rows, lifted, generator, like, channels)

    def random(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64).to(self.like)

    def edge_attr(self) -> Tensor | None:
        size = self.layer.edge_channels
        return self.random(self.old.topology.num_edges, size) if size else None

    def prepare(self) -> tuple[Tensor, Tensor]:
        """Û, given random contexts: the result renamed, and the result of the renamed."""
        values = self.random(self.old.num_rows, self.channels)
        before = self.layer.prepare(LocalContext(values, self.old.layout), self.old)
        after = self.layer.prepare(_moved(values, self.rows, self.new.layout), self.new)
        return before.rows, after.rows[self.rows]

    def message(self) -> tuple[Tensor, Tensor]:
        """m(U_i, U_j, y_ij), given random contexts at both ends of every edge."""
        width = self.prepare()[0].size(1)
        ours, theirs = (self.random(self.lifted.numel(), width) for _ in range(2))
        y, old, new = self.edge_attr(), self.old.by_edge[0], self.new.by_edge[0]
        before = self.layer.message(LocalContext(ours, old), LocalContext(theirs, old), y)
        after = self.layer.message(
            _moved(ours, self.lifted, new), _moved(theirs, self.lifted, new), y
        )
        return before.rows, after.rows[self.lifted]

    def aggregation(self) -> tuple[Tensor, Tensor]:
        """φ, given random messages."""
        values = self.random(self.lifted.numel(), self.message()[0].size(1))
        before = self.layer.aggregate(LocalContext(values, self.old.by_edge[0]), self.old)
        moved = _moved(values, self.lifted, self.new.by_edge[0])
        return before.rows, self.layer.aggregate(moved, self.new).rows[self.rows]

    def update(self) -> tuple[Tensor, Tensor]:
        """u(U_i, Ũ_i), given random contexts and aggregated messages."""
        own = self.random(self.old.num_rows, self.prepare()[0].size(1))
        arrived = self.random(self.old.num_rows, self.aggregation()[0].size(1))
        before = self.layer.update(
            LocalContext(own, self.old.layout), LocalContext(arrived, self.old.layout), self.old
        )
        layout = self.new.layout
        after = self.layer.update(
            _moved(own, self.rows, layout), _moved(arrived, self.rows, layout), self.new
        )
        return before.rows, after.rows[self.rows]

    def whole(self) -> tuple[Tensor, Tensor]:
        """The layer, given random contexts; the edges of the renamed graph by their new numbers."""
        values, y = self.random(self.old.num_rows, self.channels), self.edge_attr()
        before = self.layer(LocalContext(values, self.old.layout), self.old, y)
        sender, receiver = self.new.topology.edge_index
        order = torch.argsort(receiver * self.new.topology.num_nodes + sender)
        index = _index(self.new.topology.edge_index[:, order], self.new.topology.num_nodes)
        y = None if y is None else y[order]
        after = self.layer(_moved(values, self.rows, index.layout), index, y)
        return before.rows, after.rows[self.rows]

    def order(self, arrival: Tensor) -> tuple[Tensor, Tensor]:
        """φ is a function of a set: the same messages, given in another order."""
        topology = self.old.topology
        edges = torch.empty_like(topology.edge_index)
        edges[:, arrival] = topology.edge_index
        n = topology.num_nodes
        other = _index(edges, n)
        layout = other.by_edge[0]
        place = (arrival.unsqueeze(1) * n + torch.arange(n)).flatten()
        values = self.random(place.numel(), self.message()[0].size(1))
        before = self.layer.aggregate(LocalContext(values, self.old.by_edge[0]), self.old)
        return before.rows, self.layer.aggregate(_moved(values, place, layout), other).rows


#: What is checked: the four functions of a layer, that φ is one of a set, and the layer as a whole.
_CHECKS: dict[str, Callable[[_Trial], tuple[Tensor, Tensor]]] = {
    "prepare": _Trial.prepare,
    "message": _Trial.message,
    "aggregation": _Trial.aggregation,
    "update": _Trial.update,
    "layer": _Trial.whole,
}
CONDITIONS = ("prepare", "message", "aggregation", "order", "update", "layer")


def check_conditions(
    layer: SMPLayer,
    channels: int,
    *,
    max_nodes: int = 4,
    tolerance: float = 1e-8,
    seed: int = 0,
) -> Verdict:
    """Try to break the conditions of Theorem 1, one by one, on random contexts.

    All connected graphs with 2 to `max_nodes` nodes are tried, smallest first, with the exchanges
    of nodes k and k + 1 (they generate all permutations) and one random permutation. The layer is
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
                for one in _counterexamples(layer, graph, channels, tolerance, seed):
                    found.setdefault(one.condition, one)
    finally:
        layer.train(training)
    return Verdict(tuple(found[name] for name in CONDITIONS if name in found))


def _counterexamples(
    layer: SMPLayer, graph: nx.Graph, channels: int, tolerance: float, seed: int
) -> Iterator[Counterexample]:
    n = len(graph)
    old = _index(undirected(graph).edge_index, n)
    edges = tuple((int(a), int(b)) for a, b in graph.edges)
    exchanges = [_exchange(n, k) for k in range(n - 1)]
    for names in [*exchanges, _random_permutation(n, seed)]:
        trial = _Trial.build(layer, old, names, channels, seed)
        for condition, check in _CHECKS.items():
            gap = _gap(*check(trial), tolerance)
            if gap:
                yield Counterexample(condition, n, edges, tuple(names.tolist()), gap)
    trial = _Trial.build(layer, old, torch.arange(n), channels, seed)
    count = old.topology.num_edges
    for arrival in (torch.arange(count).flip(0), _random_permutation(count, seed)):
        gap = _gap(*trial.order(arrival), tolerance)
        if gap:
            yield Counterexample("order", n, edges, tuple(arrival.tolist()), gap)


def _exchange(size: int, k: int) -> Tensor:
    names = torch.arange(size)
    names[[k, k + 1]] = names[[k + 1, k]]
    return names


def _random_permutation(size: int, seed: int) -> Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))


def _index(edge_index: Tensor, num_nodes: int) -> ContextIndex:
    return ContextIndex.build(Topology.checked(edge_index, num_nodes=num_nodes), "onehot", 1)


def _moved(values: Tensor, place: Tensor, layout: RowLayout) -> LocalContext:
    return LocalContext(torch.empty_like(values).index_copy(0, place, values), layout)


def _gap(before: Tensor, after: Tensor, tolerance: float) -> float:
    """The largest difference, 0 where it is within the tolerance; inf where not a number."""
    gap = float((before - after).abs().max())
    if gap != gap:
        return torch.inf
    return gap if gap > tolerance * max(1.0, float(before.abs().max())) else 0.0
