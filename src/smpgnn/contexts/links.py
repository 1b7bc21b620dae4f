"""How rows are linked beyond the messages of SMP: further index lists.

They need rows that describe one node each: one-hot or local contexts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from smpgnn.contexts.blocks import biconnected_blocks
from smpgnn.contexts.caching import cached_property
from smpgnn.contexts.graphs import Graphs
from smpgnn.contexts.identifiers import onehot_identifiers
from smpgnn.contexts.rows import BallRows, IdentifierRows
from smpgnn.contexts.topology import Topology, pointer, segments, take
from smpgnn.ops import Dense, Lift, RowGather, Triples
from smpgnn.tracing import number, traced, true_places


@dataclass(frozen=True, eq=False)
class Links:
    """The links between the rows of a batch. Shape: described [P], N for the far row."""

    topology: Topology
    table: IdentifierRows | BallRows
    described: Tensor
    graphs: Graphs
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    @cached_property
    def inside(self) -> Lift:
        """Row (i, j) receives from row (i, k) of its own context for each neighbour k of j.

        If i does not see k, the far row of i stands for it. The far row receives nothing.
        """
        graph = take(self.topology.batch, self.table.owner)
        scale = take(self.topology.inverse_average_degree, graph)
        return replace(self.inside_entries, scale=scale)

    @cached_property
    def inside_entries(self) -> Lift:
        """`inside` without the scale."""
        topology, table = self.topology, self.table
        edge_ptr, order = topology.edges_by_receiver
        arriving = take(_extended(topology.degree), self.described)
        ptr = pointer(arriving)
        target, rank = segments(arriving, number(ptr[-1]))
        edge = take(order, take(edge_ptr, take(self.described, target)) + rank)
        owner = take(table.owner, target)
        return Lift(
            ptr=ptr,
            source=table.row_of(owner, take(topology.sender, edge)),
            target=target,
            edge=edge,
            scale=ptr.new_empty(0),
        )

    @cached_property
    def arcs(self) -> RowGather:
        """For each edge k → i the row of k in the context of i."""
        topology = self.topology
        return self._gather(self.table.row_of(topology.receiver, topology.sender))

    @cached_property
    def back_arcs(self) -> RowGather:
        """For each edge k → i the row of i in the context of k."""
        topology = self.topology
        return self._gather(self.table.row_of(topology.sender, topology.receiver))

    @cached_property
    def mirror(self) -> RowGather:
        """Row (j, i) for each row (i, j); a far row for itself."""
        return self._gather(self._of_described(self.table.owner))

    @cached_property
    def diagonal(self) -> RowGather:
        """Row (j, j) for each row (i, j); a far row for itself."""
        return self._gather(self._of_described(self._node))

    @cached_property
    def triples(self) -> Triples:
        """Rows (i, k) and (k, j) for row (i, j), for all nodes k with these three rows."""
        table, near = self.table, self._near
        some = traced() or table.num_rows
        last = take(self.described, table.ptr[1:] - 1) if some else table.ptr[1:]
        seen = table.ptr.diff() - (last == self.topology.num_nodes).long()
        middle = take(self.described, near)
        which, rank = segments(take(seen, middle), number(take(seen, middle).sum()))
        right = take(table.ptr, take(middle, which)) + rank
        left = take(near, which)
        target = table.row_of(take(table.owner, left), take(self.described, right))
        return self._triples(target, left, right)

    @cached_property
    def block_triples(self) -> Triples:
        """The `triples` whose three nodes i, k and j lie together in a biconnected block."""
        table = self.table
        block, node = biconnected_blocks(self.topology)
        size = torch.bincount(block)
        first, place = pointer(size), take(size, block)
        which, k = segments(place, int(place.sum()))
        start = take(take(first, block), which)
        i, k, start = take(node, which), take(node, start + k), start
        place = take(take(place, which), torch.arange(which.numel(), device=which.device))
        again, j = segments(place, int(place.sum()))
        i, k, j = take(i, again), take(k, again), take(node, take(start, again) + j)
        rows = [table.row_of(a, b) for a, b in ((i, j), (i, k), (k, j))]
        # A node may lie in several blocks, but counts only once.
        lone = torch.nonzero((i == k) & (k == j)).flatten()
        kept = torch.ones_like(i, dtype=torch.bool)
        order = lone[torch.argsort(take(i, lone), stable=True)]
        again_here = take(i, order)
        kept[order[1:][again_here[1:] == again_here[:-1]]] = False
        kept = torch.nonzero(kept).flatten()
        return self._triples(*(take(row, kept) for row in rows))

    @cached_property
    def dense(self) -> Dense:
        """One-hot rows as matrices [B, n, n]; n is the most nodes, rounded up for tensor cores."""
        topology, ptr = self.topology, self.table.ptr
        width = 8 * ((self.graphs.largest + 7) // 8)
        node, rank = torch.arange(width, device=topology.device), onehot_identifiers(topology)
        i, j = take(rank, self.table.owner), take(rank, self.described)
        entry = (take(topology.batch, self.table.owner) * width + i) * width + j
        entry = entry.clamp(max=topology.num_graphs * width**2 - 1)
        there = node < topology.graph_size[:, None]  # [B, n]
        if self.table.padded:
            there[-1].zero_()  # the last graph is padding
        first = ptr[torch.where(there, topology.graph_ptr[:-1, None] + node, 0)]
        paired = there[:, :, None] & there[:, None, :]
        return Dense(torch.where(paired, first[:, :, None] + node, self.table.num_rows), entry)

    @property
    def _node(self) -> Tensor:
        """The described node, or some node for a far row, [P]."""
        return self.described.clamp(max=max(self.topology.num_nodes - 1, 0))

    @property
    def _near(self) -> Tensor:
        """The rows that describe a node, and not the far ones."""
        return true_places(self.described < self.topology.num_nodes)

    def _of_described(self, other: Tensor) -> Tensor:
        """The row for the node `other` in the context of the described node; a far row itself."""
        rows = torch.arange(self.table.num_rows, device=other.device)
        near = self.described < self.topology.num_nodes
        return torch.where(near, self.table.row_of(self._node, other), rows)

    def _gather(self, index: Tensor) -> RowGather:
        return RowGather(index, self.table.num_rows)

    def _triples(self, target: Tensor, left: Tensor, right: Tensor) -> Triples:
        """Those without far rows, sorted by target."""
        far = [take(self.described, rows) for rows in (target, left, right)]
        near = true_places(torch.stack(far).amax(0) < self.topology.num_nodes)
        target = take(target, near)
        target, order = target.sort(stable=True)
        left, right = (take(take(rows, near), order) for rows in (left, right))
        return Triples(target, left, right, self.table.num_rows)


def _extended(values: Tensor) -> Tensor:
    """Values of nodes, and a zero for the far row."""
    return torch.cat([values, values.new_zeros(1)])
