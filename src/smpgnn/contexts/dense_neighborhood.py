"""Neighbourhoods by dense matrices, graph by graph, which torch.compile and export can trace.

The breadth-first search of `neighborhood.py` branches on the data. Here each graph has a matrix of
the size n of the largest graph, so this takes memory B n² and is for batches of small graphs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smpgnn.contexts.topology import Topology, take
from smpgnn.tracing import true_places


def dense_neighborhoods(topology: Topology, radius: int) -> Tensor:
    """The result of `neighborhoods`, [2, K]: the pairs for which (I + A)^radius is not zero."""
    reach = _Reach(topology)
    seen, power = reach.itself, reach.itself + reach.adjacency
    while radius:
        seen = _joined(seen, power) if radius % 2 else seen
        radius //= 2
        power = _joined(power, power) if radius else power
    return reach.pairs(seen)[0]


def dense_distances(topology: Topology, radius: int) -> tuple[Tensor, Tensor]:
    """The result of `distances`: the pairs of `neighborhoods`, [2, K], and their distance, [K]."""
    reach = _Reach(topology)
    seen, step = reach.itself, reach.itself + reach.adjacency
    farther = torch.zeros_like(seen)
    for _ in range(radius):
        farther = farther + (seen == 0)
        seen = _joined(seen, step)
    pairs, place = reach.pairs(seen)
    return pairs, take(farther.flatten(), place).long()


class _Reach:
    """Matrices of a batch, [B, n, n], whose entry (i, j) is 1 if i receives from j, else 0."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.width = int(topology.graph_size.max())
        nodes = torch.arange(topology.num_nodes, device=topology.device)
        self.column = nodes - take(topology.graph_ptr, topology.batch)
        self.row = topology.batch * self.width + self.column
        self.itself = self._ones(nodes, nodes)
        self.adjacency = self._ones(topology.receiver, topology.sender)

    def _ones(self, receiver: Tensor, sender: Tensor) -> Tensor:
        """The matrices of these pairs of nodes."""
        graphs, width = self.topology.num_graphs, self.width
        entry = take(self.row, receiver) * width + take(self.column, sender)
        flat = torch.zeros(graphs * width * width, device=entry.device)
        return flat.scatter(0, entry, 1.0).view(graphs, width, width)

    def pairs(self, matrices: Tensor) -> tuple[Tensor, Tensor]:
        """The pairs of nodes whose entry is not zero, [2, K], and the places of these, [K]."""
        place = true_places(matrices.flatten() > 0)
        row, column = place // self.width, place % self.width
        first = take(self.topology.graph_ptr, row // self.width)
        return torch.stack([first + row % self.width, first + column]), place


def _joined(one: Tensor, other: Tensor) -> Tensor:
    """The pairs (i, j) such that (i, k) is in `one` and (k, j) in `other` for some k."""
    return (one @ other).clamp(max=1)
