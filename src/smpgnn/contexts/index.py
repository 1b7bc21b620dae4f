"""The graphs of a batch and the rows of their contexts: how rows reach those of the neighbours."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from smpgnn.contexts.caching import cached_property, outside_modes
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.identifiers import identifier_scheme
from smpgnn.contexts.incidence import Incidence
from smpgnn.contexts.layout import RowLayout
from smpgnn.contexts.rows import IdentifierRows, LocalRows, NodeRows, RowTable
from smpgnn.contexts.topology import Topology, pointer, segments, take
from smpgnn.errors import InputError
from smpgnn.ops import (
    Lift,
    Neighbors,
    Routes,
    SparseSum,
    find_neighbors,
    initial_rows,
    segment_max,
    segment_sum,
)
from smpgnn.ops.sparse import segment_matrices


@dataclass(frozen=True, eq=False)
class ContextIndex:
    """Graphs and the rows of their contexts: all that layers need besides the rows themselves.

    Computed once for a batch and shared by all layers.
    """

    topology: Topology
    table: RowTable
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    @classmethod
    @outside_modes
    def build(
        cls, topology: Topology, identifiers: str, num_layers: int, context_radius: int = 3
    ) -> ContextIndex:
        """The rows of the scheme 'onehot', 'coloring' or 'neighborhood' for this many layers.

        Those of 'local' tell apart the nodes within `context_radius` hops, in any number of layers.
        """
        scheme = identifier_scheme(identifiers)
        return cls(topology, scheme(topology, num_layers, context_radius))

    @classmethod
    @outside_modes
    def of_nodes(cls, topology: Topology) -> ContextIndex:
        """One row a node instead of a context: ordinary message passing."""
        return cls(topology, NodeRows.build(topology))

    @property
    def num_rows(self) -> int:
        return self.table.num_rows

    @property
    def radius(self) -> int | None:
        """The number of layers up to which these rows serve; None: any."""
        return self.table.radius

    def of_layer(self, number: int) -> ContextIndex:
        """The rows that layer 1, 2, … works on: here the same for all."""
        return self

    def enter(self, context: LocalContext, number: int) -> LocalContext:
        """The contexts after layer `number` − 1 with the rows that layer `number` works on."""
        return context

    def read(self, context: LocalContext, number: int) -> LocalContext:
        """The contexts after layer `number` (0: before the first) from which features are read."""
        return context

    def check_level(self, level: str) -> None:
        """Refuse a network of this level, 'node' or 'graph', where the contexts do not serve it."""

    @cached_property
    def layout(self) -> RowLayout:
        table = self.table
        return RowLayout(table.ptr, table.owner, table.own, table.multiplicity)

    @cached_property
    def row_graph(self) -> Tensor:
        """The graph each row belongs to, [P]."""
        return take(self.topology.batch, self.table.owner)

    @cached_property
    def lift(self) -> Lift:
        table, topology = self.table, self.topology
        edge_ptr, edge_order = topology.edges_by_receiver
        arriving = take(topology.degree, table.owner)
        ptr = pointer(arriving)
        target, rank = segments(arriving, int(ptr[-1]))
        edge = take(edge_order, take(take(edge_ptr, table.owner), target) + rank)
        return Lift(
            ptr=ptr,
            source=table.counterpart(take(topology.sender, edge), target),
            target=target,
            edge=edge,
            scale=take(topology.inverse_average_degree, self.row_graph),
        )

    @cached_property
    def routes(self) -> Routes:
        """The same for the kernels; where all contexts of a graph have the same rows, no `lift`."""
        topology = self.topology
        scale = take(topology.inverse_average_degree, topology.batch)
        same = isinstance(self.table, IdentifierRows | NodeRows)
        edges, ptr, weak = topology.edge_index, self.layout.ptr, weakref.ref(self)

        def sides() -> tuple[Neighbors, Neighbors]:
            index = weak()  # a strong reference would keep the index alive in a circle
            assert index is not None
            return find_neighbors(edges, ptr, None if same else index.lift)

        return Routes(*self.layout.small, scale, topology.degree * scale, sides, self.layout.padded)

    @cached_property
    def adjacent(self) -> tuple[SparseSum, SparseSum]:
        """Matrices that sum over the nodes that send to each node, and over those it sends to."""
        topology = self.topology
        ptr, order = topology.edges_by_receiver
        out_ptr, out_order = topology.edges_by_sender
        return (
            SparseSum(ptr, take(topology.sender, order)),
            SparseSum(out_ptr, take(topology.receiver, out_order)),
        )

    @cached_property
    def incidence(self) -> Incidence:
        return Incidence(self.topology, self.layout.padded)

    @cached_property
    def edge_layout(self) -> RowLayout:
        """States of edges as contexts of one row each, by which a norm of rows serves them."""
        place = torch.arange(self.topology.num_edges + 1, device=self.topology.device)
        padded = self.layout.padded
        used = self.topology.edges_by_receiver[0][-1] if padded else place[-1]
        return RowLayout(torch.minimum(place, used), place[:-1], place[:-1], None, padded)

    @cached_property
    def largest(self) -> int:
        """A number of nodes that no graph exceeds."""
        return int(self.topology.graph_size.max()) if self.topology.num_graphs else 0

    @property
    def undivided(self) -> Undivided:
        """The same with sums over neighbours that are not divided by d_avg."""
        return Undivided(self)  # not kept: both would keep each other alive

    @cached_property
    def undivided_lift(self) -> Lift:
        return replace(self.lift, scale=(self.lift.scale > 0).to(self.lift.scale.dtype))

    @cached_property
    def undivided_routes(self) -> Routes:
        scale = (self.routes.scale > 0).to(self.routes.scale.dtype)
        return replace(self.routes, scale=scale, arrived=self.topology.degree * scale)

    def divide(self, rows: Tensor) -> Tensor:
        """Rows divided by d_avg of their graph, [P, C]; as they are where it has no edges."""
        inverse = self.topology.inverse_average_degree
        share = take(torch.where(inverse > 0, inverse, 1.0), self.row_graph)
        return rows * share.to(rows.dtype).unsqueeze(1)

    @cached_property
    def described(self) -> Tensor:
        """The node that each row describes, [P]; N for the far row of a local context.

        Refused where it depends on the layer for how many nodes a row stands.
        """
        table, topology = self.table, self.topology
        if isinstance(table, NodeRows):
            return table.owner
        if isinstance(table, LocalRows):
            return table.described
        if not isinstance(table, IdentifierRows) or table.radius is not None:
            raise InputError(
                "a row may stand for several nodes: build the index with 'onehot' or 'local'."
            )
        shift = take(topology.graph_ptr, self.row_graph) - take(table.ptr, table.owner)
        node = torch.arange(self.num_rows, device=topology.device) + shift
        # rows that belong to no context may point past the last node
        return node.clamp(max=topology.num_nodes - 1) if self.layout.padded else node

    @cached_property
    def by_edge(self) -> tuple[RowLayout, Tensor, Tensor]:
        """The layout of one context an edge, with the receiver's rows, and where its rows are.

        Returns the layout and, for each of its rows, the receiver's and the sender's row, [M].
        """
        table, topology = self.table, self.topology
        sizes = table.ptr.diff()[topology.receiver]
        ptr = pointer(sizes)
        edge, rank = segments(sizes, int(ptr[-1]))
        receiver = table.ptr[topology.receiver[edge]] + rank
        sender = table.counterpart(topology.sender[edge], receiver)
        shift = ptr[:-1] - table.ptr[topology.receiver]
        multiplicity = None if table.multiplicity is None else table.multiplicity[receiver]
        layout = RowLayout(ptr, edge, table.own[topology.receiver] + shift, multiplicity)
        return layout, receiver, sender

    @cached_property
    def graph_multiplicity(self) -> Tensor | None:
        """How often each graph counts in statistics over graphs, [B]; None: all once."""
        return None

    @cached_property
    def graph_layout(self) -> RowLayout:
        """Values of graphs as contexts of one row each, by which a norm of rows serves them."""
        place = torch.arange(self.topology.num_graphs + 1, device=self.topology.device)
        return RowLayout(place, place[:-1], place[:-1], self.graph_multiplicity)

    @cached_property
    def graph_nodes(self) -> tuple[SparseSum, SparseSum]:
        """Matrices that sum the nodes of each graph and spread graph values to nodes."""
        return segment_matrices(self.topology.graph_ptr, self.topology.batch)

    def initial(self, x: Tensor | None, dtype: torch.dtype, features: str = "own") -> LocalContext:
        """U_i⁽⁰⁾: zero, except for U_i[i, :] = [1, x_i]; or other rows have features, too.

        Those of the node i with `features='context'`, U_i[j, 1:] = x_i; with 'row' those of the
        node that is described, U_i[j, 1:] = x_j. Shape: x [N, F]; rows [P, 1 + F].
        """
        held = None
        if features != "own":
            held = self.layout.owner if features == "context" else self.described
        rows, known = initial_rows(x, dtype, self.layout, held)
        return LocalContext(rows, self.layout, moments=known)

    @outside_modes
    def permute(self, permutation: Tensor) -> tuple[ContextIndex, Tensor]:
        """Rename node i permutation[i]: the new index, and where each row lies in it, [P]."""
        topology = self.topology.permute(permutation)
        table, place = self.table.permute(permutation, topology)
        return ContextIndex(topology, table), place

    def graph_sum(self, values: Tensor) -> Tensor:
        """The sum of node values over each graph, [N, C] to [B, C]."""
        return segment_sum(values, *self.graph_nodes)

    def graph_max(self, values: Tensor) -> Tensor:
        """The largest of the node values of each graph, [N, C] to [B, C]; zero for an empty one."""
        return segment_max(values, self.topology.graph_ptr, self.topology.batch)

    def graph_mean(self, values: Tensor) -> Tensor:
        """The mean of node values over each graph, [N, C] to [B, C]; zero for an empty graph."""
        return self.graph_sum(values) / self.graph_size(values.dtype)

    @outside_modes
    def graph_size(self, dtype: torch.dtype) -> Tensor:
        """n of each graph, at least 1, [B, 1]."""
        if dtype not in self._graph_sizes:
            least = self.topology.graph_size.clamp(min=1)
            self._graph_sizes[dtype] = least.to(dtype).unsqueeze(1)
        return self._graph_sizes[dtype]

    @cached_property
    def _graph_sizes(self) -> dict[torch.dtype, Tensor]:
        """`graph_size` in the types that were asked for."""
        return {}


@dataclass(frozen=True, eq=False)
class Undivided:
    """The wiring of an index (`smpgnn.ops.Wiring`) with sums that are not divided by d_avg."""

    index: ContextIndex

    @property
    def layout(self) -> RowLayout:
        return self.index.layout

    @property
    def lift(self) -> Lift:
        return self.index.undivided_lift

    @property
    def routes(self) -> Routes:
        return self.index.undivided_routes
