"""The index of a batch: its graphs, the rows of their contexts, and who sends rows to whom."""

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
    """The graphs and the row table of their contexts, and what layers compute from them.

    One index serves all layers of a network. Its properties are computed on first use.
    """

    topology: Topology
    table: RowTable
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    @classmethod
    @outside_modes
    def build(
        cls, topology: Topology, identifiers: str, num_layers: int, context_radius: int = 3
    ) -> ContextIndex:
        """The rows of a scheme: 'onehot', 'coloring', 'neighborhood' or 'local'.

        'coloring' and 'neighborhood' depend on `num_layers`, 'local' on `context_radius`.
        """
        scheme = identifier_scheme(identifiers)
        return cls(topology, scheme(topology, num_layers, context_radius))

    @classmethod
    @outside_modes
    def of_nodes(cls, topology: Topology) -> ContextIndex:
        """One row per node instead of a context: ordinary message passing."""
        return cls(topology, NodeRows.build(topology))

    @property
    def num_rows(self) -> int:
        return self.table.num_rows

    @property
    def radius(self) -> int | None:
        """The largest number of layers that these rows serve; None: any."""
        return self.table.radius

    def of_layer(self, number: int) -> ContextIndex:
        """The index of layer 1, 2, …; here the same for all."""
        return self

    def enter(self, context: LocalContext, number: int) -> LocalContext:
        """The contexts after layer `number` − 1, with the rows of layer `number`."""
        return context

    def read(self, context: LocalContext, number: int) -> LocalContext:
        """The contexts after layer `number` (0: before the first) from which readouts read."""
        return context

    def check_level(self, level: str) -> None:
        """Raise an error if a network of this level, 'node' or 'graph', cannot use these rows."""

    @property
    def layout(self) -> RowLayout:
        """The layout of the rows in memory, which is the table itself."""
        return self.table

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
        """As `lift`, for the kernels; without it if all contexts of a graph have the same rows."""
        topology = self.topology
        scale = take(topology.inverse_average_degree, topology.batch)
        same = isinstance(self.table, IdentifierRows | NodeRows)
        edges, ptr, weak = topology.edge_index, self.layout.ptr, weakref.ref(self)

        def sides() -> tuple[Neighbors, Neighbors]:
            index = weak()  # a strong reference would be a cycle
            assert index is not None
            return find_neighbors(edges, ptr, None if same else index.lift)

        return Routes(*self.layout.small, scale, topology.degree * scale, sides, self.layout.padded)

    @cached_property
    def adjacent(self) -> tuple[SparseSum, SparseSum]:
        """Matrices that sum over the senders of each node, and over its receivers."""
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
        """Edges as contexts of one row each, so that a norm of rows can normalise edge states."""
        place = torch.arange(self.topology.num_edges + 1, device=self.topology.device)
        padded = self.layout.padded
        used = self.topology.edges_by_receiver[0][-1] if padded else place[-1]
        return RowLayout(
            ptr=torch.minimum(place, used),
            own=place[:-1],
            num_rows=self.topology.num_edges,
            padded=padded,
            given={"owner": place[:-1]},
        )

    @cached_property
    def largest(self) -> int:
        """An upper bound on the number of nodes of a graph."""
        return int(self.topology.graph_size.max()) if self.topology.num_graphs else 0

    @property
    def undivided(self) -> Undivided:
        """The same wiring, with sums over neighbours that are not divided by d_avg."""
        return Undivided(self)  # not cached: this would be a reference cycle

    @cached_property
    def undivided_lift(self) -> Lift:
        return replace(self.lift, scale=(self.lift.scale > 0).to(self.lift.scale.dtype))

    @cached_property
    def undivided_routes(self) -> Routes:
        scale = (self.routes.scale > 0).to(self.routes.scale.dtype)
        return replace(self.routes, scale=scale, arrived=self.topology.degree * scale)

    def divide(self, rows: Tensor) -> Tensor:
        """Divide rows by d_avg of their graph, [P, C], unless the graph has no edges."""
        inverse = self.topology.inverse_average_degree
        share = take(torch.where(inverse > 0, inverse, 1.0), self.row_graph)
        return rows * share.to(rows.dtype).unsqueeze(1)

    @cached_property
    def described(self) -> Tensor:
        """The node that each row describes, [P]; N for the far row of a local context.

        Raises an error if a row may stand for several nodes.
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
        # padding rows may point past the last node
        return node.clamp(max=topology.num_nodes - 1) if self.layout.padded else node

    @cached_property
    def by_edge(self) -> tuple[RowLayout, Tensor, Tensor]:
        """One context per edge with the rows of its receiver, for `SMPLayer.general_forward`.

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
        layout = RowLayout(
            ptr=ptr,
            own=table.own[topology.receiver] + shift,
            num_rows=edge.numel(),
            multiplicity=multiplicity,
            given={"owner": edge},
        )
        return layout, receiver, sender

    @cached_property
    def graph_multiplicity(self) -> Tensor | None:
        """The multiplicity of each graph in statistics over graphs, [B]; None: all 1."""
        return None

    @cached_property
    def graph_layout(self) -> RowLayout:
        """Graphs as contexts of one row each, so that a norm of rows can normalise graph values."""
        place = torch.arange(self.topology.num_graphs + 1, device=self.topology.device)
        return RowLayout(
            ptr=place,
            own=place[:-1],
            num_rows=self.topology.num_graphs,
            multiplicity=self.graph_multiplicity,
            given={"owner": place[:-1]},
        )

    @cached_property
    def graph_nodes(self) -> tuple[SparseSum, SparseSum]:
        """Matrices that sum over the nodes of each graph, and copy graph values to nodes."""
        return segment_matrices(self.topology.graph_ptr, self.topology.batch)

    def initial(self, x: Tensor | None, dtype: torch.dtype, features: str = "own") -> LocalContext:
        """U_i⁽⁰⁾: zero except for U_i[i, :] = [1, x_i], if `features` is 'own'.

        With 'context' also U_i[j, 1:] = x_i, and with 'row' also U_i[j, 1:] = x_j for all rows j.
        Shapes: x [N, F]; rows [P, 1 + F].
        """
        held = None
        if features != "own":
            held = self.layout.owner if features == "context" else self.described
        rows, known = initial_rows(x, dtype, self.layout, held)
        return LocalContext(rows, self.layout, moments=known)

    def announce(self, context: LocalContext, values: Tensor) -> LocalContext:
        """Write values_j into row j of every context: U_i[j, 1:1+K] = values_j for all i.

        Shapes: values [N, K]; the K channels after the 1 are replaced.
        """
        rows, known = context.rows, take(values, self.described)
        first, rest = rows[:, :1], rows[:, 1 + values.size(1) :]
        return context.with_rows(torch.cat([first, known, rest], dim=1))

    @outside_modes
    def permute(self, permutation: Tensor) -> tuple[ContextIndex, Tensor]:
        """Rename node i to permutation[i]: the new index, and the new position of each row, [P]."""
        topology = self.topology.permute(permutation)
        table, place = self.table.permute(permutation, topology)
        return ContextIndex(topology, table), place

    def graph_sum(self, values: Tensor) -> Tensor:
        """The sum of node values over each graph, [N, C] to [B, C]."""
        return segment_sum(values, *self.graph_nodes)

    def graph_max(self, values: Tensor) -> Tensor:
        """The maximum of node values over each graph, [N, C] to [B, C]; zero for an empty graph."""
        return segment_max(values, self.topology.graph_ptr, self.topology.batch)

    def graph_mean(self, values: Tensor) -> Tensor:
        """The mean of node values over each graph, [N, C] to [B, C]; zero for an empty graph."""
        return self.graph_sum(values) / self.graph_size(values.dtype)

    @outside_modes
    def graph_size(self, dtype: torch.dtype) -> Tensor:
        """The number of nodes of each graph, at least 1, [B, 1]."""
        if dtype not in self._graph_sizes:
            least = self.topology.graph_size.clamp(min=1)
            self._graph_sizes[dtype] = least.to(dtype).unsqueeze(1)
        return self._graph_sizes[dtype]

    @cached_property
    def _graph_sizes(self) -> dict[torch.dtype, Tensor]:
        """`graph_size` by dtype."""
        return {}


@dataclass(frozen=True, eq=False)
class Undivided:
    """The wiring of an index (`smpgnn.ops.Wiring`) with sums not divided by d_avg."""

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
