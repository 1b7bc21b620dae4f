"""Row tables: which rows each local context has, and which rows of two contexts correspond."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from smpgnn.topology import Topology, pointer, segments, take


@dataclass(frozen=True, eq=False, kw_only=True)
class RowTable(ABC):
    """The rows of all contexts of a batch: node i owns the rows ptr[i]:ptr[i+1].

    Shapes: ptr [N + 1], own [N] (the row in which a node describes itself),
    multiplicity [P] (how many equal rows of the paper a row stands for) or None where all are 1.
    """

    ptr: Tensor
    own: Tensor
    num_rows: int

    multiplicity: Tensor | None = None
    #: The number of layers up to which these rows compute what the scheme promises; None: any.
    radius: int | None = None

    @abstractmethod
    def counterpart(self, node: Tensor, row: Tensor) -> Tensor:
        """The row of `node`'s context that stands for what `row`, of a neighbour, stands for."""

    @abstractmethod
    def permute(self, permutation: Tensor, topology: Topology) -> tuple[RowTable, Tensor]:
        """The table of the renamed graphs (`topology`), and where each row lies in it, [P]."""

    @cached_property
    def owner(self) -> Tensor:
        """The node to whose context each row belongs, [P]."""
        return segments(self.ptr.diff(), self.num_rows)[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class IdentifierRows(RowTable):
    """Every node of a graph has the same identifiers as rows: one-hot and coloring.

    Identifier r lies at ptr[i] + r in the context of node i. Shape: identifier [N], of each node.
    """

    identifier: Tensor

    @classmethod
    def build(cls, topology: Topology, identifier: Tensor, radius: int | None) -> IdentifierRows:
        """From the identifier 0, 1, … of every node, [N]; its graph has max + 1 rows a context."""
        width = identifier.new_zeros(topology.num_graphs)
        width.scatter_reduce_(0, topology.batch, identifier + 1, "amax")
        ptr = pointer(width[topology.batch])
        return cls(
            ptr=ptr,
            own=ptr[:-1] + identifier,
            num_rows=int(ptr[-1]),
            radius=radius,
            identifier=identifier,
        )

    def counterpart(self, node: Tensor, row: Tensor) -> Tensor:
        return row + take(self.ptr, node) - take(self.ptr, take(self.owner, row))

    def permute(self, permutation: Tensor, topology: Topology) -> tuple[IdentifierRows, Tensor]:
        # Nodes keep what they share, but identifiers are numbered anew in the new order of the
        # nodes (one-hot stays one-hot): the rows of each context change places, too.
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
        renumbered[order] = number  # slots of a graph stand together, so ranks are 0, 1, … in each
        table = self.build(topology, renumbered[slot], self.radius)
        described = torch.arange(self.num_rows, device=first.device) - self.ptr[self.owner]
        moved = renumbered[slot_ptr[topology.batch[self.owner]] + described]
        return table, table.ptr[permutation[self.owner]] + moved


@dataclass(frozen=True, eq=False, kw_only=True)
class NeighborhoodRows(RowTable):
    """Rows for the nodes within `radius` hops, in the order of the nodes, then the unseen row.

    The unseen row stands for all other nodes of the graph and counts as many times as they are.
    Graphs all of whose nodes see everything have no unseen row.

    Shape: key [P], sorted: owner · (N + 1) + described node, N for the unseen row.
    """

    key: Tensor

    @classmethod
    def build(cls, topology: Topology, balls: Tensor, radius: int) -> NeighborhoodRows:
        """From the pairs (node, node it sees), [2, K], sorted and without repetition."""
        count = topology.num_nodes
        seen = torch.bincount(balls[0], minlength=count)
        unseen = topology.graph_size[topology.batch] - seen
        # A neighbour's unseen row may be read even where it stands for nobody, so it is kept in
        # every context of a graph as soon as one of its nodes fails to see everything.
        partial = torch.zeros_like(topology.graph_size)
        partial.scatter_reduce_(0, topology.batch, unseen, "amax")
        extra = (partial[topology.batch] > 0).long()
        ptr = pointer(seen + extra)
        num_rows = int(ptr[-1])
        shift = pointer(extra)[:-1]
        at = torch.arange(balls.size(1), device=balls.device) + shift[balls[0]]
        last = torch.nonzero(extra).flatten()
        key = balls.new_empty(num_rows)
        key[at] = balls[0] * (count + 1) + balls[1]
        key[ptr[last + 1] - 1] = last * (count + 1) + count
        multiplicity = None
        if last.numel():
            multiplicity = torch.ones_like(key)
            multiplicity[ptr[last + 1] - 1] = unseen[last]
        nodes = torch.arange(count, device=key.device)
        own = torch.searchsorted(key, nodes * (count + 1) + nodes)
        return cls(
            ptr=ptr, own=own, num_rows=num_rows, multiplicity=multiplicity, radius=radius, key=key
        )

    @property
    def described(self) -> Tensor:
        """The node that each row describes, [P]; the number of nodes for an unseen row."""
        return self.key % (self.ptr.numel())

    def counterpart(self, node: Tensor, row: Tensor) -> Tensor:
        wanted = node * self.ptr.numel() + take(self.described, row)
        at = torch.searchsorted(self.key, wanted).clamp(max=self.num_rows - 1)
        return torch.where(take(self.key, at) == wanted, at, take(self.ptr, node + 1) - 1)

    def permute(self, permutation: Tensor, topology: Topology) -> tuple[NeighborhoodRows, Tensor]:
        assert self.radius is not None
        count = topology.num_nodes
        renamed = torch.cat([permutation, permutation.new_tensor([count])])
        key = permutation[self.owner] * (count + 1) + renamed[self.described]
        seen = key[self.described < count].sort().values
        balls = torch.stack([seen // (count + 1), seen % (count + 1)])
        table = self.build(topology, balls, self.radius)
        return table, torch.searchsorted(table.key, key)


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeRows(RowTable):
    """One row a node, its own: contexts replaced by node features (the MPNN ablation)."""

    @classmethod
    def build(cls, topology: Topology) -> NodeRows:
        ptr = torch.arange(topology.num_nodes + 1, device=topology.device)
        return cls(ptr=ptr, own=ptr[:-1], num_rows=topology.num_nodes)

    def counterpart(self, node: Tensor, row: Tensor) -> Tensor:
        return node

    def permute(self, permutation: Tensor, topology: Topology) -> tuple[NodeRows, Tensor]:
        return self.build(topology), permutation
