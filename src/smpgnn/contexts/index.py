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
from smpgnn.contexts.edges import Edges
from smpgnn.contexts.graphs import Graphs
from smpgnn.contexts.identifiers import Sizes, identifier_scheme
from smpgnn.contexts.layout import RowLayout
from smpgnn.contexts.links import Links
from smpgnn.contexts.pairs import PairRows
from smpgnn.contexts.rows import IdentifierRows, LocalRows, NodeRows, RowTable
from smpgnn.contexts.topology import Topology, pointer, segments, take
from smpgnn.errors import InputError
from smpgnn.ops import (
    Lift,
    Neighbors,
    Routes,
    find_neighbors,
    initial_rows,
)
from smpgnn.tracing import number, traced


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
        cls,
        topology: Topology,
        identifiers: str,
        num_layers: int,
        context_radius: int = 3,
        pair_distance: int = 1,
    ) -> ContextIndex:
        """The rows of a scheme: 'onehot', 'coloring', 'neighborhood', 'local' or 'pairs'.

        'coloring' and 'neighborhood' depend on `num_layers`, 'local' and 'pairs' on
        `context_radius`, and 'pairs' also on `pair_distance`.
        """
        sizes = Sizes(num_layers, context_radius, pair_distance)
        return cls(topology, identifier_scheme(identifiers)(topology, sizes))

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
        if traced():
            return self._lift_by_edge()
        table, topology = self.table, self.topology
        edge_ptr, edge_order = topology.edges_by_receiver
        arriving = take(topology.degree, table.owner)
        ptr = pointer(arriving)
        target, rank = segments(arriving, number(ptr[-1]))
        edge = take(edge_order, take(take(edge_ptr, table.owner), target) + rank)
        return Lift(
            ptr=ptr,
            source=table.counterpart(take(topology.sender, edge), target),
            target=target,
            edge=edge,
            scale=take(topology.inverse_average_degree, self.row_graph),
            cuts=take(table.ptr, topology.graph_ptr),
        )

    def _lift_by_edge(self) -> Lift:
        """`lift` without sorting: entries are in the order of the edges, and there is no `ptr`.

        This is enough for the plain forms of the operations.
        """
        table, topology = self.table, self.topology
        sizes = take(table.ptr.diff(), topology.receiver)
        edge, rank = segments(sizes, number(sizes.sum()))
        target = take(take(table.ptr, topology.receiver), edge) + rank
        return Lift(
            ptr=table.ptr[:0],
            source=table.counterpart(take(topology.sender, edge), target),
            target=target,
            edge=edge,
            scale=take(topology.inverse_average_degree, self.row_graph),
        )

    @cached_property
    def routes(self) -> Routes:
        """The same as `lift`, in the form that kernels read.

        If all contexts of a graph have the same rows, `lift` itself is not computed.
        """
        topology = self.topology
        scale = take(topology.inverse_average_degree, topology.batch)
        if traced():  # only kernels read the sides
            return Routes(*self.layout.small, scale, topology.degree * scale, _no_sides)
        same = isinstance(self.table, IdentifierRows | NodeRows)
        edges, ptr, weak = topology.edge_index, self.layout.ptr, weakref.ref(self)

        def sides() -> tuple[Neighbors, Neighbors]:
            index = weak()  # a strong reference would be a cycle
            assert index is not None
            return find_neighbors(edges, ptr, None if same else index.lift)

        return Routes(*self.layout.small, scale, topology.degree * scale, sides, self.layout.padded)

    @cached_property
    def edges(self) -> Edges:
        """Gathers and sums over edges, for layers that work on edge values."""
        return Edges(self.topology, self.table.padded)

    @cached_property
    def graphs(self) -> Graphs:
        """Sums, means and maxima over the nodes of each graph."""
        return Graphs(self.topology)

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
    def links(self) -> Links:
        """How rows are linked beyond the messages of SMP; one-hot or local contexts only."""
        described, table = self.described, self.table
        assert isinstance(table, IdentifierRows | LocalRows)
        return Links(self.topology, table, described, self.graphs, given=self.link_lists)

    @cached_property
    def link_lists(self) -> Mapping[str, Any]:
        """Lists of `links` that are known beforehand."""
        return {}

    @cached_property
    def first_rows(self) -> dict[Any, Tensor]:
        """Channels of the initial rows that depend only on the graphs, computed so far."""
        return {}

    @cached_property
    def of_single_nodes(self) -> ContextIndex:
        """For rows that describe two nodes: the contexts with rows for single ones.

        `link_lists` and `first_rows` are those of these rows.
        """
        assert isinstance(self.table, PairRows)
        given = {"link_lists": self.link_lists, "first_rows": self.first_rows}
        return ContextIndex(self.topology, self.table.nodes, given=given)

    @cached_property
    def by_edge(self) -> tuple[RowLayout, Tensor, Tensor]:
        """One context per edge with the rows of its receiver, for `SMPLayer.general_forward`.

        Returns the layout and, for each of its rows, the receiver's and the sender's row, [M].
        """
        table, topology = self.table, self.topology
        sizes = table.ptr.diff()[topology.receiver]
        ptr = pointer(sizes)
        edge, rank = segments(sizes, number(ptr[-1]))
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

    def uncached(self) -> ContextIndex:
        """The same index without what has been computed from it, for torch.compile and export.

        A compiled call does not depend then on which properties were computed before it.
        """
        return ContextIndex(self.topology.uncached(), self.table.uncached())

    @outside_modes
    def permute(self, permutation: Tensor) -> tuple[ContextIndex, Tensor]:
        """Rename node i to permutation[i]: the new index, and the new position of each row, [P]."""
        topology = self.topology.permute(permutation)
        table, place = self.table.permute(permutation, topology)
        return ContextIndex(topology, table), place


def _no_sides() -> tuple[Neighbors, Neighbors]:
    raise NotImplementedError("a traced index has no neighbours for kernels")


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
