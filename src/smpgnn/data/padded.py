"""Batches of fixed size: any graphs of a store, with room to spare.

All tensors have the same shape whichever graphs are taken, and none is made by asking the GPU a
question, so that a training step can be recorded once and replayed. What is left of the room forms
one more graph without edges, whose nodes have no rows; the rows that nobody owns reach nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor

from smpgnn.data.padded_rows import DataOneHot, DataRows, Places, sorted_topology
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.index import ContextIndex
from smpgnn.layout import RowLayout
from smpgnn.ops import Neighbors, Routes
from smpgnn.structure import Cut, GraphStructure
from smpgnn.topology import Topology, take


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
    """An index whose tensors are made beforehand, but for routes: few layers of nodes ask for them.

    `present` [B + 1] is 1 for real graphs; `most` is the number of nodes of the largest.
    """

    made_layout: RowLayout
    make_routes: Callable[[], Routes]
    present: Tensor
    most: int

    @cached_property
    def layout(self) -> RowLayout:
        return self.made_layout

    @cached_property
    def routes(self) -> Routes:
        return self.make_routes()

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
        by_sender = whole_set.edges_by_sender[1]
        by_sender = by_sender - take(store.edge_ptr, take(whole_set.batch, whole_set.sender))
        degrees = [
            torch.bincount(end, minlength=whole_set.num_nodes)
            for end in (whole_set.receiver, whole_set.sender)
        ]
        # Tables of graphs, nodes and edges, each with one entry more, for what is not there.
        # Of graphs: whether there is one, its counts, and where what is counted begins.
        first = torch.cat([counts.new_zeros(4, 1), counts.cumsum(1)], dim=1)
        there = _with_last(torch.ones_like(counts), 0, dim=1)[:1]
        self._graph_table = torch.cat([there, _with_last(counts, 0, dim=1), first])
        self._node_table = _with_last(torch.stack(degrees), 0, dim=1)
        local = store.edge_index.long()[:, order]
        self._edge_table = _with_last(torch.cat([local, by_sender.unsqueeze(0)]), 0, dim=1)
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
        whole = partial(torch.tensor, device=store.device)
        self._none = whole([len(store)])
        self._zeros, self._node_room = whole([[0], [0]]), whole([capacity.nodes])
        self._spare = whole([[capacity.nodes - 1], [capacity.edges - 1], [capacity.rows - 1]])
        rooms = capacity.nodes + 1, capacity.edges, capacity.rows + 1, capacity.messages
        self._node_places, self._edge_places, self._row_places, self._message_places = (
            torch.arange(count, device=store.device) for count in rooms
        )
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
        room = self.capacity
        slots = torch.cat([graphs.remainder(self._graph_table.size(1)), self._none])  # [B + 1]
        present, counts, first = self._graph_table.index_select(1, slots).split_with_sizes(
            [1, 4, 4]
        )
        ends = counts.cumsum(1)
        starts = ends - counts
        graph_ptr = torch.cat([self._zeros[0], ends[0, :-1], self._node_room])
        # Nodes; those past the last graph are in the last slot, and in no table but its last entry.
        place = self._node_places[:-1]
        batch = torch.searchsorted(ends[0, :-1], place, right=True)
        local = place - take(starts[0], batch)
        node = (take(first[0], batch) + local).clamp(max=self._node_table.size(1) - 1)
        degrees = self._node_table.index_select(1, node)  # of those who send, and who receive
        pointers = torch.cat([self._zeros, degrees.cumsum(1)], dim=1)
        # Edges, by receiver; those past the last graph join the last node with itself.
        spare = torch.cat([starts[:3, :-1], self._spare], dim=1)
        numbers = self._node_places, self._row_places, self._message_places
        places = Places(starts, ends, first, spare, batch, local, node, *numbers)
        number = self._edge_places
        owner, edge = places.entries(1, number, self._edge_table.size(1) - 1)
        within = self._edge_table.index_select(1, edge)
        shift = spare.index_select(1, owner)
        edge_index, out_edge = within[:2] + shift[0], within[2] + shift[1]
        inverse = take(self._inverse, slots)
        topology = Topology(edge_index, batch, room.nodes, room.graphs + 1)
        topology.__dict__.update(
            graph_size=graph_ptr.diff(),
            graph_ptr=graph_ptr,
            degree=degrees[0],
            inverse_average_degree=inverse,
            edges_by_receiver=(pointers[0], number),
            edges_by_sender=(pointers[1], out_edge),
        )
        cut = Cut(topology, slots, node, edge)
        topology.found.update({s: found.cut(cut) for s, found in self._prepared.items()})
        rows = self.rows.table(places)
        layout = RowLayout(rows.ptr, rows.owner, rows.own, None, padded=True)
        routes = partial(self._routes, topology, layout, places)
        index = PaddedIndex(topology, rows, layout, routes, present[0], self.most)
        flat = GraphBatch(
            x=_take(self.x, node),
            edge_index=edge_index,
            edge_attr=_take(self.edge_attr, edge),
            batch=batch,
            num_graphs=room.graphs + 1,
            y=_take(self.y, slots[:-1]),
            y_node=_take(self.y_node, node),
        )
        return flat, index

    def _routes(self, topology: Topology, layout: RowLayout, places: Places) -> Routes:
        """The routes of a batch."""
        (arrive, _), (leave, out_edge) = topology.edges_by_receiver, topology.edges_by_sender
        receiver, first, rows = topology.receiver, layout.small[0], self.rows.lists(places)
        senders = Neighbors(
            arrive.int(),
            take(first, topology.sender),
            self._edge_numbers,
            rows.ptr,
            rows.row,
            receiver.int(),
        )
        to = take(receiver, out_edge)
        back = rows.back_ptr, rows.back_row, rows.back_edge
        receivers = Neighbors(leave.int(), take(first, to), out_edge.int(), *back)
        scale = take(topology.inverse_average_degree, topology.batch)
        arrived = topology.degree * scale
        return Routes(*layout.small, scale, arrived, lambda: (senders, receivers), padded=True)


def _with_last(values: Tensor, last: float, dim: int = 0) -> Tensor:
    """Values with one entry more at the end."""
    shape = list(values.shape)
    shape[dim] = 1
    return torch.cat([values, values.new_full(shape, last)], dim=dim)


def _take(values: Tensor | None, index: Tensor) -> Tensor | None:
    return None if values is None else values.index_select(0, index)
