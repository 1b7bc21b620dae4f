"""A network captured as CUDA graphs: its index, its forward and its backward pass.

The backward pass reads activations that the forward pass left in the memory of the graphs. If other
calls came in between, the forward pass is replayed once more first.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function

from smpgnn.capture.graphs import capture, restore_buffers, uninitialised_memory
from smpgnn.capture.pause import eager_calls
from smpgnn.capture.static_batch import Scheme, StaticBatch
from smpgnn.capture.static_index import Size
from smpgnn.contexts.index import ContextIndex
from smpgnn.ops.backend import plain_gradients


@dataclass
class Arguments:
    """The arguments of a call of a network."""

    x: Tensor | None
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor | None
    num_nodes: int
    batch_size: int | None
    index: ContextIndex | None = None

    @property
    def nodes(self) -> dict[str, Tensor]:
        return {} if self.x is None else {"x": self.x}

    @property
    def edges(self) -> dict[str, Tensor]:
        return {} if self.edge_attr is None else {"edge_attr": self.edge_attr}

    @property
    def given(self) -> dict[str, Any]:
        return {
            "x": self.x,
            "edge_index": self.edge_index,
            "edge_attr": self.edge_attr,
            "batch": self.batch,
            "num_nodes": self.num_nodes,
            "batch_size": self.batch_size,
        }


@dataclass
class Writes:
    """How often replayed calls in training mode have written the buffers of a network."""

    count: int = 0

    def of(self, network: nn.Module) -> list[int]:
        """Changes if and only if a call has written the buffers, replayed or not."""
        return [self.count, *(buffer._version for buffer in network.buffers())]


class CapturedNetwork:
    """A network captured for batches up to a size, in one mode.

    The arguments of a call lie in `held`, its results in `outputs`, and after the backward pass its
    gradients in `grads_out`, one after another.
    """

    def __init__(
        self, network: Any, arguments: Arguments, size: Size, scheme: Scheme, writes: Writes
    ) -> None:
        self.size, self.network, self.writes = size, weakref.ref(network), writes
        self.calls = 0  # shows a backward pass whether its activations are still there
        self.differentiable = torch.is_grad_enabled()
        device = arguments.edge_index.device
        autocast = torch.is_autocast_enabled(device.type)
        self.autocast = torch.get_autocast_dtype(device.type) if autocast else None
        self.grads_out: Tensor | None = None
        self.shapes: list[torch.Size | None] = []
        self.outputs: list[Tensor] = []
        self.grads_in: list[Tensor] = []
        with ExitStack() as stack:
            enter = stack.enter_context
            enter(eager_calls())
            enter(torch.inference_mode(False))
            enter(torch.set_grad_enabled(self.differentiable))
            enter(uninitialised_memory())
            # The same memory as the parameters, which stay where they are, but an autograd graph of
            # their own: that of an earlier call would tie the capture to its stream.
            self.parameters = {
                name: value.detach().requires_grad_(self.differentiable)
                for name, value in network.named_parameters()
                if value.requires_grad
            }
            self.held = StaticBatch(size, scheme, arguments.nodes, arguments.edges, device)
            self.fill(arguments)
            stages = [self.held.build, self._forward]
            self.graphs = capture(
                [*stages, self._backward] if self.has_backward else stages, network
            )
            # without their autograd graph
            self.outputs = [out.detach() for out in self.outputs]

    @property
    def has_backward(self) -> bool:
        return self.differentiable and bool(self.parameters or self.held.leaves)

    def _autocast(self, dtype: torch.dtype | None) -> torch.autocast:
        kind = self.held.edge_index.device.type
        return torch.autocast(kind, dtype=dtype, enabled=dtype is not None, cache_enabled=False)

    def _forward(self) -> None:
        network: Any = self.network()
        self.outputs = []  # frees the autograd graph of the call before
        held = self.held
        attr = held.sorted_edges("edge_attr") if held.edges else None
        call = partial(torch.func.functional_call, network, self.parameters, ())
        # A cache would keep casts of the weights that do not follow the optimiser.
        with self._autocast(self.autocast):
            result = held.run(lambda **given: call(given), held.nodes.get("x"), attr)
        self.single = isinstance(result, Tensor)
        self.outputs = [result] if self.single else list(result)

    def _backward(self) -> None:
        if not self.grads_in:
            self.grads_in = [torch.zeros_like(out) for out in self.outputs]
        wanted = [*self.held.leaves, *self.parameters.values()]
        # in this thread: that of the engine may have no CUDA context yet, of which torch warns
        with self._autocast(None), torch.autograd.set_multithreading_enabled(False):
            found = torch.autograd.grad(self.outputs, wanted, self.grads_in, allow_unused=True)
        self.shapes = [None if grad is None else grad.shape for grad in found]
        parts = [grad.reshape(-1) for grad in found if grad is not None]
        if len({part.dtype for part in parts}) > 1:
            raise RuntimeError("gradients have several dtypes.")
        self.grads_out = torch.cat(parts)

    def fill(self, arguments: Arguments) -> None:
        """Copy the arguments into the padded batch."""
        graphs = arguments.batch_size or (1 if arguments.batch is None else 0)
        self.held.fill(
            arguments.edge_index,
            arguments.batch,
            arguments.num_nodes,
            graphs,
            arguments.nodes,
            arguments.edges,
        )

    def _replay_forward(self, arguments: Arguments) -> int | None:
        """The number of graphs, once the result is there; None if the batch does not fit."""
        edges = arguments.edge_index.size(1)
        if not self.held.holds(arguments.num_nodes, edges, arguments.batch_size or 0):
            return None
        self.fill(arguments)
        self.graphs[0].replay()
        graphs = self.held.graphs_found(arguments.index)
        if graphs is not None:
            self.calls += 1
            self.graphs[1].replay()
        return graphs

    def __call__(self, arguments: Arguments, parameters: Sequence[Tensor]) -> Any:
        """The result; None if the batch does not fit."""
        network: Any = self.network()
        device = arguments.edge_index.device
        random = torch.cuda.get_rng_state(device) if _is_random(network) else None
        graphs = self._replay_forward(arguments)
        if graphs is None:
            return None
        self.writes.count += network.training
        nodes = arguments.num_nodes
        counts = [nodes, graphs]
        if self.single:
            counts = [nodes if getattr(network, "level", "graph") == "node" else graphs]
        results = [out[:n].clone() for out, n in zip(self.outputs, counts, strict=True)]
        if self.has_backward:
            call = _Call(self, arguments, self.calls, self.writes.of(network), random)
            given = (arguments.x, arguments.edge_attr, *parameters)
            apply: Any = _Replay.apply
            results = apply(call, tuple(results), *given)
        return results[0] if self.single else tuple(results)

    def gradients(self, call: _Call, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Gradients of the leaves and parameters, from those of the results of a call."""
        if call.number != self.calls or call.used:
            self._replay_again(call)
        call.used = True
        for own, grad in zip(self.grads_in, grads, strict=True):
            own.zero_()
            if grad is not None:
                own[: grad.size(0)].copy_(grad)
        self.graphs[2].replay()
        assert self.grads_out is not None
        sizes = [0 if shape is None else shape.numel() for shape in self.shapes]
        parts = torch.split(self.grads_out.clone(), sizes)
        return [
            None if shape is None else part.view(shape)
            for part, shape in zip(parts, self.shapes, strict=True)
        ]

    def _replay_again(self, call: _Call) -> None:
        """The forward pass of an earlier call once more, without its side effects."""
        network: Any = self.network()
        buffers = list(network.buffers())
        if buffers and not network.training and call.writes != self.writes.of(network):
            raise RuntimeError(
                "the running statistics of the network were modified by a call in training mode "
                "between this forward pass and its backward pass."
            )
        before = [buffer.clone() for buffer in buffers]
        device = self.held.edge_index.device
        state = torch.cuda.get_rng_state(device)
        if call.random is not None:
            torch.cuda.set_rng_state(call.random, device)
        self._replay_forward(call.arguments)
        torch.cuda.set_rng_state(state, device)
        restore_buffers(network, before)
        call.number = self.calls


