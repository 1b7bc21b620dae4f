"""The choice between kernels and plain torch.

Every operation has a plain form in torch functions only. It provides derivatives of any order, in
reverse and forward mode and under `torch.func`. An autograd function around it has faster forward
and backward passes, which use fused kernels on a GPU. Its backward pass computes first derivatives;
with `create_graph=True` it differentiates the plain form instead (`plain_gradients`). Under
`torch.func`, in forward mode, and while torch.compile or torch.export trace, the plain form runs
from the start (`transformed`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from smpgnn.tracing import traced

#: Numbers in a block of rows on a CPU. What an operation needs for a block stays in the cache,
#: where gathers are several times faster than in memory.
CACHED = 1 << 19
#: The largest width of a layer that the kernels support.
WIDEST = 64
#: Set to False to run without kernels on a GPU (for comparison).
FUSED = True
#: Set to True to run the kernels on the CPU with Triton's interpreter (for tests).
INTERPRETED = False


def fused(rows: Tensor) -> bool:
    """Whether kernels process these rows."""
    return ((FUSED and rows.is_cuda and has_kernels()) or INTERPRETED) and not transformed()


def transformed() -> bool:
    """Whether torch.func, forward-mode differentiation, torch.compile or export is active."""
    return traced() or mapped() or forward_ad._current_level >= 0


def mapped() -> bool:
    """Whether a transform of torch.func is active."""
    return torch._C._are_functorch_transforms_active()


def fused_product(rows: Tensor, matrix: Tensor) -> bool:
    """Whether kernels compute the matmul of these rows with this matrix.

    A program keeps the whole matrix and sums of its size in registers, so wide matrices use plain
    torch.
    """
    width, height = (max(16, 1 << (size - 1).bit_length()) for size in matrix.shape)
    most = 32 * 32 if rows.dtype == torch.float64 else WIDEST * WIDEST
    return fused(rows) and width * height <= most


@cache
def has_kernels() -> bool:
    """Whether Triton is installed."""
    return find_spec("triton") is not None


def working_dtype(rows: Tensor) -> torch.dtype:
    """The dtype in which rows are processed: that of autocast if it is enabled."""
    if torch.is_autocast_enabled(rows.device.type):
        return torch.get_autocast_dtype(rows.device.type)
    return rows.dtype


def plain_gradients(
    compute: Callable[..., Any],
    inputs: Sequence[Tensor | None],
    outputs_grads: Sequence[Tensor | None],
) -> tuple[Tensor | None, ...]:
    """Gradients of the plain form `compute` that can be differentiated again.

    Each input is an independent variable here, even if one was computed from another: that path
    belongs to the operations outside.
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
