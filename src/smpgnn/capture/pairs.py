"""Rows of two marked nodes in batches of fixed size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from smpgnn.capture.axes import Axis, Column, Entries, IndexTables
from smpgnn.capture.rows import ListedAxes, described_nodes, listed_layout
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.pairs import PairRows
from smpgnn.contexts.rows import LocalRows
from smpgnn.contexts.topology import take
from smpgnn.data.store import GraphStore


class PairAxes(ListedAxes):
    """A row for every pair of nodes close to each other that a context sees, and a far row.

    The rows for single nodes, from which the initial rows of pairs come, are the axis 'node_row'.

    Args:
        store: the data set.
        index: of all its graphs, with edges sorted by receiver.
    """

    def __init__(self, store: GraphStore, index: ContextIndex) -> None:
        topology, table = index.topology, index.table
        assert isinstance(table, PairRows)
        assert table.context_radius is not None
        self.context_radius, self.pair_distance = table.context_radius, table.pair_distance
        nodes, single = table.nodes, index.of_single_nodes
        node_ptr = take(nodes.ptr, store.node_ptr)
        graph = take(topology.batch, table.pairs[0])
        pair_counts = torch.bincount(graph, minlength=len(store))
        pair_start = pair_counts.cumsum(0) - pair_counts
        near = table.described < table.pairs.size(1)
        described = torch.where(near, table.described - take(pair_start, index.row_graph), -1)
        row_start = take(node_ptr, index.row_graph)
        super().__init__(
            store,
            index,
            {
                "described": Column(described, "pair"),
                "first": Column(table.first - row_start, "node_row"),
                "second": Column(table.second - row_start, "node_row"),
            },
        )
        start = take(node_ptr, topology.batch)
        self.node_columns = {
            **self.node_columns,
            "single_first_row": Column(nodes.ptr[:-1] - start, "node_row", pointer=True),
            "single_own": Column(nodes.own - start, "node_row"),
            "single_count": Column(nodes.ptr.diff()),
        }
        node_start = take(store.node_ptr, single.row_graph)
        ends = table.pairs - take(store.node_ptr, graph)
        self.axes = {
            **self.axes,
            "node_row": Axis(
                node_ptr.diff(),
                {
                    "owner": Column(nodes.owner - node_start, "node"),
                    "described": Column(described_nodes(nodes, node_start), "node"),
                },
            ),
            "pair": Axis(
                pair_counts, {"first": Column(ends[0], "node"), "second": Column(ends[1], "node")}
            ),
        }

    def table(
        self, tables: IndexTables, spans: Tensor, nodes: Entries, rows: Entries,
        sizes: Mapping[str, int], layout: Mapping[str, Any],
    ) -> PairRows:  # fmt: skip
        single, pairs = tables.cut(spans, "node_row"), tables.cut(spans, "pair").columns
        near = LocalRows(
            context_radius=self.context_radius,
            described=single.columns["described"],
            num_nodes=sizes["node"],
            **listed_layout(nodes, single, sizes, "node_row", "single_"),
        )
        return PairRows(
            context_radius=self.context_radius,
            pairs=torch.stack([pairs["first"], pairs["second"]]),
            described=rows.columns["described"],
            nodes=near,
            first=rows.columns["first"],
            second=rows.columns["second"],
            pair_distance=self.pair_distance,
            **layout,
        )
