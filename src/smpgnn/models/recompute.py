"""Recomputation: a part of a network keeps its input only and is run again for the gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from smpgnn.layers import DefaultSMPLayer, FastSMPLayer, RowBatchNorm, RowLayerNorm
from smpgnn.layers.norm import NoNorm
from smpgnn.pooling import NodeExtractor

#: Modules that draw nothing at random, so that the state of the generator need not be kept.
_CERTAIN = (DefaultSMPLayer, FastSMPLayer, RowBatchNorm, RowLayerNorm, NoNorm, NodeExtractor)


def recomputed(function: Callable[..., Any], modules: list[nn.Module], *arguments: Any) -> Any:
    """function(*arguments), of which nothing is kept for the gradient but the arguments.

    In the backward pass the function is run a second time, with the same random numbers; what it
    writes into the buffers of the `modules` (running statistics, counters) is written once only.
    """
    if not torch.is_grad_enabled():
        return function(*arguments)
    return checkpoint(
        function,
        *arguments,
        use_reentrant=False,
        preserve_rng_state=not all(isinstance(module, _CERTAIN) for module in modules),
        context_fn=lambda: (nullcontext(), _unchanged_buffers(modules)),
    )


@contextmanager
def _unchanged_buffers(modules: list[nn.Module]) -> Iterator[None]:
    """In the end the buffers of modules in training are what they were."""
    buffers = [b for module in modules if module.training for b in module.buffers()]
    before = [buffer.clone() for buffer in buffers]
    try:
        yield
    finally:
        with torch.no_grad():
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)
