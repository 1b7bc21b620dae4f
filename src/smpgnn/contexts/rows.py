"""Row tables: the rows of each local context, and which rows of two contexts correspond."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from smpgnn.contexts.caching import cached_property
from smpgnn.contexts.layout import RowLayout
from smpgnn.contexts.topology import Topology, pointer, segments, take
from smpgnn.tracing import number, occurrences, traced, true_places


@dataclass(frozen=True, eq=False, kw_only=True)
class RowTable(RowLayout, ABC):
    """The rows of all contexts of a batch, one context per node, and which of them correspond.

    The multiplicity of a row is the number of equal rows of the paper that it represents.
    """

    #: The number of layers for which these rows are exact; None: any.
    radius: int | None = None
    #: The hops within which contexts distinguish nodes, if that is less than the layers need.
    context_radius: int | None = None

    @abstractmethod
    def counterpart(self, node: Tensor, row: Tensor) -> Tensor:
        """The row in the context of `node` that corresponds to `row` of another context."""

    def uncached(self) -> RowTable:
        """The same rows without what has been computed from them."""
        return replace(self, given={})

    @abstractmethod
    def permute(self, permutation: Tensor, topology: Topology) -> tuple[RowTable, Tensor]:
        """The table of the permuted graphs (`topology`), and the new position of each row, [P]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class IdentifierRows(RowTable):
    """One row per identifier, the same for all contexts of a graph: one-hot and coloring.

    Identifier r is row ptr[i] + r of the context of node i. Shape: identifier [N].
    """

    identifier: Tensor

    @classmethod
    def build(cls, topology: Topology, identifier: Tensor, radius: int | None) -> IdentifierRows:
        """From the identifier 0, 1, … of every node, [N]; a context has max + 1 rows."""
        width = identifier.new_zeros(topology.num_graphs)
        width.scatter_reduce_(0, topology.batch, identifier + 1, "amax")
        ptr = pointer(width[topology.batch])
        return cls(
            ptr=ptr,
            own=ptr[:-1] + identifier,
            num_rows=number(ptr[-1]),
            radius=radius,
            identifier=identifier,
        )

    def counterpart(self, node: Tensor, row: Tensor) -> Tensor:
        return row + take(self.ptr, node) - take(self.ptr, take(self.owner, row))

    def row_of(self, node: Tensor, other: Tensor) -> Tensor:
        """The row in the context of `node` that describes the node `other`."""
        return take(self.ptr, node) + take(self.identifier, other)

    def permute(self, permutation: Tensor, topology: Topology) -> tuple[IdentifierRows, Tensor]:
        # Nodes that share an identifier still do, but identifiers are renumbered in the new order
        # of the nodes (one-hot stays one-hot), so the rows within a context move, too.
        width = self.ptr.new_zeros(topology.num_graphs)
        width[topology.batch] = self.ptr.diff()
        slot_ptr = pointer(width)
        graph, number = segments(width, int(slot_ptr[-1]))
        carried = torch.empty_like(self.identifier)
        carried[permutation] = self.identifier
        slot = slot_ptr[topology.batch] + carried
        first = torch.full_like(number, topology.num_nodes)
        nodes = torch.arange(topology.num_nodes, device=first.device)
        first.scatter_reduce_(0, slot, nodes, "amin")
        order = torch.argsort(graph * (topology.num_nodes + 1) + first, stable=True)
        renumbered = torch.empty_like(number)
        renumbered[order] = number  # slots of a graph are contiguous, so ranks are 0, 1, … in each
        table = self.build(topology, renumbered[slot], self.radius)
        described = torch.arange(self.num_rows, device=first.device) - self.ptr[self.owner]
        moved = renumbered[slot_ptr[topology.batch[self.owner]] + described]
        return table, table.ptr[permutation[self.owner]] + moved


