"""Which way an operation runs: the fused kernels on a GPU, plain torch elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

#: Set to False to run the plain way on a GPU, too (for comparison).
FUSED = True
#: Set to True to run the kernels on the CPU, by Triton's interpreter (for tests).
INTERPRETED = False


def fused(rows: Tensor) -> bool:
    """Whether the kernels serve these rows."""
    return (FUSED and rows.is_cuda and has_kernels()) or INTERPRETED


@cache
def has_kernels() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def working_dtype(rows: Tensor) -> torch.dtype:
    """The type in which rows are processed: that of autocast where it is on."""
    if torch.is_autocast_enabled(rows.device.type):
        return torch.get_autocast_dtype(rows.device.type)
    return rows.dtype


def differentiable_gradients(
    compute: Callable[..., Any],
    inputs: Sequence[Tensor],
    outputs_grads: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Gradients of `compute` as functions that can be differentiated again."""
    with torch.enable_grad():
        result = compute(*inputs)
        outputs = [result] if isinstance(result, Tensor) else list(result)
        pairs = [(o, g) for o, g in zip(outputs, outputs_grads, strict=True) if g is not None]
        wanted = [value for value in inputs if value.requires_grad]
        found = iter(
            torch.autograd.grad(
                [o for o, _ in pairs],
                wanted,
                [g for _, g in pairs],
                create_graph=True,
                allow_unused=True,
            )
        )
    return tuple(next(found) if value.requires_grad else None for value in inputs)
