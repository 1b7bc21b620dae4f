"""Neighbourhoods in a form that torch.compile and torch.export can trace.

The breadth-first search of `neighborhood.py` branches on the data. Here pairs of nodes are marked
in a matrix of n × n entries for each graph of n nodes. So this is for batches of small graphs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smpgnn.contexts.topology import Topology, pointer, segments, take
from smpgnn.errors import InputError
from smpgnn.tracing import number, occurrences, true_places

#: The largest radius; each hop adds operations to the traced graph.
_FARTHEST = 100


def traced_neighborhoods(topology: Topology, radius: int) -> Tensor:
    """The result of `neighborhoods`, [2, K]."""
    return traced_distances(topology, radius)[0]


def traced_distances(topology: Topology, radius: int) -> tuple[Tensor, Tensor]:
    """The result of `distances`: the pairs, [2, K], and the least number of layers of each, [K]."""
    if not 0 <= radius <= _FARTHEST:
        raise InputError(
            f"torch.compile and torch.export take contexts of at most {_FARTHEST} hops, "
            f"not {radius}."
        )
    pairs = _Pairs(topology)
    nodes = torch.arange(topology.num_nodes, device=topology.device)
    seen = pairs.mark(None, nodes, nodes)
    hops = torch.zeros_like(seen)
    for _ in range(radius):
        hops = hops + (1 - seen)
        seen = pairs.mark(seen, *pairs.one_more_layer(seen))
    place = true_places(seen > 0)
    return torch.stack(pairs.at(place)), take(hops, place)


class _Pairs:
    """Pairs of nodes (i, j) of one graph, and their places in a vector of Σ n² entries."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        sizes = take(topology.graph_size, topology.batch)
        ends = pointer(sizes)
        self.size = number(ends[-1])
        # the node i of each place, and where the pairs (i, 0), (i, 1), … would begin
        self.node, _ = segments(sizes, self.size)
        self.start = ends[:-1] - take(topology.graph_ptr, topology.batch)

    def mark(self, seen: Tensor | None, i: Tensor, j: Tensor) -> Tensor:
        """Set the entries of these pairs to 1."""
        if seen is None:
            seen = i.new_zeros(self.size)
        return seen.scatter(0, take(self.start, i) + j, 1)

    def at(self, place: Tensor) -> tuple[Tensor, Tensor]:
        """The pairs at these places."""
        i = take(self.node, place)
        return i, place - take(self.start, i)

    def one_more_layer(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """The pairs (i, j) such that an edge to i comes from a node that sees j."""
        topology = self.topology
        node, other = self.at(true_places(seen > 0))
        sizes = occurrences(node, topology.num_nodes)
        sent = take(sizes, topology.sender)
        edge, rank = segments(sent, number(sent.sum()))
        place = take(take(pointer(sizes), topology.sender), edge) + rank
        return take(topology.receiver, edge), take(other, place)