@dataclass
class _Call:
    """One forward pass: its number, the writes to buffers and random state before, and if used."""

    capture: CapturedNetwork
    arguments: Arguments
    number: int
    writes: list[int]
    random: Tensor | None
    used: bool = False


class _Replay(Function):
    """The results of a replayed forward pass; its gradients come from a replay as well."""

    @staticmethod
    def forward(
        ctx: Any,
        call: _Call,
        results: tuple[Tensor, ...],
        x: Tensor | None,
        edge_attr: Tensor | None,
        *parameters: Tensor,
    ) -> Any:
        ctx.call = call
        ctx.set_materialize_grads(False)
        # saved so that a change of any of them before the backward pass is an error, as usual
        arguments = call.arguments
        ctx.save_for_backward(x, edge_attr, arguments.edge_index, arguments.batch, *parameters)
        call.arguments = replace(arguments, x=None, edge_attr=None, batch=None)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> Any:
        x, edge_attr, edge_index, batch, *parameters = ctx.saved_tensors
        call: _Call = ctx.call
        capture, kept = call.capture, call.arguments
        call.arguments = replace(kept, x=x, edge_attr=edge_attr, edge_index=edge_index, batch=batch)
        try:
            if torch.is_grad_enabled():
                return (None, None, *_eager_gradients(call, parameters, grads))
            found = iter(capture.gradients(call, grads))
        finally:
            call.arguments = kept
        cut = [
            next(found)[:count] if own is not None and own.requires_grad else None  # type: ignore[index]
            for own, count in (
                (capture.held.nodes.get("x"), kept.num_nodes),
                (capture.held.edges.get("edge_attr"), edge_index.size(1)),
            )
        ]
        return (None, None, *cut, *found)


def _eager_gradients(
    call: _Call, parameters: Sequence[Tensor], grads: Sequence[Tensor | None]
) -> tuple[Tensor | None, ...]:
    """Gradients that can be differentiated again, from the network itself."""
    network: Any = call.capture.network()
    if _is_random(network):
        raise RuntimeError(
            "create_graph=True runs the network again, and its dropout would draw other numbers: "
            "call the network inside `with smpgnn.eager_calls():`."
        )
    names = [name for name, value in network.named_parameters() if value.requires_grad]

    def compute(x: Tensor | None, edge_attr: Tensor | None, *values: Tensor) -> Any:
        given = {**call.arguments.given, "x": x, "edge_attr": edge_attr}
        with eager_calls():
            named = dict(zip(names, values, strict=True))
            return torch.func.functional_call(network, named, (), given)

    buffers = [buffer.clone() for buffer in network.buffers()]
    inputs = [call.arguments.x, call.arguments.edge_attr, *parameters]
    try:
        return plain_gradients(compute, inputs, grads)
    finally:
        restore_buffers(network, buffers)


def _is_random(network: nn.Module) -> bool:
    return network.training and any(
        isinstance(module, nn.Dropout) and module.p > 0 for module in network.modules()
    )
