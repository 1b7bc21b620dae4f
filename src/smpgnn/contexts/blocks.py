"""Biconnected blocks: the largest parts of a graph that no single node cuts apart."""

from __future__ import annotations

import torch
from torch import Tensor

from smpgnn.contexts.topology import Topology, take


def biconnected_blocks(topology: Topology) -> tuple[Tensor, Tensor]:
    """The nodes of each biconnected block, as sorted pairs: block 0, 1, … and node, [Q] each.

    An edge that is on no cycle is a block of two nodes; a node without edges is in none. Edges
    count in both directions, and self loops not at all.

    Every edge outside a spanning tree closes a cycle with edges of the tree. Two edges are in one
    block if such cycles connect them, each sharing an edge with the next. The loops are over the
    depth of the tree and the length of such chains, not over nodes or graphs.
    """
    a, b = _edges(topology)
    parent, depth = _spanning_forest(a, b, topology.num_nodes)
    closing = torch.nonzero((take(parent, a) != b) & (take(parent, b) != a)).flatten()
    # An edge of the tree has the number of its child; cycles come after them.
    cycle = torch.arange(closing.numel(), device=a.device)
    low, high = take(a, closing), take(b, closing)
    member, part = [], []
    while cycle.numel():
        deeper = take(depth, low) >= take(depth, high)
        low, high = torch.where(deeper, low, high), torch.where(deeper, high, low)
        member.append(low)
        part.append(cycle)
        low = take(parent, low)
        open_ = torch.nonzero(low != high).flatten()
        cycle, low, high = take(cycle, open_), take(low, open_), take(high, open_)
    empty = a.new_empty(0)
    label = _components(
        torch.cat([*member, empty]), torch.cat([*part, empty]) + topology.num_nodes,
        topology.num_nodes + closing.numel(),
    )  # fmt: skip
    child = torch.nonzero(parent != torch.arange(topology.num_nodes, device=a.device)).flatten()
    count = max(topology.num_nodes, 1)
    named = take(label, child)
    key = torch.unique(torch.cat([named * count + child, named * count + take(parent, child)]))
    block = torch.unique(key // count, return_inverse=True)[1]
    return block, key % count


def _edges(topology: Topology) -> tuple[Tensor, Tensor]:
    """The pairs a < b of nodes that an edge connects, each once."""
    ends, count = topology.edge_index.sort(0).values, max(topology.num_nodes, 1)
    key = torch.unique((ends[0] * count + ends[1])[ends[0] < ends[1]])
    return key // count, key % count


def _spanning_forest(a: Tensor, b: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The parent of each node in a breadth-first tree (a root is its own), and its depth, [N]."""
    nodes = torch.arange(count, device=a.device)
    root = _components(a, b, count) == nodes
    depth = torch.where(root, 0, -1)
    parent, level = nodes.clone(), 0
    sender, receiver = torch.cat([a, b]), torch.cat([b, a])
    while True:
        reached = (take(depth, sender) == level) & (take(depth, receiver) < 0)
        if not bool(reached.any()):
            return parent, depth
        found = torch.full_like(parent, count)
        found.scatter_reduce_(0, receiver[reached], sender[reached], "amin")
        new, level = found < count, level + 1
        parent = torch.where(new, found, parent)
        depth = torch.where(new, level, depth)


def _components(a: Tensor, b: Tensor, count: int) -> Tensor:
    """The smallest member of the connected component of each of `count` things, [count]."""
    label = torch.arange(count, device=a.device)
    while a.numel():
        smaller = torch.minimum(take(label, a), take(label, b))
        new = label.scatter_reduce(0, a, smaller, "amin").scatter_reduce_(0, b, smaller, "amin")
        new = torch.minimum(new, take(new, new))  # jump ahead
        if torch.equal(new, label):
            break
        label = new
    return label
