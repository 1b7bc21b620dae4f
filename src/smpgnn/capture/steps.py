"""Steps recorded as CUDA graphs: hundreds of launches become one.

On a GPU the kernels of a step on small graphs take less time than it takes to launch them. A step
on batches of fixed size (`smpgnn.capture.padded`) is recorded once and replayed for every batch; a
batch that does not fit the room is run the ordinary way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from smpgnn.capture.padded import Capacity, PaddedIndex, PaddedStore
from smpgnn.capture.padded_rows import DataLocal, DataNodes, DataOneHot, DataRows
from smpgnn.contexts.structure import GraphStructure
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.ops.backend import has_kernels
from smpgnn.pooling import PooledNodeExtractor
from smpgnn.training.network import run_network
from smpgnn.training.objective import Objective

#: Runs before the recording, in which kernels are compiled and libraries set up.
WARM_UP = 3


def can_record(network: nn.Module, device: torch.device) -> bool:
    """Whether steps of this network can be recorded: its kernels ask nothing of the CPU."""
    if device.type != "cuda" or not has_kernels():
        return False
    backbone: Any = network.backbone
    return (
        backbone.identifiers in ("onehot", "local", "nodes")
        and not backbone.checkpoint
        and all(layer.recordable for layer in backbone.layers)
        and not any(isinstance(module, PooledNodeExtractor) for module in network.modules())
    )


def data_rows(network: nn.Module, store: GraphStore) -> DataRows:
    """The rows that this network has for the graphs of a store."""
    backbone: Any = network.backbone
    if backbone.identifiers == "nodes":
        return DataNodes(store)
    if backbone.identifiers == "local":
        return DataLocal(store, backbone.context_radius)
    return DataOneHot(store)


def structures(network: nn.Module) -> list[GraphStructure[Any]]:
    """What the layers ask of the topology of a batch, each once."""
    backbone: Any = network.backbone
    asked = dict.fromkeys(layer.structure for layer in backbone.layers)
    return [structure for structure in asked if structure is not None]


def padded_store(network: nn.Module, store: GraphStore, batch_size: int) -> PaddedStore:
    """Batches of so many graphs of a store, with all that the layers of a network ask for."""
    rows = data_rows(network, store)
    return PaddedStore(store, Capacity.of(store, batch_size, rows), rows, structures(network))


class Recording:
    """A function of a padded batch as a CUDA graph.

    Args:
        store: makes the batches.
        function: what to do with a batch and its index; its results are tensors of fixed shape, and
            are overwritten by the next call.
        modules: whose buffers (running statistics) the runs before the recording must not change.
    """

    def __init__(
        self,
        store: PaddedStore,
        function: Callable[[GraphBatch, PaddedIndex], Any],
        modules: nn.Module,
    ) -> None:
        self.store, self.function, self.modules = store, function, modules
        self.graphs = torch.full((store.capacity.graphs,), -1, device=store.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result: Any = None

    def record(self) -> None:
        """Run the function a few times on small graphs, then record it."""
        with _unfilled_memory():
            self._record()

    def _record(self) -> None:
        buffers = [buffer.clone() for buffer in self.modules.buffers()]
        count = min(self.store.capacity.graphs, self.store.num_nodes.numel())
        small = self.store.num_nodes.topk(count, largest=False).indices.cpu()
        while not self.store.fits(small):
            small = small[: small.numel() // 2]
        self.graphs[: small.numel()] = small.to(self.graphs.device)
        side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self.function(*self.store.batch(self.graphs))
        torch.cuda.current_stream().wait_stream(side)
        for buffer, value in zip(self.modules.buffers(), buffers, strict=True):
            buffer.copy_(value)
        for parameter in self.modules.parameters():
            parameter.grad = None  # the recorded step then sets gradients instead of adding to them
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.result = self.function(*self.store.batch(self.graphs))

    def __call__(self, graphs: Tensor) -> Any:
        """The result for these graphs, at most as many as there is room for."""
        if self.graph is None:
            self.record()
        assert self.graph is not None
        self.graphs[: graphs.numel()].copy_(graphs, non_blocking=True)
        if graphs.numel() < self.graphs.numel():
            self.graphs[graphs.numel() :] = -1
        self.graph.replay()
        return self.result


def run_padded(network: nn.Module, batch: GraphBatch, index: PaddedIndex) -> Any:
    """The outputs of a network for the graphs (or nodes) of a padded batch."""
    backbone: Any = network.backbone
    out = network(
        batch.x if backbone.in_channels else None,
        batch.edge_index,
        batch.edge_attr if backbone.edge_channels else None,
        batch.batch,
        num_nodes=batch.num_nodes,
        index=index,
    )
    if isinstance(out, tuple):
        return out[0], out[1][: batch.num_graphs - 1]
    return out if getattr(network, "level", "graph") == "node" else out[: batch.num_graphs - 1]


class RecordedOutputs:
    """Outputs of a network for graphs of a store, recorded where the batch fits.

    Args:
        network: in eval mode while this is called.
        store: the graphs, on the device of the network.
        batch_size: graphs in a batch.
        dtype: of autocast, or None.
    """

    def __init__(
        self,
        network: nn.Module,
        store: GraphStore,
        batch_size: int,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.network, self.store, self.dtype = network, store, dtype
        self._recording = Recording(padded_store(network, store, batch_size), self._output, network)

    def record(self) -> None:
        self._recording.record()

    def __call__(self, graphs: Tensor) -> tuple[Any, GraphBatch]:
        """The outputs for these graphs (numbers, on the CPU), and their batch."""
        batch = self.store.batch(graphs)
        if not self._recording.store.fits(graphs):
            with torch.no_grad(), _autocast(self.dtype):
                return run_network(self.network, batch), batch
        out = self._recording(graphs)
        if isinstance(out, tuple):
            return (out[0][: batch.num_nodes], out[1][: batch.num_graphs]), batch
        level = getattr(self.network, "level", "graph")
        return out[: batch.num_nodes if level == "node" else batch.num_graphs], batch

    def _output(self, batch: GraphBatch, index: PaddedIndex) -> Any:
        with torch.no_grad(), _autocast(self.dtype):
            return run_padded(self.network, batch, index)


class Recorder:
    """Training and validation steps of a network, recorded where the batch fits.

    Args:
        network: in training mode while `step` is called, in eval mode while `outputs` is.
        objective: what is made small.
        train: the training data, on the device of the network.
        val: the validation data, likewise.
        batch_size: graphs in a batch.
        clip: largest norm of the gradient; 0: no limit.
        dtype: of autocast, or None.
        evaluated: the network to validate, where it is not the one that is trained.
    """

    def __init__(
        self,
        network: nn.Module,
        objective: Objective,
        train: GraphStore,
        val: GraphStore,
        batch_size: int,
        clip: float = 0.0,
        dtype: torch.dtype | None = None,
        evaluated: nn.Module | None = None,
    ) -> None:
        self.network, self.objective, self.clip, self.dtype = network, objective, clip, dtype
        self.train = train
        modules = nn.ModuleList([network, objective])
        self._steps = Recording(padded_store(network, train, batch_size), self._step, modules)
        #: Outputs for validation graphs.
        self.outputs = RecordedOutputs(evaluated or network, val, batch_size, dtype)
        self._grads: list[tuple[nn.Parameter, Tensor | None]] = []

    def record(self) -> None:
        """Record both steps; the weights stay as they are."""
        mode = self.network.training
        self.network.train()
        self._steps.record()
        self._grads = [(parameter, parameter.grad) for parameter in self.network.parameters()]
        self.outputs.network.eval()
        self.outputs.record()
        self.network.train(mode)

    def step(self, graphs: Tensor) -> Tensor:
        """The loss of these training graphs (numbers, on the CPU); the gradients are set."""
        if self._steps.store.fits(graphs):
            for parameter, grad in self._grads:
                parameter.grad = grad
            loss: Tensor = self._steps(graphs)
            return loss.clone()
        batch = self.train.batch(graphs)
        self.network.zero_grad(set_to_none=True)
        with _autocast(self.dtype):
            loss = self.objective(run_network(self.network, batch), batch)
        return self._backward(loss)

    def _step(self, batch: GraphBatch, index: PaddedIndex) -> Tensor:
        with _autocast(self.dtype):
            loss = self.objective(run_padded(self.network, batch, index), batch)
        return self._backward(loss)

    def _backward(self, loss: Tensor) -> Tensor:
        loss.backward()  # type: ignore[no-untyped-call]
        if self.clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.clip, foreach=True)
        return loss.detach()


@contextmanager
def _unfilled_memory() -> Iterator[None]:
    """Deterministic algorithms fill fresh memory, which would cost a pass for each tensor."""
    settings: Any = torch.utils.deterministic
    before = settings.fill_uninitialized_memory
    settings.fill_uninitialized_memory = False
    try:
        yield
    finally:
        settings.fill_uninitialized_memory = before


def _autocast(dtype: torch.dtype | None) -> Any:
    if dtype is None:
        return nullcontext()
    return torch.autocast("cuda", dtype=dtype, cache_enabled=False)
