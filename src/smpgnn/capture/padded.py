"""Batches of fixed size: any graphs of a data set, padded.

All tensors have the same shape whichever graphs are taken, and making them never synchronises a GPU
with the CPU, so a training step can be captured once and replayed. The padding forms one more graph
without edges, whose nodes have no rows; rows that no context owns reach nobody.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smpgnn.capture.axes import Axis, Column, IndexTables
from smpgnn.capture.rows import OneHotAxes, RowAxes, sorted_topology
from smpgnn.contexts.graphs import Graphs
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.structure import Cut, GraphStructure
from smpgnn.contexts.topology import Topology, pointer, take
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.ops import Neighbors, Routes
from smpgnn.ops.ragged import BEGIN


@dataclass(frozen=True)
class Capacity:
    """What a batch can hold: at most `graphs` graphs, and fewer entries of each axis than `sizes`.

    The axes are 'node', 'edge' and those of the rows (`RowAxes`).
    """

    graphs: int
    sizes: Mapping[str, int]

    @classmethod
    def of(
        cls, store: GraphStore, graphs: int, rows: RowAxes | None = None, deviations: float = 4.0
    ) -> Capacity:
        """Enough for nearly all random batches of `graphs` graphs of a store.

        `rows` are those of its contexts, one-hot by default; `deviations` is how many standard
        deviations above the mean the capacity lies.
        """
        axes = (OneHotAxes(store) if rows is None else rows).axes
        counts = {"node": store.num_nodes, "edge": store.num_edges}
        counts |= {name: axis.counts for name, axis in axes.items()}
        sizes = {name: usual_size(count, graphs, deviations) for name, count in counts.items()}
        return cls(graphs, sizes)


def usual_size(counts: Tensor, graphs: int, deviations: float = 4.0) -> int:
    """More entries than nearly all batches of `graphs` graphs have, of `counts` [G] each."""
    counts = counts.double()
    deviation = counts.std(correction=0).item() if counts.numel() > 1 else 0.0
    usual = graphs * counts.mean().item() + deviations * math.sqrt(graphs) * deviation
    most = counts.topk(min(graphs, counts.numel())).values.sum().item()
    return 16 * (math.ceil(min(usual, most)) // 16 + 1)


class PaddedStore:
    """Makes batches of fixed size from a store, on its device.

    Args:
        store: the graphs.
        capacity: what a batch can hold.
        rows: those of the contexts; one-hot by default.
        structures: what layers ask of the topology of a batch; found here, once for all graphs.
    """

    def __init__(
        self,
        store: GraphStore,
        capacity: Capacity,
        rows: RowAxes | None = None,
        structures: Iterable[GraphStructure[Any]] = (),
    ) -> None:
        self.capacity, self.rows = capacity, OneHotAxes(store) if rows is None else rows
        self.device, self.num_nodes = store.device, store.num_nodes
        self.largest = int(store.num_nodes.max())
        whole, order = sorted_topology(store)
        node_start, edge_start = (
            take(ptr, whole.batch) for ptr in (store.node_ptr, store.edge_ptr)
        )
        leave, by_sender = whole.edges_by_sender
        sender, receiver = whole.edge_index
        first_row, row_axis = self.rows.first_row, self.rows.row_axis
        nodes = {
            "degree": Column(whole.degree),
            "arrive_ptr": Column(pointer(whole.degree)[:-1] - edge_start, "edge", pointer=True),
            "leave_ptr": Column(leave[:-1] - edge_start, "edge", pointer=True),
            **self.rows.node_columns,
        }
        edges = {
            "sender": Column(sender - take(node_start, sender), "node"),
            "receiver": Column(receiver - take(node_start, receiver), "node"),
            "by_sender": Column(by_sender - take(edge_start, sender), "edge"),
            "sender_row": Column(take(first_row, sender), row_axis, pointer=True),
            "receiver_row": Column(
                take(first_row, take(receiver, by_sender)), row_axis, pointer=True
            ),
        }
        axes = {"node": Axis(store.num_nodes, nodes), "edge": Axis(store.num_edges, edges)}
        self.tables = IndexTables({**axes, **self.rows.axes}, capacity.sizes)
        edge_count = store.num_edges
        inverse = torch.where(
            edge_count > 0, store.num_nodes.double() / edge_count.clamp(min=1), 0.0
        )
        self._inverse, self._present = (
            _padded(inverse, 0.0),
            _padded(torch.ones_like(edge_count), 0),
        )
        self._structures = {s: s.prepare(whole, capacity.graphs) for s in structures}
        self.x = None if store.x is None else _padded(store.x.float(), 0.0)
        attr = store.edge_attr
        self.edge_attr = None if attr is None else _padded(attr[order].float(), 0.0)
        self.y = None if store.y is None else _padded(store.y.float(), torch.nan)
        self.y_node = None if store.y_node is None else _padded(store.y_node.float(), torch.nan)
        self.weight = None if store.weight is None else _padded(store.weight.float(), 0.0)
        self.side = None if store.side is None else _padded(store.side, 0)
        self.u = None if store.u is None else _padded(store.u.float(), 0.0)
        # The same in all batches: the edges are sorted by receiver.
        self._edge_order = torch.arange(capacity.sizes["edge"], device=store.device)
        self._small_edge_order = self._edge_order.int()
        self._num_nodes = torch.tensor([capacity.sizes["node"]], device=store.device)

    def fits(self, graphs: Tensor) -> bool:
        """Whether a batch can hold these graphs; `graphs` on the CPU."""
        return (
            graphs.numel() <= self.capacity.graphs
            and self.tables.fits(graphs)
            and all(found.fits(graphs) for found in self._structures.values())
        )

    def batch(self, graphs: Tensor) -> tuple[GraphBatch, ContextIndex]:
        """The batch of these graphs: [capacity.graphs] indices, −1 for none, on the device.

        Targets of padding are NaN. The batch has one graph more, the padding; results for the
        graphs asked for come first.
        """
        sizes, num_graphs = self.capacity.sizes, self.capacity.graphs + 1
        slots, spans = self.tables.place(graphs)
        nodes, edges = (self.tables.cut(spans, axis) for axis in ("node", "edge"))
        rows = self.rows.cut(self.tables, spans, nodes, sizes)
        graph_ptr = torch.cat([spans[BEGIN, 0], self._num_nodes])
        inverse, degree = take(self._inverse, slots), nodes.columns["degree"]
        present = take(self._present, slots)
        topology = Topology(
            torch.stack([edges.columns["sender"], edges.columns["receiver"]]),
            nodes.graph,
            sizes["node"],
            num_graphs,
            given={
                "graph_size": graph_ptr.diff(),
                "graph_ptr": graph_ptr,
                "degree": degree,
                "inverse_average_degree": inverse,
                "edges_by_receiver": (nodes.columns["arrive_ptr"], self._edge_order),
                "edges_by_sender": (nodes.columns["leave_ptr"], edges.columns["by_sender"]),
            },
        )
        cut = Cut(topology, slots, nodes.place, edges.place)
        topology.found.update({s: found.cut(cut) for s, found in self._structures.items()})
        senders = Neighbors(
            nodes.small["arrive_ptr"],
            edges.small["sender_row"],
            self._small_edge_order,
            *rows.receive,
            edges.small["receiver"],
        )
        receivers = Neighbors(
            nodes.small["leave_ptr"],
            edges.small["receiver_row"],
            edges.small["by_sender"],
            *rows.send,
        )
        table, scale = rows.table, take(inverse, nodes.graph)
        routes = Routes(
            *table.small, scale, degree * scale, lambda: (senders, receivers), padded=True
        )
        graph_sets = Graphs(topology, present, given={"largest": self.largest})
        given = {"routes": routes, "graphs": graph_sets, **rows.given}
        index = ContextIndex(topology, table, given=given)
        flat = GraphBatch(
            x=_rows(self.x, nodes.place),
            edge_index=topology.edge_index,
            edge_attr=_rows(self.edge_attr, edges.place),
            batch=nodes.graph,
            num_graphs=num_graphs,
            y=_rows(self.y, slots[:-1]),
            y_node=_rows(self.y_node, nodes.place),
            weight=_rows(self.weight, slots[:-1]),
            side=_rows(self.side, slots[:-1]),
            u=_rows(self.u, slots),  # the network reads those of the padding graph, too
        )
        return flat, index


def _padded(values: Tensor, last: float) -> Tensor:
    """Values with one entry more, for padding."""
    return torch.cat([values, values.new_full((1, *values.shape[1:]), last)])


def _rows(values: Tensor | None, index: Tensor) -> Tensor | None:
    return None if values is None else values.index_select(0, index)
