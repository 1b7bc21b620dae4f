"""Batches of fixed size: any graphs of a store, with room to spare.

All tensors have the same shape whichever graphs are taken, and none is made by asking the GPU a
question, so that a training step can be recorded once and replayed. What is left of the room forms
one more graph without edges, whose nodes have no rows; the rows that nobody owns reach nobody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from smpgnn.context import ContextIndex, RowLayout
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.ops import Neighbors, Routes
from smpgnn.rows import IdentifierRows, NodeRows, RowTable
from smpgnn.topology import Topology


@dataclass(frozen=True)
class Capacity:
    """The room of a batch: at most so many graphs, and fewer nodes, edges and rows than these."""

    graphs: int
    nodes: int
    edges: int
    rows: int

    @classmethod
    def of(cls, store: GraphStore, graphs: int, spread: float = 4.0) -> Capacity:
        """Room for all but one in thousands of random batches of so many graphs of a store.

        `spread` is how many standard deviations above the mean there is room for.
        """
        nodes, edges = store.num_nodes.double(), store.num_edges.double()

        def room(sizes: Tensor) -> int:
            deviation = sizes.std(correction=0).item() if sizes.numel() > 1 else 0.0
            usual = graphs * sizes.mean().item() + spread * math.sqrt(graphs) * deviation
            most = sizes.topk(min(graphs, sizes.numel())).values.sum().item()
            return 16 * (math.ceil(min(usual, most)) // 16 + 1)

        return cls(graphs, room(nodes), room(edges), room(nodes.square()))

    def holds(self, nodes: int, edges: int, rows: int) -> bool:
        return nodes < self.nodes and edges < self.edges and rows < self.rows


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
        contexts: True for one-hot contexts, False for one row a node.
    """

    def __init__(self, store: GraphStore, capacity: Capacity, contexts: bool = True) -> None:
        self.capacity, self.contexts = capacity, contexts
        # On the CPU, to see what fits without a question to the GPU.
        self._nodes, self._edges = store.num_nodes.cpu(), store.num_edges.cpu()
        graph = torch.arange(len(store), device=store.device).repeat_interleave(store.num_edges)
        shift = store.node_ptr[graph]
        sender, receiver = store.edge_index.long() + shift
        order = torch.argsort(receiver, stable=True)  # graphs stand together, so they stay so
        self.sender, self.receiver = store.edge_index.long()[:, order]
        self.edge_attr = None if store.edge_attr is None else store.edge_attr[order].float()
        by_sender = torch.argsort(sender[order], stable=True)
        self.by_sender = by_sender - store.edge_ptr[graph]
        nodes = int(store.node_ptr[-1])
        self.degree = torch.bincount(receiver, minlength=nodes)
        self.out_degree = torch.bincount(sender, minlength=nodes)
        self.x = None if store.x is None else store.x.float()
        self.y = None if store.y is None else store.y.float()
        self.y_node = None if store.y_node is None else store.y_node.float()
        self.node_ptr, self.edge_ptr = store.node_ptr, store.edge_ptr
        self.num_nodes, self.num_edges = store.num_nodes, store.num_edges
        self.most = int(self._nodes.max())

    @property
    def device(self) -> torch.device:
        return self.node_ptr.device

    def size(self, graphs: Tensor) -> tuple[int, int, int]:
        """Nodes, edges and rows of these graphs; `graphs` on the CPU, −1 for none."""
        graphs = graphs[graphs >= 0]
        nodes, edges = self._nodes[graphs], self._edges[graphs]
        rows = nodes.square() if self.contexts else nodes
        return int(nodes.sum()), int(edges.sum()), int(rows.sum())

    def fits(self, graphs: Tensor) -> bool:
        """Whether there is room for these graphs; `graphs` on the CPU."""
        return graphs.numel() <= self.capacity.graphs and self.capacity.holds(*self.size(graphs))

    def batch(self, graphs: Tensor) -> tuple[GraphBatch, PaddedIndex]:
        """The batch of these graphs, in [capacity.graphs] numbers, −1 for none, on the device.

        Targets of what is not there are NaN. The batch has one graph more, the unused room; results
        for the graphs asked for come first.
        """
        room, device = self.capacity, self.device
        there = graphs >= 0
        graph = graphs.clamp(min=0)
        size = torch.where(there, self.num_nodes[graph], 0)
        edges = torch.where(there, self.num_edges[graph], 0)
        ends, edge_ends = size.cumsum(0), edges.cumsum(0)
        graph_ptr = _pad(ends, 1, room.nodes)
        # nodes
        place = torch.arange(room.nodes, device=device)
        batch = torch.searchsorted(graph_ptr[1:], place, right=True)
        real = batch < room.graphs
        known = batch.clamp(max=room.graphs - 1)
        local = place - graph_ptr[batch]
        node = torch.where(real, self.node_ptr[graph[known]] + local, 0)
        degree = torch.where(real, self.degree[node], 0)
        out_degree = torch.where(real, self.out_degree[node], 0)
        # edges, by receiver
        number = torch.arange(room.edges, device=device)
        owner = torch.searchsorted(edge_ends, number, right=True)
        used = owner < room.graphs
        owner = owner.clamp(max=room.graphs - 1)
        edge_start = (edge_ends - edges)[owner]
        edge = torch.where(used, self.edge_ptr[graph[owner]] + number - edge_start, 0)
        start, last = graph_ptr[owner], room.nodes - 1
        sender = torch.where(used, self.sender[edge] + start, last)
        receiver = torch.where(used, self.receiver[edge] + start, last)
        out_edge = torch.where(used, self.by_sender[edge] + edge_start, room.edges - 1)
        topology = Topology(torch.stack([sender, receiver]), batch, room.nodes, room.graphs + 1)
        per_graph = torch.where(edges > 0, size.double() / edges.clamp(min=1), 0.0)
        inverse = torch.cat([per_graph, per_graph.new_zeros(1)])
        topology.__dict__.update(
            graph_size=graph_ptr.diff(),
            graph_ptr=graph_ptr,
            degree=degree,
            inverse_average_degree=inverse,
            edges_by_receiver=(_pad(degree.cumsum(0), 1), number),
            edges_by_sender=(_pad(out_degree.cumsum(0), 1), out_edge),
        )
        table = self._table(size, local, known, real, topology)
        layout = RowLayout(table.ptr, table.owner, table.own, None, padded=True)
        scale = inverse[batch]
        none = table.ptr.new_zeros(0, dtype=torch.int32)
        starts = table.ptr[:-1].int()
        senders = Neighbors(
            _pad(degree.cumsum(0), 1).int(),
            starts[sender],
            number.int(),
            none,
            none,
            receiver.int(),
        )
        receivers = Neighbors(
            _pad(out_degree.cumsum(0), 1).int(), starts[receiver[out_edge]], out_edge.int(),
            none, none, none,
        )  # fmt: skip
        routes = Routes(
            *layout.small, scale, degree * scale, lambda: (senders, receivers), padded=True
        )
        present = _pad(there.long(), 0, 0)
        index = PaddedIndex(topology, table, layout, routes, present, self.most)
        flat = GraphBatch(
            x=_take(self.x, node, real, 0.0),
            edge_index=topology.edge_index,
            edge_attr=_take(self.edge_attr, edge, used, 0.0),
            batch=batch,
            num_graphs=room.graphs + 1,
            y=_take(self.y, graph, there, torch.nan),
            y_node=_take(self.y_node, node, real, torch.nan),
        )
        return flat, index

    def _table(
        self, size: Tensor, local: Tensor, known: Tensor, real: Tensor, topology: Topology
    ) -> RowTable:
        room = self.capacity
        if not self.contexts:
            ends = size.sum()
            nodes = torch.arange(room.nodes + 1, device=self.device)
            rows = NodeRows(ptr=torch.minimum(nodes, ends), own=nodes[:-1], num_rows=room.nodes)
            rows.__dict__["owner"] = nodes[:-1]
            return rows
        squares = size.square()
        row_ends = squares.cumsum(0)
        first = (row_ends - squares)[known] + local * size[known]
        total = row_ends[-1:]
        ptr = torch.cat([torch.where(real, first, total), total])
        own = torch.where(real, first + local, room.rows - 1)
        table = IdentifierRows(ptr=ptr, own=own, num_rows=room.rows, identifier=local)
        places = torch.arange(room.rows, device=self.device)
        owner = torch.searchsorted(ptr[1:], places, right=True)
        table.__dict__["owner"] = owner.clamp(max=room.nodes - 1)
        return table


def _pad(values: Tensor, before: int, after: int | None = None) -> Tensor:
    """Values with so many zeros in front and, if given, one number behind."""
    tail = [] if after is None else [values.new_full((1,), after)]
    return torch.cat([values.new_zeros(before), values, *tail])


def _take(value: Tensor | None, index: Tensor, there: Tensor, other: float) -> Tensor | None:
    if value is None:
        return None
    return torch.where(there.unsqueeze(1), value.index_select(0, index), other)
