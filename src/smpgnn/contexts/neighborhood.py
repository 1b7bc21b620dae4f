"""Neighbourhoods: the nodes whose messages can reach a node within a number of layers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import torch
from torch import Tensor

from smpgnn.contexts.topology import Topology, segments
from smpgnn.contexts.traced_neighborhood import traced_distances, traced_neighborhoods
from smpgnn.errors import InputError
from smpgnn.tracing import traced


def neighborhoods(topology: Topology, radius: int) -> Tensor:
    """All pairs (i, j) such that messages of j reach i within `radius` layers, [2, K], sorted."""
    if traced():
        return traced_neighborhoods(topology, radius)
    ((known, _),) = deque(_rings(topology, radius), maxlen=1)
    count = max(topology.num_nodes, 1)
    return torch.stack([known // count, known % count])


def distances(topology: Topology, radius: int) -> tuple[Tensor, Tensor]:
    """The pairs of `neighborhoods`, [2, K], and the least number of layers of each, [K]."""
    if traced():
        return traced_distances(topology, radius)
    found = list(_rings(topology, radius))
    known, count = found[-1][0], max(topology.num_nodes, 1)
    hops = torch.empty_like(known)
    for number, (_, ring) in enumerate(found):
        hops[torch.searchsorted(known, ring)] = number
    return torch.stack([known // count, known % count]), hops


def _rings(topology: Topology, radius: int) -> Iterator[tuple[Tensor, Tensor]]:
    """The pairs (i, j) as i · N + j that layers 0, 1, … bring: all so far, and the new ones.

    A breadth-first search from all nodes at once; its cost grows with the number of pairs.
    """
    if radius < 0:
        raise InputError(f"radius must be at least 0, not {radius}.")
    count = max(topology.num_nodes, 1)
    nodes = torch.arange(topology.num_nodes, device=topology.device)
    ptr, out = topology.edges_by_sender
    known = frontier = nodes * count + nodes
    yield known, frontier
    for _ in range(radius):
        at, seen = frontier // count, frontier % count
        fan = ptr[at + 1] - ptr[at]
        total = int(fan.sum())
        if total == 0:
            break
        which, rank = segments(fan, total)
        reached = topology.receiver[out[ptr[at][which] + rank]] * count + seen[which]
        reached = torch.unique(reached)
        place = torch.searchsorted(known, reached).clamp(max=known.numel() - 1)
        frontier = reached[known[place] != reached]
        if frontier.numel() == 0:
            break
        known = torch.cat([known, frontier]).sort().values
        yield known, frontier
