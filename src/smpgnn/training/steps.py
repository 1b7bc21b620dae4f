"""One training step and one evaluation step; on a GPU, captured as CUDA graphs if possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smpgnn.capture.steps import CapturedFunction, padded_store
from smpgnn.config.options import TrainOptions
from smpgnn.contexts.index import ContextIndex
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.training.network import autocast, first_outputs, run_network
from smpgnn.training.objective import Objective


class TrainingStep:
    """The loss on graphs of a store, and its gradients, clipped.

    Args:
        network: in training mode when this is called.
        objective: the loss.
        store: the training data; on the device of the network if steps are captured.
        options: the batch size, precision and clipping.
        capture: whether to capture the step (`smpgnn.capture.steps.can_capture`).
        weight: factor on the loss of a batch; with several processes, the share of this one.
        backward: computes the gradients of the loss.
    """

    def __init__(
        self,
        network: nn.Module,
        objective: Objective,
        store: GraphStore,
        options: TrainOptions,
        *,
        capture: bool = False,
        weight: Callable[[GraphBatch], Tensor] | None = None,
        backward: Callable[[Tensor], None] = Tensor.backward,
    ) -> None:
        self.network, self.objective, self.store = network, objective, store
        self.options, self.weight, self.backward = options, weight, backward
        self.device = next(network.parameters()).device
        self.captured: CapturedFunction | None = None
        if capture:
            modules = nn.ModuleList([network, objective])
            batches = padded_store(network, store, options.batch_size)
            self.captured = CapturedFunction(batches, self._gradients, modules)

    def __call__(self, graphs: Tensor) -> Tensor:
        """The loss on these graphs (indices on the CPU); sets the gradients of the network."""
        if self.captured is not None and self.captured.fits(graphs):
            loss: Tensor = self.captured(graphs)
            return loss.clone()  # the next step overwrites it
        self.network.zero_grad(set_to_none=True)
        return self._gradients(self.store.batch(graphs).to(self.device, non_blocking=True))

    def _gradients(self, batch: GraphBatch, index: ContextIndex | None = None) -> Tensor:
        with autocast(self.device, self.options.precision):
            loss: Tensor = self.objective(run_network(self.network, batch, index), batch)
        if self.weight is not None:
            loss = loss * self.weight(batch)
        self.backward(loss)
        if self.options.clip:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.options.clip)
        return loss.detach()


class EvaluationStep:
    """The outputs of a network for graphs of a store.

    Args: as in `TrainingStep`; the network is in eval mode when this is called.
    """

    def __init__(
        self,
        network: nn.Module,
        store: GraphStore,
        batch_size: int,
        *,
        precision: str = "tf32",
        capture: bool = False,
    ) -> None:
        self.network, self.store, self.precision = network, store, precision
        self.device = next(network.parameters()).device
        self.captured: CapturedFunction | None = None
        if capture:
            batches = padded_store(network, store, batch_size)
            self.captured = CapturedFunction(batches, self._outputs, network)
            self.num_nodes = store.num_nodes.cpu()

    def __call__(self, graphs: Tensor) -> tuple[Any, GraphBatch]:
        """The outputs for these graphs (indices on the CPU), and their batch."""
        batch = self._batch(graphs)
        found = self._replayed(graphs)
        return self._outputs(batch) if found is None else found, batch

    def outputs(self, graphs: Tensor) -> Any:
        """The outputs alone."""
        found = self._replayed(graphs)
        return self._outputs(self._batch(graphs)) if found is None else found

    def _batch(self, graphs: Tensor) -> GraphBatch:
        return self.store.batch(graphs).to(self.device, non_blocking=True)

    def _replayed(self, graphs: Tensor) -> Any | None:
        """The outputs of the captured step; None if there is none, or the graphs do not fit."""
        if self.captured is None or not self.captured.fits(graphs):
            return None
        out, nodes = self.captured(graphs), int(self.num_nodes[graphs].sum())
        cut = first_outputs(self.network, out, nodes, graphs.numel())
        # the next call overwrites them
        return tuple(one.clone() for one in cut) if isinstance(cut, tuple) else cut.clone()

    def _outputs(self, batch: GraphBatch, index: ContextIndex | None = None) -> Any:
        with torch.no_grad(), autocast(self.device, self.precision):
            return run_network(self.network, batch, index)