@dataclass(frozen=True, eq=False, kw_only=True)
class BallRows(RowTable):
    """One row per node that a context sees, in the order of the nodes, then one for all others.

    Shape: described [P], the node that each row describes; `num_nodes` for the last row.
    """

    described: Tensor
    num_nodes: int

    @abstractmethod
    def rebuild(self, topology: Topology, balls: Tensor) -> BallRows:
        """Rows of the same kind from other pairs (node, node it sees), [2, K], sorted."""

    @cached_property
    def key(self) -> Tensor:
        """owner · (N + 1) + described node, [P], strictly increasing."""
        return self.owner * (self.num_nodes + 1) + self.described

    def counterpart(self, node: Tensor, row: Tensor) -> Tensor:
        return self.row_of(node, take(self.described, row))

    def row_of(self, node: Tensor, other: Tensor) -> Tensor:
        """The row in the context of `node` that describes the node `other`; else the last row."""
        return find_rows(self.key, self.ptr, node, node * (self.num_nodes + 1) + other)

    def permute(self, permutation: Tensor, topology: Topology) -> tuple[BallRows, Tensor]:
        count = topology.num_nodes
        renamed = torch.cat([permutation, permutation.new_tensor([count])])
        key = permutation[self.owner] * (count + 1) + renamed[self.described]
        seen = key[self.described < count].sort().values
        table = self.rebuild(topology, torch.stack([seen // (count + 1), seen % (count + 1)]))
        return table, torch.searchsorted(table.key, key)


@dataclass(frozen=True, eq=False, kw_only=True)
class NeighborhoodRows(BallRows):
    """One row per node within `radius` hops, in the order of the nodes, then the unseen row.

    The unseen row stands for all other nodes of the graph and has their number as multiplicity.
    A graph in which every node sees all others has no unseen rows.
    """

    @classmethod
    def build(cls, topology: Topology, balls: Tensor, radius: int) -> NeighborhoodRows:
        """From the pairs (node, node it sees), [2, K], sorted and without repetition."""
        seen = occurrences(balls[0], topology.num_nodes)
        own = true_places(balls[0] == balls[1], topology.num_nodes)
        # An unseen row may be read by a neighbour even if it stands for no node. So every context
        # of a graph has one as soon as one of its nodes does not see all others.
        unseen = take(topology.graph_size, topology.batch) - seen
        partial = torch.zeros_like(topology.graph_size)
        partial.scatter_reduce_(0, topology.batch, unseen, "amax")
        extra = take(partial, topology.batch) > 0
        return cls.assemble(
            pointer(seen), balls[0], balls[1], own, unseen, extra, topology.num_nodes, radius
        )

    @classmethod
    def assemble(
        cls,
        ptr: Tensor,
        owner: Tensor,
        described: Tensor,
        own: Tensor,
        unseen: Tensor,
        extra: Tensor,
        num_nodes: int,
        radius: int,
    ) -> NeighborhoodRows:
        """From K contexts that see the nodes described[ptr[k]:ptr[k+1]], in increasing order.

        Shapes: ptr [K + 1]; owner, described [Q]; own [K], indices into `described`; unseen [K],
        the number of nodes that a context does not see; extra [K], whether it has an unseen row.
        """
        row_ptr, own, rows = with_last_rows(ptr, owner, described, own, extra, num_nodes)
        with_last = true_places(extra)
        multiplicity = None
        if traced() or with_last.numel():
            last = take(row_ptr[1:] - 1, with_last)
            multiplicity = torch.ones_like(rows).index_copy(0, last, take(unseen, with_last))
        return cls(
            ptr=row_ptr,
            own=own,
            num_rows=rows.numel(),
            multiplicity=multiplicity,
            radius=radius,
            described=rows,
            num_nodes=num_nodes,
        )

    def rebuild(self, topology: Topology, balls: Tensor) -> NeighborhoodRows:
        assert self.radius is not None
        return self.build(topology, balls, self.radius)


@dataclass(frozen=True, eq=False, kw_only=True)
class LocalRows(BallRows):
    """One row per node within `context_radius` hops, and always a far row for all others.

    Every row has multiplicity 1, and the rows serve any number of layers.
    """

    @classmethod
    def build(cls, topology: Topology, balls: Tensor, context_radius: int) -> LocalRows:
        """From the pairs (node, node it sees), [2, K], sorted and without repetition."""
        ptr = pointer(occurrences(balls[0], topology.num_nodes))
        own = true_places(balls[0] == balls[1], topology.num_nodes)
        far, count = torch.ones_like(own), topology.num_nodes
        ptr, own, described = with_last_rows(ptr, balls[0], balls[1], own, far, count)
        return cls(
            ptr=ptr,
            own=own,
            num_rows=described.numel(),
            context_radius=context_radius,
            described=described,
            num_nodes=count,
        )

    def rebuild(self, topology: Topology, balls: Tensor) -> LocalRows:
        assert self.context_radius is not None
        return self.build(topology, balls, self.context_radius)


def find_rows(key: Tensor, ptr: Tensor, node: Tensor, wanted: Tensor) -> Tensor:
    """The row with each key, among sorted keys [P]; if there is none, the last row of `node`."""
    at = torch.searchsorted(key, wanted).clamp(max=key.numel() - 1)
    return torch.where(take(key, at) == wanted, at, take(ptr, node + 1) - 1)


def with_last_rows(
    ptr: Tensor, owner: Tensor, described: Tensor, own: Tensor, extra: Tensor, num_nodes: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Append a last row to the contexts where `extra`: ptr [K + 1], own [K] and described [P].

    Shapes: as in `NeighborhoodRows.assemble`.
    """
    shift = pointer(extra.long())
    row_ptr = ptr + shift
    rows = described.new_full((number(row_ptr[-1]),), num_nodes)
    place = torch.arange(owner.numel(), device=owner.device) + take(shift, owner)
    return row_ptr, own + shift[:-1], rows.index_copy(0, place, described)


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeRows(RowTable):
    """One row per node, its own: node features instead of contexts (the MPNN ablation)."""

    @classmethod
    def build(cls, topology: Topology) -> NodeRows:
        ptr = torch.arange(topology.num_nodes + 1, device=topology.device)
        return cls(ptr=ptr, own=ptr[:-1], num_rows=topology.num_nodes)

    def counterpart(self, node: Tensor, row: Tensor) -> Tensor:
        return node

    def permute(self, permutation: Tensor, topology: Topology) -> tuple[NodeRows, Tensor]:
        return self.build(topology), permutation
