"""Algorithm 1 of the paper: identifiers that repeat only where no context can confuse them."""

from __future__ import annotations

import torch
from torch import Tensor

from smpgnn.contexts.neighborhood import neighborhoods
from smpgnn.contexts.topology import Topology, pointer, segments


def coloring(topology: Topology, num_layers: int) -> Tensor:
    """Algorithm 1: a greedy colouring of the graph that joins all nodes within 2L hops, [N].

    Nodes are coloured in their order, each with the smallest colour that no coloured neighbour has;
    nodes whose turn has come are coloured together, so that the loop is not over nodes or graphs.
    Edges count in both directions, which also keeps apart what a directed graph could confuse.
    """
    both = torch.cat([topology.edge_index, topology.edge_index.flip(0)], dim=1)
    undirected = Topology(both, topology.batch, topology.num_nodes, topology.num_graphs)
    pairs = neighborhoods(undirected, 2 * num_layers)
    node, earlier = pairs[:, pairs[1] < pairs[0]]  # who must be coloured before whom
    color = torch.full((topology.num_nodes,), -1, device=topology.device)
    waiting = torch.bincount(node, minlength=topology.num_nodes)
    by_earlier = torch.argsort(earlier, stable=True)
    later_ptr = pointer(torch.bincount(earlier, minlength=topology.num_nodes))
    earlier_ptr = pointer(waiting)
    ready = torch.nonzero(waiting == 0).flatten()
    while ready.numel():
        of, rank = _ranges(earlier_ptr, ready)
        color[ready] = _smallest_free(of, color[earlier[rank]], ready.numel())
        _, rank = _ranges(later_ptr, ready)
        freed, times = torch.unique(node[by_earlier[rank]], return_counts=True)
        waiting[freed] -= times
        ready = freed[waiting[freed] == 0]
    return color


def _smallest_free(which: Tensor, used: Tensor, count: int) -> Tensor:
    """For each of `count` sets, given by entries (which, used): the smallest number not in it."""
    if used.numel() == 0:
        return used.new_zeros(count)
    top = int(used.max()) + 2
    key = torch.unique(which * top + used)
    which, used = key // top, key % top
    rank = torch.arange(key.numel(), device=key.device)
    rank = rank - pointer(torch.bincount(which, minlength=count))[:-1][which]
    # The sorted distinct colours agree with 0, 1, 2, … up to the first gap.
    return torch.bincount(which[used == rank], minlength=count)


def _ranges(ptr: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """All entries of the chosen segments: which of the chosen each belongs to, and its place."""
    size = ptr[chosen + 1] - ptr[chosen]
    which, rank = segments(size, int(size.sum()))
    return which, ptr[chosen][which] + rank
