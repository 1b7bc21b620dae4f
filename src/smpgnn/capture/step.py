"""Your own training step as a CUDA graph: any model around our networks, any loss, any clipping.

A batch is copied into a padded batch of fixed size, or assembled on the GPU, and the step is
replayed on it: all that it does runs on the GPU without Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from smpgnn.capture.padded_batch import Parts, parts_of
from smpgnn.capture.pause import eager_calls
from smpgnn.capture.sizes import LOCAL_LIMIT, room_for, size_of
from smpgnn.capture.sources import LoaderBatches, StoreBatches
from smpgnn.capture.static_batch import ROWS, Scheme, scheme_of
from smpgnn.capture.static_index import Size
from smpgnn.capture.step_graph import StepGraph, detached
from smpgnn.capture.steps import padded_store
from smpgnn.contexts.topology import Topology
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.models.base import Network
from smpgnn.ops.backend import has_kernels
from smpgnn.pooling import PooledNodeExtractor

#: Batches of a loader that run eagerly first and show which sizes to expect.
OBSERVED = 3
#: Sizes for which a step is captured at the same time, for each number of graphs.
CAPTURES = 3


class CapturedStep:
    """A training step that is replayed from CUDA graphs.

    The first calls run the step as it is. Then it is captured, and calls with batches of similar
    size replay it. Results, gradients and running statistics are those of the step itself. What
    does not fit (another number of graphs, a much larger batch) runs eagerly.

    Write the step as a function of a batch of PyTorch Geometric. It calls your model, computes the
    loss, calls `backward`, and perhaps clips the gradients; it returns tensors, which come back
    detached. Gradients add to those in `.grad`, as always. Leave the optimiser's step outside. On a
    CPU the step is only called.

    Args:
        step: the function. It sees a `PaddedBatch`.
        model: the module or modules that it trains, with at least one network of smpgnn.
        data: graphs, as a list of `Data` or a `GraphStore`; calls then take the indices of the
            graphs of a batch, and batches are assembled on the device.
        batch_size: with `data`, the number of graphs of a batch; smaller batches run eagerly.
    """

    def __init__(
        self,
        step: Callable[[Any], Any],
        model: nn.Module | Sequence[nn.Module],
        *,
        data: Any = None,
        batch_size: int = 0,
    ) -> None:
        modules = [model] if isinstance(model, nn.Module) else list(model)
        self.step, self.modules = step, nn.ModuleList(modules)
        self.networks = [m for m in self.modules.modules() if isinstance(m, Network)]
        if not self.networks:
            raise InputError("model: has no network of smpgnn: capture is for steps with one.")
        for network in self.networks:
            _check(network)
        self._seen: dict[Any, list[dict[Scheme, Size]]] = {}
        self._captured: dict[Any, list[StepGraph]] = {}
        self.store = None if data is None else self._store(data, batch_size)
        self.batch_size = batch_size

    def _store(self, data: Any, batch_size: int) -> GraphStore:
        from smpgnn.data.pyg import graphs_from_pyg

        if batch_size < 1:
            raise InputError("batch_size: give the number of graphs of a batch with data.")
        if len({scheme_of(network) for network in self.networks}) > 1:
            raise InputError("data: the networks have different contexts: call with batches.")
        store = data if isinstance(data, GraphStore) else graphs_from_pyg(data)
        return store.to(self._device)

    @property
    def _device(self) -> torch.device:
        return next(self.modules.parameters()).device

    @property
    def captures(self) -> int:
        """For how many sizes and modes the step has been captured."""
        return sum(len(found) for found in self._captured.values())

    def __call__(self, batch: Any) -> Any:
        """What the step returns for a batch, or for the graphs of `data` with these indices."""
        if not on_gpu(self._device):
            return detached(self.step(self._real(batch)))
        if self.store is None:
            return self._of_loader(batch)
        return self._of_store(self.store, torch.as_tensor(batch))

    def _real(self, batch: Any) -> Any:
        """A batch as the step sees it without padding."""
        if self.store is not None:
            return self.store.batch(batch).to(self._device)
        return batch.to(self._device, non_blocking=True)

    def _eager(self, batch: Any) -> Any:
        """Run the step itself on a batch that will be captured."""
        with eager_calls():
            return detached(self.step(self._real(batch)))

    def _of_store(self, store: GraphStore, graphs: Tensor) -> Any:
        known = self._captured.setdefault(self._mode(), [])
        if not known and graphs.numel() == self.batch_size:
            result = self._eager(graphs)
            source = StoreBatches(padded_store(self.networks[0], store, self.batch_size))
            known.append(StepGraph(self.step, self.modules, source, graphs, self._real(graphs)))
            return result
        if known and known[0].take(graphs):
            return known[0].replay()
        return detached(self.step(self._real(graphs)))

    def _of_loader(self, batch: Any) -> Any:
        parts = parts_of(batch)
        key = (parts.shapes, self._mode())
        known = self._captured.setdefault(key, [])
        for captured in known:
            if captured.take(parts):
                return captured.replay()
        if len(known) == CAPTURES:
            return detached(self.step(self._real(batch)))
        result, seen = self._eager(batch), self._seen.setdefault(key, [])
        seen.append(self._sizes(parts))
        if len(seen) == OBSERVED:
            self._seen[key] = []
            sizes = {scheme: room_for([s[scheme] for s in seen]) for scheme in seen[0]}
            if all(_fits_memory(scheme, size) for scheme, size in sizes.items()):
                source = LoaderBatches(parts, sizes, self._device)
                known.append(StepGraph(self.step, self.modules, source, parts, self._real(batch)))
        return result

    def _sizes(self, parts: Parts) -> dict[Scheme, Size]:
        """The size of a batch for each type of rows."""
        device, batch = self._device, parts.batch
        topology = Topology.checked(
            parts.edge_index.to(device),
            None if batch is None else batch.to(device),
            num_nodes=parts.num_nodes,
            num_graphs=parts.num_graphs,
        )
        found: dict[Scheme, Size] = {}
        for network in self.networks:
            scheme, backbone = scheme_of(network), network.backbone
            if scheme not in found:
                found[scheme] = size_of(network, backbone.index(topology))
        return found

    def _mode(self) -> tuple[Any, ...]:
        """What a capture depends on besides the batch."""
        device, state = self._device, list[Any]()
        left: list[nn.Module] = [self.modules]
        while left:  # faster than going through modules(), parameters() and buffers()
            module = left.pop()
            own = module.__dict__
            left.extend(child for child in own["_modules"].values() if child is not None)
            state.append(module.training)
            for p in own["_parameters"].values():
                state.append(None if p is None else (p.data_ptr(), p.requires_grad, p.dtype))
            for buffer in own["_buffers"].values():
                state.append(None if buffer is None else buffer.data_ptr())
        autocast = torch.is_autocast_enabled(device.type)
        return (
            tuple(state),
            torch.is_grad_enabled(),
            autocast and torch.get_autocast_dtype(device.type),
            torch.get_float32_matmul_precision(),
            torch.are_deterministic_algorithms_enabled(),
            torch.cuda.current_stream(device).cuda_stream,
        )


def on_gpu(device: torch.device) -> bool:
    """Whether steps on this device are captured."""
    return device.type == "cuda" and has_kernels()


def _fits_memory(scheme: Scheme, size: Size) -> bool:
    """Whether the rows of local contexts can be found in dense matrices."""
    return scheme[0] != "local" or (size.graphs + 1) * size.largest**2 <= LOCAL_LIMIT


def _check(network: Any) -> None:
    """Refuse networks that cannot be captured."""
    backbone, name = network.backbone, type(network).__name__
    reason = ""
    if backbone.identifiers not in ROWS:
        reason = f"identifiers='{backbone.identifiers}'"
    elif backbone.options.checkpoint:
        reason = "checkpoint=True"
    elif any(not layer.capturable or layer.structure is not None for layer in backbone.layers):
        reason = f"the layer {type(backbone.layers[0]).__name__}"
    elif any(layer.links for layer in backbone.layers):
        reason = f"terms={backbone.options.layer.terms}"
    elif not backbone.first_rows.plain:
        reason = "first_rows or features='both'"
    elif any(isinstance(module, PooledNodeExtractor) for module in network.modules()):
        reason = "pooling by an aggregation of PyTorch Geometric"
    elif getattr(network, "globals", None) is not None:
        reason = f"global_channels={network.globals.channels}"
    if reason:
        raise InputError(f"model: {name} with {reason} cannot be captured: call the step itself.")
