"""The rows of contexts in batches of fixed size: one class for each type of contexts.

Each class names the axes and columns that its rows need (`smpgnn.capture.axes`) and builds the row
table of a batch from what was cut out of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from smpgnn.capture.axes import Axis, Column, Entries, IndexTables
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.rows import IdentifierRows, LocalRows, NodeRows, RowTable
from smpgnn.contexts.topology import Topology, segments, take
from smpgnn.data.store import GraphStore
from smpgnn.ops.ragged import square_owners


@dataclass(frozen=True, eq=False)
class RowCut:
    """The rows of a batch.

    `receive` and `send` are the row lists of `Neighbors` by receiver and by sender, as int32.
    `given` has further values of the index that are known beforehand.
    """

    table: RowTable
    receive: tuple[Tensor, Tensor]
    send: tuple[Tensor, Tensor, Tensor]
    given: Mapping[str, Any] = field(default_factory=dict)


class RowAxes(ABC):
    """The rows of a data set, as axes and columns.

    `axes` are those besides 'node' and 'edge'. `node_columns` has 'first_row', 'own' and 'count' of
    each node: its first and its own row, and how many rows its context has. `row_axis` is the axis
    whose entries the rows are.
    """

    axes: Mapping[str, Axis]
    node_columns: Mapping[str, Column]
    row_axis: str = "row"

    @property
    def first_row(self) -> Tensor:
        return self.node_columns["first_row"].values

    @abstractmethod
    def cut(self, tables: IndexTables, spans: Tensor, nodes: Entries, sizes: Mapping[str, int]
    ) -> RowCut:  # fmt: skip
        """The rows of the batch with these spans and nodes."""


def _no_lists(like: Tensor) -> dict[str, Any]:
    """Row j of one context corresponds to row j of the other: nothing is listed."""
    empty = like.new_empty(0, dtype=torch.int32)
    return {"receive": (empty, empty), "send": (empty, empty, empty)}


class NodeAxes(RowAxes):
    """One row per node."""

    row_axis = "node"

    def __init__(self, store: GraphStore) -> None:
        self.axes = {}
        local, _ = _local_indices(store)
        self.node_columns = {
            "first_row": Column(local, "node", pointer=True),
            "count": Column(torch.ones_like(local)),
        }

    def cut(
        self, tables: IndexTables, spans: Tensor, nodes: Entries, sizes: Mapping[str, int]
    ) -> RowCut:
        own = torch.arange(sizes["node"], device=spans.device)
        count, small = nodes.columns["count"], own.int()
        table = NodeRows(
            ptr=nodes.columns["first_row"],
            own=own,
            num_rows=sizes["node"],
            padded=True,
            given={
                "owner": own,
                "count": count,
                "counted": count,
                "small": (nodes.small["first_row"], small),
                "small_owner": small,
            },
        )
        return RowCut(table, **_no_lists(spans))


class OneHotAxes(RowAxes):
    """A row for every node of the graph in every context."""

    def __init__(self, store: GraphStore) -> None:
        self.axes = {"row": Axis(store.num_nodes.square())}
        local, size = _local_indices(store)
        self.node_columns = {
            "first_row": Column(local * size, "row", pointer=True),
            "own": Column(local * size + local, "row"),
            "count": Column(size),
            "local": Column(local),
        }

    def cut(
        self, tables: IndexTables, spans: Tensor, nodes: Entries, sizes: Mapping[str, int]
    ) -> RowCut:
        node, row = (tables.names.index(axis) for axis in ("node", "row"))
        owner = square_owners(spans, node, row, sizes["row"])
        table = IdentifierRows(
            ptr=nodes.columns["first_row"],
            own=nodes.columns["own"],
            num_rows=sizes["row"],
            identifier=nodes.columns["local"],
            padded=True,
            given={
                "owner": owner,
                "count": nodes.columns["count"],
                "small": (nodes.small["first_row"], nodes.small["own"]),
                "small_owner": owner.int(),
            },
        )
        return RowCut(table, **_no_lists(spans))


class ListedAxes(RowAxes):
    """Rows that differ from context to context, and lists of the messages between them.

    Subclasses build the table from its rows. `columns` are those of rows, besides their owner and
    the pointers of their messages.
    """

    def __init__(
        self, store: GraphStore, index: ContextIndex, columns: Mapping[str, Column]
    ) -> None:
        table, lift, topology = index.table, index.lift, index.topology
        row_ptr = take(table.ptr, store.node_ptr)
        message_ptr = take(lift.ptr, row_ptr)
        row_start, node_start = take(row_ptr, topology.batch), take(store.node_ptr, index.row_graph)
        message_start = take(message_ptr, index.row_graph)
        back_ptr, order = lift.by_source
        graph, back_graph = (
            take(index.row_graph, rows) for rows in (lift.target, take(lift.source, order))
        )
        self.node_columns = {
            "first_row": Column(table.ptr[:-1] - row_start, "row", pointer=True),
            "own": Column(table.own - row_start, "row"),
            "count": Column(table.ptr.diff()),
        }
        self.axes = {
            "row": Axis(
                row_ptr.diff(),
                {
                    "owner": Column(table.owner - node_start, "node"),
                    **columns,
                    "receive_ptr": Column(lift.ptr[:-1] - message_start, "message", pointer=True),
                    "send_ptr": Column(back_ptr[:-1] - message_start, "message", pointer=True),
                },
            ),
            "message": Axis(
                message_ptr.diff(),
                {
                    "sender": Column(lift.source - take(row_ptr, graph), "row"),
                    "receiver": Column(take(lift.target, order) - take(row_ptr, back_graph), "row"),
                    "edge": Column(
                        take(lift.edge, order) - take(store.edge_ptr, back_graph), "edge"
                    ),
                },
            ),
        }

    @abstractmethod
    def table(
        self, tables: IndexTables, spans: Tensor, nodes: Entries, rows: Entries,
        sizes: Mapping[str, int], layout: Mapping[str, Any],
    ) -> RowTable:  # fmt: skip
        """The table of a batch; `layout` are arguments of `RowLayout`."""

    def cut(
        self, tables: IndexTables, spans: Tensor, nodes: Entries, sizes: Mapping[str, int]
    ) -> RowCut:
        rows, messages = tables.cut(spans, "row"), tables.cut(spans, "message").small
        table = self.table(tables, spans, nodes, rows, sizes, listed_layout(nodes, rows, sizes))
        return RowCut(
            table,
            (rows.small["receive_ptr"], messages["sender"]),
            (rows.small["send_ptr"], messages["receiver"], messages["edge"]),
        )


def listed_layout(
    nodes: Entries, rows: Entries, sizes: Mapping[str, int], axis: str = "row", prefix: str = ""
) -> Mapping[str, Any]:
    """Arguments of `RowLayout` for the rows of an axis; `prefix` is that of their node columns."""
    first, own, count = (f"{prefix}{name}" for name in ("first_row", "own", "count"))
    return {
        "ptr": nodes.columns[first],
        "own": nodes.columns[own],
        "num_rows": sizes[axis],
        "padded": True,
        "given": {
            "owner": rows.columns["owner"],
            "count": nodes.columns[count],
            "small": (nodes.small[first], nodes.small[own]),
            "small_owner": rows.small["owner"],
        },
    }


class LocalAxes(ListedAxes):
    """A row for every node within `context_radius` hops and a far row."""

    def __init__(self, store: GraphStore, context_radius: int) -> None:
        topology, _ = sorted_topology(store)
        index = ContextIndex.build(topology, "local", 1, context_radius)
        assert isinstance(index.table, LocalRows)
        self.context_radius = context_radius
        described = described_nodes(index.table, take(store.node_ptr, index.row_graph))
        super().__init__(store, index, {"described": Column(described, "node")})

    def table(
        self, tables: IndexTables, spans: Tensor, nodes: Entries, rows: Entries,
        sizes: Mapping[str, int], layout: Mapping[str, Any],
    ) -> LocalRows:  # fmt: skip
        return LocalRows(
            context_radius=self.context_radius,
            described=rows.columns["described"],
            num_nodes=sizes["node"],
            **layout,
        )


def described_nodes(table: LocalRows, start: Tensor) -> Tensor:
    """The node that each row describes within its graph, −1 for a far row, [P]."""
    return torch.where(table.described < table.num_nodes, table.described - start, -1)


def sorted_topology(store: GraphStore) -> tuple[Topology, Tensor]:
    """All graphs of a store side by side, edges sorted by receiver, and that order, [E]."""
    graph = torch.arange(len(store), device=store.device)
    shift = store.node_ptr[graph.repeat_interleave(store.num_edges)]
    edge_index = store.edge_index.long() + shift
    order = torch.argsort(edge_index[1], stable=True)  # the edges of a graph stay together
    batch = graph.repeat_interleave(store.num_nodes)
    return Topology(edge_index[:, order], batch, batch.numel(), len(store)), order


def _local_indices(store: GraphStore) -> tuple[Tensor, Tensor]:
    """The index of each node within its graph, and the number of nodes of that graph, [N] each."""
    _, local = segments(store.num_nodes, int(store.node_ptr[-1]))
    return local, store.num_nodes.repeat_interleave(store.num_nodes)
