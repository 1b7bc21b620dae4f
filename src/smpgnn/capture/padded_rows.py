"""The rows of all contexts of a data set, and how those of a batch of fixed size are cut out.

One class for each kind of rows: a row a node, one-hot contexts, local contexts. What is counted or
listed is found once, for all graphs; cutting asks the GPU nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.rows import IdentifierRows, LocalRows, NodeRows, RowTable
from smpgnn.contexts.topology import Topology, segments, take
from smpgnn.data.store import GraphStore
from smpgnn.ops.assembly import NodeParts, cut_messages, cut_rows, square_rows


def sorted_topology(store: GraphStore) -> tuple[Topology, Tensor]:
    """All graphs of a store side by side, edges sorted by receiver, and that order, [E]."""
    number = torch.arange(len(store), device=store.device)
    shift = store.node_ptr[number.repeat_interleave(store.num_edges)]
    edge_index = store.edge_index.long() + shift
    order = torch.argsort(edge_index[1], stable=True)  # graphs stand together, so they stay so
    batch = number.repeat_interleave(store.num_nodes)
    return Topology(edge_index[:, order], batch, batch.numel(), len(store)), order


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


@dataclass(frozen=True, eq=False)
class RowCut:
    """The rows of a batch, what is known of their layout, and which of them join."""

    table: RowTable
    layout: dict[str, Tensor]
    lists: RowLists


class DataRows(ABC):
    """The rows of a data set.

    `spread` is how far the rows lie apart that nodes which are not there own (past the last row).

    Shapes: sizes [G], the rows of each graph; messages [G], from row to row, where they are listed;
    nodes [3, N], of each node its first row and its own, in the numbers of its graph, and how many
    its context has.
    """

    sizes: Tensor
    messages: Tensor
    nodes: Tensor
    spread = 1

    def room(self, nodes: int, rows: int) -> int:
        """The rows of a batch with room for so many nodes and rows."""
        return rows

    @abstractmethod
    def cut(self, places: Tensor, nodes: NodeParts, rows: int, messages: int) -> RowCut:
        """The rows of a batch whose graphs lie in these places, [4, 4, B + 1]."""


def _no_lists(places: Tensor) -> RowLists:
    """Where row j of one context joins row j of the other."""
    return RowLists(*(places.new_empty(0, dtype=torch.int32),) * 5)


class DataNodes(DataRows):
    """One row a node."""

    def __init__(self, store: GraphStore) -> None:
        self.sizes = store.num_nodes
        self.messages = torch.zeros_like(self.sizes)
        local, _ = _numbers(store)
        self.nodes = torch.stack([local, local, torch.ones_like(local)])

    def room(self, nodes: int, rows: int) -> int:
        return nodes

    def cut(self, places: Tensor, nodes: NodeParts, rows: int, messages: int) -> RowCut:
        own = nodes.numbers[4]
        table = NodeRows(ptr=nodes.pointers[2], own=own, num_rows=rows)
        table.__dict__["owner"] = own
        known = {"small_owner": nodes.small_own, "counted": nodes.numbers[5]}
        return RowCut(table, known, _no_lists(places))


class DataOneHot(DataRows):
    """A row for every node of the graph in every context."""

    def __init__(self, store: GraphStore) -> None:
        self.sizes = store.num_nodes.square()
        self.messages = torch.zeros_like(self.sizes)
        local, size = _numbers(store)
        self.nodes = torch.stack([local * size, local * size + local, size])

    def cut(self, places: Tensor, nodes: NodeParts, rows: int, messages: int) -> RowCut:
        _, local, _, _, own, _ = nodes.numbers
        table = IdentifierRows(ptr=nodes.pointers[2], own=own, num_rows=rows, identifier=local)
        table.__dict__["owner"], small = square_rows(places, rows)
        return RowCut(table, {"small_owner": small}, _no_lists(places))


class DataLocal(DataRows):
    """A row for every node within `context_radius` hops and a far row.

    All tables hold numbers within their graph and one entry more at the end, for what is not there.
    """

    spread = 0

    def __init__(self, store: GraphStore, context_radius: int) -> None:
        topology, _ = sorted_topology(store)
        index = ContextIndex.build(topology, "local", 1, context_radius)
        table, lift = index.table, index.lift
        assert isinstance(table, LocalRows)
        self.context_radius = context_radius
        row_ptr = take(table.ptr, store.node_ptr)
        message_ptr = take(lift.ptr, row_ptr)
        self.sizes, self.messages = row_ptr.diff(), message_ptr.diff()
        # Of each row: its owner, the node that it describes (−1: a far row), where its messages
        # begin by receiver and by sender; of each message by receiver the row that sends, by sender
        # that which receives, and the edge.
        batch, graph = topology.batch, index.row_graph
        row_start, node_start = take(row_ptr, batch), take(store.node_ptr, graph)
        seen = table.described - node_start
        back_ptr, order = lift.by_source
        starts = torch.stack([lift.ptr, back_ptr])[:, :-1] - take(message_ptr, graph)
        of_message = take(graph, lift.target), take(graph, take(lift.source, order))
        self.nodes = torch.stack(
            [table.ptr[:-1] - row_start, table.own - row_start, table.ptr.diff()]
        )
        self._rows = small_table(
            table.owner - node_start,
            torch.where(table.described < topology.num_nodes, seen, -1),
            *starts,
        )
        self._rows[1, -1] = -1
        self._messages = small_table(
            lift.source - take(row_ptr, of_message[0]),
            take(lift.target, order) - take(row_ptr, of_message[1]),
            take(lift.edge, order) - take(store.edge_ptr, of_message[1]),
        )

    def cut(self, places: Tensor, nodes: NodeParts, rows: int, messages: int) -> RowCut:
        count = nodes.small_own.numel()
        (owner, described), small, (ptr, back_ptr) = cut_rows(places, self._rows, rows, count)
        table = LocalRows(
            ptr=nodes.pointers[2],
            own=nodes.numbers[4],
            num_rows=rows,
            context_radius=self.context_radius,
            described=described,
            num_nodes=count,
        )
        table.__dict__["owner"] = owner
        sent, received, edge = cut_messages(places, self._messages, messages)
        return RowCut(table, {"small_owner": small}, RowLists(ptr, sent, back_ptr, received, edge))


def small_table(*columns: Tensor) -> Tensor:
    """Numbers as rows of a table, int32, with a last entry of zeros."""
    table = torch.stack(columns)
    return torch.cat([table, table.new_zeros(len(columns), 1)], dim=1).int()


def _numbers(store: GraphStore) -> tuple[Tensor, Tensor]:
    """The place of each node in its graph, and the nodes of that graph, [N] each."""
    _, local = segments(store.num_nodes, int(store.node_ptr[-1]))
    return local, store.num_nodes.repeat_interleave(store.num_nodes)
