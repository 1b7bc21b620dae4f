"""Which way an operation runs: the fused kernels on a GPU, plain torch elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch import Tensor

Function = TypeVar("Function", bound=Callable[..., Any])

#: The width up to which the kernels serve layers.
WIDEST = 64
#: Set to False to run the plain way on a GPU, too (for comparison).
FUSED = True
#: Set to True to run the kernels on the CPU, by Triton's interpreter (for tests).
INTERPRETED = False


def fused(rows: Tensor) -> bool:
    """Whether the kernels serve these rows."""
    return (FUSED and rows.is_cuda and has_kernels()) or INTERPRETED


def fused_product(rows: Tensor, matrix: Tensor) -> bool:
    """Whether the kernels serve products of these rows with such a matrix.

    A program holds the whole matrix, and sums of its size; wider ones are left to plain torch.
    """
    width, height = (max(16, 1 << (size - 1).bit_length()) for size in matrix.shape)
    most = 32 * 32 if rows.dtype == torch.float64 else WIDEST * WIDEST
    return fused(rows) and width * height <= most


@cache
def has_kernels() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def opaque(function: Function) -> Function:
    """Have torch.compile call this function instead of looking into it.

    The operations take objects that describe a batch, and have gradients of their own.
    """
    hidden: Function = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return hidden


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
