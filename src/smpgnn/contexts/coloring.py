"""Algorithm 1 of the paper: nodes may share an identifier if no context can confuse them."""

from __future__ import annotations

import torch
from torch import Tensor

from smpgnn.contexts.neighborhood import neighborhoods
from smpgnn.contexts.topology import Topology, pointer, segments


def coloring(topology: Topology, num_layers: int) -> Tensor:
    """Greedy colouring of the graph that connects all nodes within 2L hops, [N].

    Nodes are coloured in order, each with the smallest colour that no coloured neighbour has. All
    nodes whose earlier neighbours are coloured get their colour in one step, so the loop is not
    over nodes or graphs. Edges count in both directions, so this also serves directed graphs.
    """
    both = torch.cat([topology.edge_index, topology.edge_index.flip(0)], dim=1)
    undirected = Topology(both, topology.batch, topology.num_nodes, topology.num_graphs)
    pairs = neighborhoods(undirected, 2 * num_layers)
    node, earlier = pairs[:, pairs[1] < pairs[0]]  # `earlier` is coloured before `node`
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
    """The smallest number that is not in each of `count` sets with the entries (which, used)."""
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
    """All entries of the chosen segments: the segment of each, and its position."""
    size = ptr[chosen + 1] - ptr[chosen]
    which, rank = segments(size, int(size.sum()))
    return which, ptr[chosen][which] + rank
