"""Which way an operation runs.

Every operation has a plain form: torch functions only, so derivatives of any order exist, in
reverse and forward mode and under `torch.func`. Around it stands an autograd function with a faster
forward and backward pass, by fused kernels on a GPU. Its backward pass serves first derivatives.
Asked for more (`create_graph=True`), it differentiates the plain form (`plain_gradients`); inside
`torch.func` and forward-mode differentiation the plain form runs from the start (`transformed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad

Function = TypeVar("Function", bound=Callable[..., Any])

#: The width up to which the kernels serve layers.
WIDEST = 64
#: Set to False to run the plain way on a GPU, too (for comparison).
FUSED = True
#: Set to True to run the kernels on the CPU, by Triton's interpreter (for tests).
INTERPRETED = False


def fused(rows: Tensor) -> bool:
    """Whether the kernels serve these rows."""
    return ((FUSED and rows.is_cuda and has_kernels()) or INTERPRETED) and not transformed()


def transformed() -> bool:
    """Whether torch.func or forward-mode differentiation looks into every operation."""
    return mapped() or forward_ad._current_level >= 0


def mapped() -> bool:
    """Whether a transform of torch.func is at work."""
    return torch._C._are_functorch_transforms_active()


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


def plain_gradients(
    compute: Callable[..., Any],
    inputs: Sequence[Tensor | None],
    outputs_grads: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Gradients of the plain form `compute` that can be differentiated again.

    Each input counts as a variable of its own, even where one was computed from another: the path
    between them belongs to the operations outside.
    """
    with torch.enable_grad():
        own = [None if value is None else value.view_as(value) for value in inputs]
        result = compute(*own)
        outputs = [result] if isinstance(result, Tensor) else list(result)
        pairs = [
            (output, grad)
            for output, grad in zip(outputs, outputs_grads, strict=True)
            if grad is not None and output.requires_grad
        ]
        wanted = [value for value in own if value is not None and value.requires_grad]
        if not pairs or not wanted:
            return (None,) * len(own)
        found = iter(
            torch.autograd.grad(
                [output for output, _ in pairs],
                wanted,
                [grad for _, grad in pairs],
                create_graph=True,
                allow_unused=True,
            )
        )
    return tuple(
        next(found) if value is not None and value.requires_grad else None for value in own
    )
