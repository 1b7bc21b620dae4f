"""Gradient checkpointing: keep only the input of a module, and recompute the rest."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from smpgnn.tracing import traced


def recomputed(function: Callable[..., Any], modules: list[nn.Module], *arguments: Any) -> Any:
    """function(*arguments), keeping only the arguments for the gradient.

    The backward pass runs the function again with the same random numbers, and without effect on
    the buffers of the `modules` (running statistics, counters).
    """
    if not torch.is_grad_enabled() or traced():  # the compiler decides what to keep
        return function(*arguments)
    return checkpoint(
        function,
        *arguments,
        use_reentrant=False,
        context_fn=lambda: (nullcontext(), _UnchangedBuffers(modules)),
    )


class _UnchangedBuffers:
    """Restores the buffers of modules in training on exit.

    Entered each time the function runs again: twice for second derivatives.
    """

    def __init__(self, modules: list[nn.Module]) -> None:
        self.modules, self.before = modules, list[tuple[Tensor, Tensor]]()

    def __enter__(self) -> None:
        buffers = [b for module in self.modules if module.training for b in module.buffers()]
        self.before = [(buffer, buffer.clone()) for buffer in buffers]

    def __exit__(self, *_: object) -> None:
        with torch.no_grad():
            for buffer, value in self.before:
                buffer.copy_(value)
        self.before = []
