"""Calls of a network in any loop, replayed from CUDA graphs.

`model(x, edge_index, edge_attr, batch)` on small graphs spends its time on launching kernels. After
a few calls with batches of similar size, the network is captured on padded batches: the index, the
forward pass and the backward pass, one CUDA graph each. Later calls copy their arguments into the
padded batch and replay. The result is an ordinary tensor with an ordinary gradient.

What replaying cannot do runs eagerly as before: batches that do not fit, invalid arguments (so that
errors stay the same), `torch.func` and forward mode, `torch.compile`, networks with hooks, layers
that cannot be captured, and second derivatives. If other calls came between a forward pass and its
backward pass, the forward pass is replayed once more first.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from smpgnn.capture.pause import eager_calls, paused
from smpgnn.capture.replay import Arguments, CapturedNetwork, Writes
from smpgnn.capture.sizes import LOCAL_LIMIT, room_for, size_of
from smpgnn.capture.static_batch import ROWS, scheme_of
from smpgnn.capture.static_index import Size
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.rows import IdentifierRows, LocalRows, NodeRows, RowTable
from smpgnn.ops import backend
from smpgnn.ops.backend import has_kernels, transformed
from smpgnn.pooling import PooledNodeExtractor

#: Eager calls that show which sizes of batches to expect.
OBSERVED = 3
#: Sizes for which a network is captured at the same time.
CAPTURES = 4
#: Rows × width × layers above which launches no longer matter.
_LARGEST = 2**27
_BYTES = 24  # of activations per row, channel and layer, roughly
_SHARE = 8  # at most this part of the memory of the GPU

#: Raise what a capture raises (for tests) instead of running eagerly.
_STRICT = False
_WHOLE = (torch.int64, torch.int32)
#: The table of each type of rows (a value of `ROWS`).
_TABLES: dict[str, type[RowTable]] = {
    "onehot": IdentifierRows,
    "local": LocalRows,
    "nodes": NodeRows,
}
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@dataclass
class _Mode:
    """What is known of the calls of a network in one mode."""

    seen: list[Size] = field(default_factory=list)
    captures: list[CapturedNetwork] = field(default_factory=list)
    given_up: bool = False


@dataclass
class _Known:
    """What is known of a network: its modes (`_mode`)."""

    modes: dict[Any, _Mode] = field(default_factory=dict)
    writes: Writes = field(default_factory=Writes)


_networks: weakref.WeakKeyDictionary[nn.Module, _Known] = weakref.WeakKeyDictionary()


def replayed(
    network: nn.Module,
    x: Tensor | None,
    edge_index: Tensor,
    edge_attr: Tensor | None,
    batch: Tensor | None,
    num_nodes: int | None,
    batch_size: int | None,
    index: ContextIndex | None = None,
) -> Any:
    """The result of this call by replaying; None if it must run eagerly."""
    if paused() or not _can_replay(network, x, edge_index, edge_attr, batch):
        return None
    if index is not None:
        if not _is_own(network, index, edge_index, batch):
            return None
        topology = index.topology
        batch, num_nodes, batch_size = topology.batch, topology.num_nodes, topology.num_graphs
    counts = [num_nodes, *(None if v is None else v.size(0) for v in (x, batch))]
    known = {count for count in counts if count is not None}
    if len(known) != 1 or known == {0} or batch_size == 0:
        return None
    arguments = Arguments(x, edge_index, edge_attr, batch, known.pop(), batch_size, index)
    found = _mode(network, arguments)
    if found is None:
        return None
    key, parameters = found
    state = _networks.setdefault(network, _Known())
    mode = state.modes.setdefault(key, _Mode())
    if mode.given_up:
        return None
    for capture in mode.captures:
        result = capture(arguments, parameters)
        if result is not None:
            return result
    return None if len(mode.captures) >= CAPTURES else _observe(network, state, mode, arguments)


def _observe(network: Any, state: _Known, mode: _Mode, arguments: Arguments) -> Any:
    """Run eagerly; after a few calls capture for batches of their sizes."""
    index = network.backbone.checked_index(**arguments.given, index=arguments.index)
    with eager_calls():
        result = network(**arguments.given, index=index)
    mode.seen.append(size_of(network, index))
    if len(mode.seen) < OBSERVED:
        return result
    wanted, mode.seen = room_for(mode.seen), []
    if _too_large(network, wanted, arguments.edge_index.device):
        mode.given_up = not mode.captures
        return result
    try:
        scheme = scheme_of(network)
        mode.captures.append(CapturedNetwork(network, arguments, wanted, scheme, state.writes))
        mode.captures.sort(key=lambda capture: capture.size.nodes)
    except torch.OutOfMemoryError:
        mode.given_up = True
        torch.cuda.empty_cache()
    except RuntimeError:  # something in this network cannot be captured
        mode.given_up = True
        if _STRICT:
            raise
    return result


def _can_replay(
    network: Any,
    x: Tensor | None,
    edge_index: Tensor,
    edge_attr: Tensor | None,
    batch: Tensor | None,
) -> bool:
    """Whether a call may be replayed; invalid arguments may not, so that errors stay the same."""
    given = [value for value in (x, edge_index, edge_attr, batch) if value is not None]
    if not all(type(value) in (Tensor, nn.Parameter) for value in given):
        return False
    if any(value.device != edge_index.device for value in given) or not _on_gpu(edge_index):
        return False
    if transformed() or torch.cuda.is_current_stream_capturing():
        return False
    backbone = network.backbone
    widths = ((x, backbone.in_channels), (edge_attr, backbone.edge_channels))
    return (
        backend.FUSED
        and has_kernels()
        and edge_index.dim() == 2
        and edge_index.size(0) == 2
        and edge_index.dtype in _WHOLE
        and (batch is None or (batch.dim() == 1 and batch.dtype in _WHOLE))
        and all(
            not width if value is None else value.dim() == 2 and value.size(1) == width
            for value, width in widths
        )
        and (edge_attr is None or edge_attr.size(0) == edge_index.size(1))
        and backbone.identifiers in ROWS
        and not backbone.options.checkpoint
        and backbone.first_rows.plain
        and all(
            layer.capturable and layer.structure is None and not layer.links
            for layer in backbone.layers
        )
        and not (hooks._global_forward_hooks or hooks._global_forward_pre_hooks)
        and not (hooks._global_backward_hooks or hooks._global_backward_pre_hooks)
    )


def _is_own(network: Any, index: ContextIndex, edge_index: Tensor, batch: Tensor | None) -> bool:
    """Whether a given index has the rows that the network would compute for these arguments.

    Then a replayed call computes it once more, which costs less than an eager call that reads it.
    """
    if type(index) is not ContextIndex or (batch is not None and batch.dim() != 1):
        return False
    kind, hops = scheme_of(network)
    table, topology = index.table, index.topology
    return _TABLES[kind] is type(table) and (
        (table.radius, table.context_radius, table.padded) == (None, hops or None, False)
        and _equal(edge_index, topology.edge_index)
        and (batch is None or _equal(batch, topology.batch))
    )


def _equal(given: Tensor, own: Tensor) -> bool:
    same = given.shape == own.shape and given.device == own.device
    return given is own or (same and torch.equal(given.long(), own))


def _on_gpu(tensor: Tensor) -> bool:
    """Whether a tensor is on the current GPU."""
    return tensor.is_cuda and tensor.device.index == torch.cuda.current_device()


def _mode(network: nn.Module, arguments: Arguments) -> tuple[Any, list[Tensor]] | None:
    """All that a captured network depends on besides the batch, and the parameters to train.

    None if the network has hooks, or a part that cannot be captured.
    """
    parts: list[Any] = []
    wanted: list[Tensor] = []
    differentiable = torch.is_grad_enabled()
    for module in network.modules():
        state = module.__dict__
        if any(state[name] for name in _HOOKS) or isinstance(module, PooledNodeExtractor):
            return None
        parts.append((id(module), module.training, state.get("p"), state.get("momentum")))
        for tensor in state["_buffers"].values():
            parts.append(None if tensor is None else tensor.data_ptr())
        for tensor in state["_parameters"].values():
            if tensor is None:
                continue
            parts.append((tensor.data_ptr(), tensor.requires_grad, tensor.dtype))
            if tensor.requires_grad:
                if tensor._backward_hooks:
                    return None
                wanted.append(tensor)
    inputs = [value for value in (arguments.x, arguments.edge_attr) if value is not None]
    device = arguments.edge_index.device
    key = (
        tuple(parts),
        tuple((value.dtype, value.requires_grad and differentiable) for value in inputs),
        device,
        torch.cuda.current_stream(device).cuda_stream,
        differentiable,
        torch.is_autocast_enabled(device.type) and torch.get_autocast_dtype(device.type),
        torch.get_float32_matmul_precision(),
        torch.are_deterministic_algorithms_enabled(),
    )
    return key, list(dict.fromkeys(wanted))


def _too_large(network: Any, size: Size, device: torch.device) -> bool:
    """Whether launches hardly matter at this size, or captured activations take much memory."""
    backbone = network.backbone
    kind = ROWS[backbone.identifiers]
    if kind == "local" and (size.graphs + 1) * size.largest**2 > LOCAL_LIMIT:
        return True
    rows = size.nodes if kind == "nodes" else size.rows
    work = rows * backbone.options.hidden_channels * backbone.options.num_layers
    memory = torch.cuda.get_device_properties(device).total_memory
    return bool(work > _LARGEST or work * _BYTES > memory / _SHARE)
