"""The rows of all contexts of a data set, and how those of a batch of fixed size are cut out.

One class for each kind of rows: a row a node, one-hot contexts, local contexts. What is counted or
listed is found once, for all graphs; cutting asks the GPU nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from smpgnn.data.store import GraphStore
from smpgnn.index import ContextIndex
from smpgnn.rows import IdentifierRows, LocalRows, NodeRows, RowTable
from smpgnn.topology import Topology, take


def entries(ends: Tensor, shift: Tensor, places: Tensor, last: int) -> tuple[Tensor, Tensor]:
    """Cut segments out of a table: the segment of each place in a batch, and its entry there.

    Segments end at `ends` in the batch and lie in the table by `shift` further on, [B + 1] each;
    the last one is empty and has `last` as first entry, as all places past the others do.
    """
    owner = torch.searchsorted(ends[:-1], places, right=True)
    entry = places + take(shift, owner)
    return owner, entry.clamp(max=last)


def sorted_topology(store: GraphStore) -> tuple[Topology, Tensor]:
    """All graphs of a store side by side, edges sorted by receiver, and that order, [E]."""
    number = torch.arange(len(store), device=store.device)
    shift = store.node_ptr[number.repeat_interleave(store.num_edges)]
    edge_index = store.edge_index.long() + shift
    order = torch.argsort(edge_index[1], stable=True)  # graphs stand together, so they stay so
    batch = number.repeat_interleave(store.num_nodes)
    return Topology(edge_index[:, order], batch, batch.numel(), len(store)), order


@dataclass(frozen=True, eq=False)
class Places:
    """Where the graphs of a batch lie, in it and in the tables of the data set.

    The last graph is the unused room, which has the last entry of each table only. `spare` is what
    is added to numbers within a graph: where its nodes, edges and rows begin, but in the unused
    room the last ones, which nobody has.

    Shapes: starts, ends, first [4, B + 1], for nodes, edges, rows and messages: where those of a
    graph begin and end in the batch, and begin in the data set; spare [3, B + 1]; batch, local,
    node [N], the graph of a node, its place there, and its place in the data set; nodes [N + 1],
    rows [P + 1], messages [M], the numbers 0, 1, … of the places of a batch.
    """

    starts: Tensor
    ends: Tensor
    first: Tensor
    spare: Tensor
    batch: Tensor
    local: Tensor
    node: Tensor
    nodes: Tensor
    rows: Tensor
    messages: Tensor

    @property
    def num_nodes(self) -> int:
        return self.batch.numel()

    @property
    def num_rows(self) -> int:
        return self.rows.numel() - 1

    def entries(self, kind: int, places: Tensor, last: int) -> tuple[Tensor, Tensor]:
        """The graphs and table entries of edges (1), rows (2) or messages (3); see `entries`."""
        if kind not in self._entries:
            found = entries(self.ends[kind], self._shift[kind], places, last)
            self._entries[kind] = found
        return self._entries[kind]

    @cached_property
    def _entries(self) -> dict[int, tuple[Tensor, Tensor]]:
        """What was asked for already."""
        return {}

    @cached_property
    def _shift(self) -> Tensor:
        """How much further on all of a graph lies in the data set than in the batch, [4, B + 1]."""
        return self.first - self.starts


@dataclass(frozen=True, eq=False)
class RowLists:
    """What `Neighbors` has beyond edges, int32; empty where row j joins row j.

    Shapes: ptr, back_ptr [P + 1]; row [M], those that send, by receiver; back_row and back_edge
    [M], those that receive and over which edge, by sender.
    """

    ptr: Tensor
    row: Tensor
    back_ptr: Tensor
    back_row: Tensor
    back_edge: Tensor


class DataRows(ABC):
    """The rows of a data set.

    Shapes: sizes [G], the rows of each graph; messages [G], from row to row, where they are listed.
    """

    def __init__(self, store: GraphStore) -> None:
        self.sizes = store.num_nodes
        self.messages = torch.zeros_like(self.sizes)

    @abstractmethod
    def table(self, places: Places) -> RowTable:
        """The rows of a batch."""

    def lists(self, places: Places) -> RowLists:
        """Which rows of a batch join: here row j of one context and row j of the other."""
        return RowLists(*(torch.empty(0, dtype=torch.int32, device=self.sizes.device),) * 5)


class DataNodes(DataRows):
    """One row a node."""

    def table(self, places: Places) -> NodeRows:
        ptr, own = torch.minimum(places.nodes, places.ends[0, -1:]), places.nodes[:-1]
        rows = NodeRows(ptr=ptr, own=own, num_rows=places.num_nodes)
        rows.__dict__["owner"] = own
        return rows


class DataOneHot(DataRows):
    """A row for every node of the graph in every context."""

    def __init__(self, store: GraphStore) -> None:
        super().__init__(store)
        self.sizes = store.num_nodes.square()

    def table(self, places: Places) -> IdentifierRows:
        size = (places.ends - places.starts)[0]
        start = take(places.starts[2], places.batch)
        first = torch.addcmul(start, places.local, take(size, places.batch))
        ptr = torch.cat([first, places.ends[2, -1:]])
        # Nodes that are not there have a row that nobody owns.
        own = (first + places.local).clamp(max=places.num_rows - 1)
        table = IdentifierRows(ptr=ptr, own=own, num_rows=places.num_rows, identifier=places.local)
        owner = torch.searchsorted(ptr[1:], places.rows[:-1], right=True)
        table.__dict__["owner"] = owner.clamp(max=places.num_nodes - 1)
        return table


class DataLocal(DataRows):
    """A row for every node within `context_radius` hops and a far row.

    All tables hold numbers within their graph and one entry more at the end, for what is not there.
    """

    def __init__(self, store: GraphStore, context_radius: int) -> None:
        super().__init__(store)
        topology, _ = sorted_topology(store)
        index = ContextIndex.build(topology, "local", 1, context_radius)
        table, lift = index.table, index.lift
        assert isinstance(table, LocalRows)
        self.context_radius = context_radius
        row_ptr = take(table.ptr, store.node_ptr)
        message_ptr = take(lift.ptr, row_ptr)
        self.sizes, self.messages = row_ptr.diff(), message_ptr.diff()
        # Of each node: its first row and its own; of each row: its owner, the node that it
        # describes (−1: a far row), where its messages begin by receiver and by sender; of each
        # message by receiver the row that sends, by sender that which receives, and the edge.
        batch, graph = topology.batch, index.row_graph
        row_start, node_start = take(row_ptr, batch), take(store.node_ptr, graph)
        seen = table.described - node_start
        back_ptr, order = lift.by_source
        starts = torch.stack([lift.ptr, back_ptr])[:, :-1] - take(message_ptr, graph)
        of_message = take(graph, lift.target), take(graph, take(lift.source, order))
        self._nodes = _table(table.ptr[:-1] - row_start, table.own - row_start)
        self._rows = _table(
            table.owner - node_start,
            torch.where(table.described < topology.num_nodes, seen, -1),
            *starts,
        )
        self._rows[1, -1] = -1
        self._messages = _table(
            lift.source - take(row_ptr, of_message[0]),
            take(lift.target, order) - take(row_ptr, of_message[1]),
            take(lift.edge, order) - take(store.edge_ptr, of_message[1]),
        )

    def table(self, places: Places) -> LocalRows:
        within = self._nodes.index_select(1, places.node) + take(places.starts[2], places.batch)
        graph, row = self._cut_rows(places)
        owner, seen = self._rows[:2].index_select(1, row[:-1])
        shift = take(places.spare[0], graph[:-1])
        table = LocalRows(
            ptr=torch.cat([within[0], places.ends[2, -1:]]),
            own=within[1],
            num_rows=places.num_rows,
            context_radius=self.context_radius,
            described=(seen + shift).masked_fill(seen < 0, places.num_nodes),
            num_nodes=places.num_nodes,
        )
        table.__dict__["owner"] = owner + shift
        return table

    def lists(self, places: Places) -> RowLists:
        graph, row = self._cut_rows(places)
        ptr, back_ptr = self._rows[2:].index_select(1, row) + take(places.starts[3].int(), graph)
        graph, entry = places.entries(3, places.messages, self._messages.size(1) - 1)
        sent, received, edge = self._messages.index_select(1, entry)
        spare = places.spare.int().index_select(1, graph)
        return RowLists(ptr, sent + spare[2], back_ptr, received + spare[2], edge + spare[1])

    def _cut_rows(self, places: Places) -> tuple[Tensor, Tensor]:
        """The graph of each row of a batch and its place in the table, and those past the last."""
        return places.entries(2, places.rows, self._rows.size(1) - 1)


def _table(*columns: Tensor) -> Tensor:
    """Numbers as rows of a table, int32, with a last entry of zeros."""
    table = torch.stack(columns)
    return torch.cat([table, table.new_zeros(len(columns), 1)], dim=1).int()
