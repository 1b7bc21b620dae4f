"""Batches of fixed size: any graphs of a store, with room to spare.

All tensors have the same shape whichever graphs are taken, and none is made by asking the GPU a
question, so that a training step can be recorded once and replayed. What is left of the room forms
one more graph without edges, whose nodes have no rows; the rows that nobody owns reach nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smpgnn.capture.padded_rows import DataOneHot, DataRows, RowLists, small_table, sorted_topology
from smpgnn.contexts.caching import cached_property
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.layout import RowLayout
from smpgnn.contexts.structure import Cut, GraphStructure
from smpgnn.contexts.topology import Topology, pointer, take
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.ops import Neighbors, Routes
from smpgnn.ops.assembly import EdgeParts, NodeParts, cut_edges, cut_nodes, place_graphs


@dataclass(frozen=True)
class Capacity:
    """The room of a batch: at most so many graphs, and fewer nodes, edges, … than these.

    `messages` are those from row to row that are listed (`DataRows.messages`).
    """

    graphs: int
    nodes: int
    edges: int
    rows: int
    messages: int = 1

    @classmethod
    def of(
        cls, store: GraphStore, graphs: int, rows: DataRows | None = None, spread: float = 4.0
    ) -> Capacity:
        """Room for all but one in thousands of random batches of so many graphs of a store.

        `rows` are those of its contexts, one-hot where not given; `spread` is how many standard
        deviations above the mean there is room for.
        """
        rows = DataOneHot(store) if rows is None else rows
        sizes = store.num_nodes, store.num_edges, rows.sizes, rows.messages
        return cls(graphs, *(usual_room(size, graphs, spread) for size in sizes))

    def holds(self, nodes: int, edges: int, rows: int, messages: int) -> bool:
        return (
            nodes < self.nodes
            and edges < self.edges
            and rows < self.rows
            and messages < self.messages
        )


def usual_room(sizes: Tensor, graphs: int, spread: float = 4.0) -> int:
    """More than most batches of so many graphs need, of whose parts there are `sizes` [G]."""
    sizes = sizes.double()
    deviation = sizes.std(correction=0).item() if sizes.numel() > 1 else 0.0
    usual = graphs * sizes.mean().item() + spread * math.sqrt(graphs) * deviation
    most = sizes.topk(min(graphs, sizes.numel())).values.sum().item()
    return 16 * (math.ceil(min(usual, most)) // 16 + 1)


@dataclass(frozen=True, eq=False)
class PaddedIndex(ContextIndex):
    """An index whose tensors are made beforehand.

    `present` [B + 1] is 1 for real graphs; `most` is the number of nodes of the largest.
    """

    made_layout: RowLayout
    made_routes: Routes
    present: Tensor
    most: int

    @cached_property
    def layout(self) -> RowLayout:
        return self.made_layout

    @cached_property
    def routes(self) -> Routes:
        return self.made_routes

    @property
    def graph_multiplicity(self) -> Tensor | None:
        return self.present

    @property
    def largest(self) -> int:
        return self.most


class PaddedStore:
    """Makes batches of fixed size from a store, on its device.

    Args:
        store: the graphs.
        capacity: the room of a batch.
        rows: those of its contexts; one-hot where not given.
        structures: what layers ask of the topology of a batch; found here, once for all graphs.
    """

    def __init__(
        self,
        store: GraphStore,
        capacity: Capacity,
        rows: DataRows | None = None,
        structures: Iterable[GraphStructure[Any]] = (),
    ) -> None:
        self.capacity, self.rows = capacity, DataOneHot(store) if rows is None else rows
        size, edges = store.num_nodes, store.num_edges
        counts = torch.stack([size, edges, self.rows.sizes, self.rows.messages])
        self._counts = counts.cpu()  # to see what fits without a question to the GPU
        self.most, self.device = int(self._counts[0].max()), store.device
        self.num_nodes = size
        whole_set, order = sorted_topology(store)
        node_start, edge_start = (
            take(ptr, whole_set.batch) for ptr in (store.node_ptr, store.edge_ptr)
        )
        leave, by_sender = whole_set.edges_by_sender
        first, _, _ = self.rows.nodes
        # Tables of graphs, nodes and edges, each with one entry more, for what is not there. Of
        # graphs: whether there is one, its counts, and where what is counted begins; of nodes and
        # edges: see `cut_nodes` and `cut_edges`.
        begin = torch.cat([counts.new_zeros(4, 1), counts.cumsum(1)], dim=1)
        there = _with_last(torch.ones_like(counts), 0, dim=1)[:1]
        self._graph_table = torch.cat([there, _with_last(counts, 0, dim=1), begin])
        self._node_table = small_table(
            whole_set.degree,
            pointer(whole_set.degree)[:-1] - edge_start,
            leave[:-1] - edge_start,
            *self.rows.nodes,
        )
        sender, receiver = whole_set.edge_index
        self._edge_table = small_table(
            sender - take(node_start, sender),
            receiver - take(node_start, receiver),
            by_sender - take(edge_start, sender),  # of the same graph as the edge in this place
            take(first, sender),
            take(first, take(receiver, by_sender)),
        )
        inverse = torch.where(edges > 0, size.double() / edges.clamp(min=1), 0.0)
        self._inverse = _with_last(inverse, 0.0)
        self._prepared = {s: s.prepare(whole_set, capacity.graphs) for s in structures}
        self.x = None if store.x is None else _with_last(store.x.float(), 0.0)
        self.edge_attr = (
            None if store.edge_attr is None else _with_last(store.edge_attr[order].float(), 0.0)
        )
        self.y = None if store.y is None else _with_last(store.y.float(), torch.nan)
        self.y_node = None if store.y_node is None else _with_last(store.y_node.float(), torch.nan)
        # What is the same in all batches.
        rooms = [capacity.nodes, capacity.edges, capacity.rows, capacity.messages]
        self._last = torch.tensor(rooms, device=store.device) - 1
        self._edge_places = torch.arange(capacity.edges, device=store.device)
        self._edge_numbers = self._edge_places.int()

    def size(self, graphs: Tensor) -> tuple[int, int, int, int]:
        """Nodes, edges, rows and messages of these graphs, on the CPU; a number −1 is for none."""
        nodes, edges, rows, messages = self._counts[:, graphs[graphs >= 0]].sum(1).tolist()
        return nodes, edges, rows, messages

    def fits(self, graphs: Tensor) -> bool:
        """Whether there is room for these graphs; `graphs` on the CPU."""
        return (
            graphs.numel() <= self.capacity.graphs
            and self.capacity.holds(*self.size(graphs))
            and all(prepared.fits(graphs) for prepared in self._prepared.values())
        )

    def batch(self, graphs: Tensor) -> tuple[GraphBatch, PaddedIndex]:
        """The batch of these graphs, in [capacity.graphs] numbers, −1 for none, on the device.

        Targets of what is not there are NaN. The batch has one graph more, the unused room; results
        for the graphs asked for come first.
        """
        room, rows = self.capacity, self.rows.room(self.capacity.nodes, self.capacity.rows)
        found = place_graphs(graphs, self._graph_table, self._inverse, self.y, self._last)
        nodes = cut_nodes(
            found.places, found.inverse, self._node_table, self.x, self.y_node,
            room.nodes, rows, self.rows.spread,
        )  # fmt: skip
        edges = cut_edges(found.places, self._edge_table, self.edge_attr, room.edges)
        batch, _, node, degree, own, count = nodes.numbers
        arrive, leave, row_ptr = nodes.pointers
        topology = Topology(edges.numbers[1:3], batch, room.nodes, room.graphs + 1)
        topology.__dict__.update(
            graph_size=found.size,
            graph_ptr=found.ptr,
            degree=degree,
            inverse_average_degree=found.inverse,
            edges_by_receiver=(arrive, self._edge_places),
            edges_by_sender=(leave, edges.numbers[3]),
        )
        cut = Cut(topology, found.slots, node, edges.numbers[0])
        topology.found.update({s: prepared.cut(cut) for s, prepared in self._prepared.items()})
        made = self.rows.cut(found.places, nodes, rows, room.messages)
        layout = RowLayout(row_ptr, made.table.owner, own, None, padded=True)
        small = nodes.small_pointers[2], nodes.small_own
        layout.__dict__.update(made.layout, count=count, small=small)
        routes = self._routes(nodes, edges, made.lists)
        index = PaddedIndex(topology, made.table, layout, routes, found.present, self.most)
        flat = GraphBatch(
            x=None if self.x is None else nodes.x,
            edge_index=topology.edge_index,
            edge_attr=None if self.edge_attr is None else edges.edge_attr,
            batch=batch,
            num_graphs=room.graphs + 1,
            y=None if self.y is None else found.y,
            y_node=None if self.y_node is None else nodes.y_node,
        )
        return flat, index

    def _routes(self, nodes: NodeParts, edges: EdgeParts, rows: RowLists) -> Routes:
        """The routes of a batch."""
        arrive, leave, row_ptr = nodes.small_pointers
        receiver, out_edge, first, back_first = edges.small
        numbers, (scale, arrived) = self._edge_numbers, nodes.weights
        senders = Neighbors(arrive, first, numbers, rows.ptr, rows.row, receiver)
        back = rows.back_ptr, rows.back_row, rows.back_edge
        receivers = Neighbors(leave, back_first, out_edge, *back)
        own = nodes.small_own
        return Routes(row_ptr, own, scale, arrived, lambda: (senders, receivers), padded=True)


def _with_last(values: Tensor, last: float, dim: int = 0) -> Tensor:
    """Values with one entry more at the end."""
    shape = list(values.shape)
    shape[dim] = 1
    return torch.cat([values, values.new_full(shape, last)], dim=dim)
