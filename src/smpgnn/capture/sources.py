"""Where a captured step gets its batches: copied from a loader, or cut out of a data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from smpgnn.capture.padded import PaddedStore
from smpgnn.capture.padded_batch import PaddedBatch, Parts, marked
from smpgnn.capture.static_batch import Scheme, StaticBatch, scheme_of
from smpgnn.capture.static_index import Size


class Source(ABC):
    """Padded batches in memory that stays in place."""

    #: The batch, once `build` has run.
    visible: PaddedBatch

    @abstractmethod
    def fits(self, batch: Any) -> bool:
        """Whether a batch can be taken, as far as the CPU knows."""

    @abstractmethod
    def fill(self, batch: Any) -> None:
        """Copy a batch that fits."""

    @abstractmethod
    def build(self) -> None:
        """Compute the index and `visible`; can be captured."""

    def valid(self) -> bool:
        """Whether the batch is valid and fits, after `build`."""
        return True

    def run(self, network: Any, x: Tensor | None, edge_attr: Tensor | None) -> Any:
        """The outputs of a network for the graphs of the batch, or for its nodes with padding."""
        mask = self.visible.node_mask.unsqueeze(1)
        out = self.outputs(network, None if x is None else x.masked_fill(~mask, 0), edge_attr)
        graphs = self.visible.num_graphs
        if isinstance(out, tuple):
            return out[0], out[1][:graphs]
        return out if getattr(network, "level", "graph") == "node" else out[:graphs]

    @abstractmethod
    def outputs(self, network: Any, x: Tensor | None, edge_attr: Tensor | None) -> Any:
        """The outputs of a network, also for padding."""


class LoaderBatches(Source):
    """Batches of a PyG loader with the same number of graphs, given as `Parts`.

    Args:
        parts: one of them; it shows the attributes.
        sizes: what can be held, for each type of rows.
        device: where the batches are.
    """

    def __init__(self, parts: Parts, sizes: Mapping[Scheme, Size], device: torch.device) -> None:
        self.left_out = parts.left_out
        self.graphs = {n: value.detach().clone().to(device) for n, value in parts.graphs.items()}
        nodes, edges = parts.nodes, parts.edges
        self.held: dict[Scheme, StaticBatch] = {}
        with torch.inference_mode(False):
            for scheme, size in sizes.items():
                size = replace(size, graphs=parts.num_graphs)
                self.held[scheme] = StaticBatch(size, scheme, nodes, edges, device)
                nodes, edges = {}, {}  # the first one holds them
        self.first = next(iter(self.held.values()))

    def fits(self, batch: Parts) -> bool:
        return self.first.holds(batch.num_nodes, batch.edge_index.size(1), batch.num_graphs)

    def fill(self, batch: Parts) -> None:
        nodes, edges = batch.nodes, batch.edges
        counts = batch.num_nodes, batch.num_graphs
        for held in self.held.values():
            held.fill(batch.edge_index, batch.batch, *counts, nodes, edges)
            nodes, edges = {}, {}
        with torch.no_grad():
            for name, value in batch.graphs.items():
                self.graphs[name].copy_(value, non_blocking=True)

    def build(self) -> None:
        for held in self.held.values():
            held.build()
        first, topology = self.first, self.first.static.index.topology
        size, counts = first.size, first.counts
        node, edge = (
            torch.arange(most, device=counts.device) < count
            for most, count in ((size.nodes, counts[0]), (size.edges, counts[1]))
        )
        self.visible = PaddedBatch(
            {
                **{name: marked(name, value, node) for name, value in first.nodes.items()},
                **{name: marked(name, first.sorted_edges(name), edge) for name in first.edges},
                **self.graphs,
                "edge_index": topology.edge_index,
                "batch": topology.batch,
                "num_graphs": size.graphs,
                "num_nodes": size.nodes,
                "node_mask": node,
            },
            self.left_out,
        )

    def valid(self) -> bool:
        return all(held.graphs_found() is not None for held in self.held.values())

    def outputs(self, network: Any, x: Tensor | None, edge_attr: Tensor | None) -> Any:
        return self.held[scheme_of(network)].run(network, x, edge_attr)


class StoreBatches(Source):
    """Batches of a data set on the device, given as the indices of their graphs on the CPU.

    Args:
        store: assembles them; each has as many graphs as it can hold.
    """

    def __init__(self, store: PaddedStore) -> None:
        self.store = store
        self.graphs = torch.zeros(store.capacity.graphs, dtype=torch.long, device=store.device)

    def fits(self, batch: Tensor) -> bool:
        return batch.numel() == self.graphs.numel() and self.store.fits(batch)

    def fill(self, batch: Tensor) -> None:
        self.graphs.copy_(batch, non_blocking=True)

    def build(self) -> None:
        flat, self.index = self.store.batch(self.graphs)
        graphs = flat.num_graphs - 1
        values = {"x": flat.x, "edge_attr": flat.edge_attr, "y": flat.y, "y_node": flat.y_node}
        self.visible = PaddedBatch(
            {
                **values,
                "weight": flat.weight,
                "edge_index": flat.edge_index,
                "batch": flat.batch,
                "num_graphs": graphs,
                "num_nodes": flat.num_nodes,
                "node_mask": flat.batch < graphs,
            },
            {},
        )

    def outputs(self, network: Any, x: Tensor | None, edge_attr: Tensor | None) -> Any:
        return network(
            x=x,
            edge_index=self.visible.edge_index,
            edge_attr=edge_attr,
            batch=self.visible.batch,
            num_nodes=self.visible.num_nodes,
            batch_size=self.visible.num_graphs + 1,
            index=self.index,
        )
