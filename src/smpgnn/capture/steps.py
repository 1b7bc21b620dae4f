"""Steps captured as CUDA graphs: hundreds of kernel launches become one.

On a GPU the kernels of a step on small graphs take less time than their launches. A step on batches
of fixed size (`smpgnn.capture.padded`) is captured once and replayed for every batch; a batch that
does not fit runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smpgnn.capture.graphs import side_stream, uninitialised_memory
from smpgnn.capture.links import LinkAxes
from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.capture.pairs import PairAxes
from smpgnn.capture.rows import LocalAxes, NodeAxes, OneHotAxes, RowAxes, sorted_topology
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.structure import GraphStructure
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.ops.backend import has_kernels
from smpgnn.pooling import PooledNodeExtractor

#: Runs before the capture, in which kernels are compiled and libraries set up.
WARM_UP = 3


def can_capture(network: nn.Module, device: torch.device) -> bool:
    """Whether steps of this network can be captured: nothing in them waits for the GPU."""
    if device.type != "cuda" or not has_kernels() or not getattr(network, "capturable", True):
        return False
    backbone: Any = network.backbone
    return (
        backbone.identifiers in ("onehot", "local", "pairs", "nodes")
        and not backbone.options.checkpoint
        and all(layer.capturable for layer in backbone.layers)
        and not any(isinstance(module, PooledNodeExtractor) for module in network.modules())
    )


def row_axes(network: nn.Module, store: GraphStore) -> RowAxes:
    """The rows that this network has for the graphs of a store."""
    backbone: Any = network.backbone
    if backbone.identifiers == "nodes":
        return NodeAxes(store)
    options, first = backbone.options, backbone.first_rows
    links = [*first.links, *(link for layer in backbone.layers for link in layer.links)]
    linked, pairs = bool(links or first.fixed), backbone.identifiers == "pairs"
    local = backbone.identifiers == "local"
    if not (linked or pairs):
        return LocalAxes(store, options.context_radius) if local else OneHotAxes(store)
    index: ContextIndex = backbone.index(sorted_topology(store)[0])
    if pairs:
        rows: RowAxes = PairAxes(store, index)
        index, axis = index.of_single_nodes, "node_row"
    else:
        rows = LocalAxes(store, options.context_radius) if local else OneHotAxes(store)
        axis = "row"
    return LinkAxes(rows, store, index, links, first, axis) if linked else rows


def structures(network: nn.Module) -> list[GraphStructure[Any]]:
    """The structures that the layers need from the topology of a batch, without duplicates."""
    backbone: Any = network.backbone
    asked = dict.fromkeys(layer.structure for layer in backbone.layers)
    return [structure for structure in asked if structure is not None]


def padded_store(network: nn.Module, store: GraphStore, batch_size: int) -> PaddedStore:
    """Batches of `batch_size` graphs of a store, with all that the layers of a network need."""
    rows = row_axes(network, store)
    return PaddedStore(store, Capacity.of(store, batch_size, rows), rows, structures(network))


class CapturedFunction:
    """A function of a padded batch and its index, as a CUDA graph.

    Args:
        store: makes the batches.
        function: its results are tensors of fixed shape; the next call overwrites them. It may set
            the gradients of the parameters of `modules`.
        modules: their buffers (running statistics) are restored after the runs before the capture.
    """

    def __init__(
        self,
        store: PaddedStore,
        function: Callable[[GraphBatch, ContextIndex], Any],
        modules: nn.Module,
    ) -> None:
        self.store, self.function, self.modules = store, function, modules
        self._graphs = torch.full((store.capacity.graphs,), -1, device=store.device)
        self._cuda_graph: torch.cuda.CUDAGraph | None = None
        self._gradients: list[tuple[nn.Parameter, Tensor | None]] = []
        self._result: Any = None

    def fits(self, graphs: Tensor) -> bool:
        """Whether a batch can hold these graphs, given as indices on the CPU."""
        return self.store.fits(graphs)

    def __call__(self, graphs: Tensor) -> Any:
        """The result for these graphs; gradients are set as the function sets them."""
        if self._cuda_graph is None:
            with uninitialised_memory():
                self._cuda_graph = self._capture()
        self._graphs[: graphs.numel()].copy_(graphs, non_blocking=True)
        if graphs.numel() < self._graphs.numel():
            self._graphs[graphs.numel() :] = -1
        for parameter, gradient in self._gradients:
            parameter.grad = gradient
        self._cuda_graph.replay()
        return self._result

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Run the function a few times on small graphs, then capture it."""
        buffers = [buffer.clone() for buffer in self.modules.buffers()]
        count = min(self.store.capacity.graphs, self.store.num_nodes.numel())
        small = self.store.num_nodes.topk(count, largest=False).indices.cpu()
        while not self.store.fits(small):
            small = small[: small.numel() // 2]
        self._graphs[: small.numel()] = small.to(self._graphs.device)
        with side_stream():
            for _ in range(WARM_UP):
                self.function(*self.store.batch(self._graphs))
        for buffer, value in zip(self.modules.buffers(), buffers, strict=True):
            buffer.copy_(value)
        for parameter in self.modules.parameters():
            parameter.grad = None  # the captured function then sets gradients, it does not add
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._result = self.function(*self.store.batch(self._graphs))
        found = [(parameter, parameter.grad) for parameter in self.modules.parameters()]
        self._gradients = found if any(grad is not None for _, grad in found) else []
        return graph
