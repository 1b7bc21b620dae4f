"""Sums, maxima and moments of the rows of contexts; Set2Set over the nodes of graphs."""

# no `from __future__ import annotations`: torch reads the types of the operators

from typing import Any, Optional

import torch
from torch import Tensor

from smpgnn.ops.cuda.operator import operator
from smpgnn.ops.kernels import fold as fold_kernels
from smpgnn.ops.kernels import moments, segment
from smpgnn.ops.kernels import set_to_set as set_to_set_kernels
from smpgnn.ops.kernels.tiles import accumulator


@operator("segment_sum")
def segment_sum(rows: Tensor, ptr: Tensor, index: Optional[Tensor]) -> Tensor:  # noqa: UP045
    return segment.segment_sum(rows.contiguous(), ptr, index)


@segment_sum.register_fake
def _(rows: Tensor, ptr: Tensor, index: Any) -> Tensor:
    return rows.new_empty(ptr.numel() - 1, rows.size(1))


@operator("segment_max")
def segment_max(rows: Tensor, ptr: Tensor, counted: Optional[Tensor]) -> Tensor:  # noqa: UP045
    return segment.segment_max(rows.contiguous(), ptr, counted)


@segment_max.register_fake
def _(rows: Tensor, ptr: Tensor, counted: Any) -> Tensor:
    return rows.new_empty(ptr.numel() - 1, rows.size(1))


@operator("segment_max_backward")
def segment_max_backward(
    grad: Tensor,
    rows: Tensor,
    top: Tensor,
    ptr: Tensor,
    counted: Optional[Tensor],  # noqa: UP045
    padded: bool,
) -> Tensor:
    return segment.segment_max_backward(
        grad.contiguous(), rows.contiguous(), top, ptr, counted, padded
    )


@segment_max_backward.register_fake
def _(grad: Tensor, rows: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(rows)


@operator("moments")
def measure(
    rows: Tensor, ptr: Tensor, own: Tensor, count: Tensor, multiplicity: Optional[Tensor],  # noqa: UP045
    squares: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Own row and mean of each context; mean, centred squares and number of all rows."""
    own_rows, mean, within = moments.moments(rows.contiguous(), ptr, own, multiplicity)
    if not squares:  # nobody reads what is left empty
        middle, spread = (mean.new_empty(rows.size(1)) for _ in range(2))
        return own_rows, mean, middle, spread, mean.new_empty(1)
    middle, spread, total = fold_kernels.statistics(mean, within, count)
    return own_rows, mean, middle, spread, total


@measure.register_fake
def _(rows: Tensor, ptr: Any, own: Tensor, count: Any, multiplicity: Any, squares: Any) -> Any:
    small = rows.new_empty(own.numel(), rows.size(1))
    vector = rows.new_empty(rows.size(1), dtype=accumulator(rows))
    return small, small.to(vector.dtype), vector, vector.clone(), vector.new_empty(1)


@operator("moments_backward")
def measure_backward(
    grad: Optional[Tensor],  # noqa: UP045
    rows: Tensor,
    d_own: Optional[Tensor],  # noqa: UP045
    d_mean: Optional[Tensor],  # noqa: UP045
    d_squares: Optional[Tensor],  # noqa: UP045
    middle: Tensor,
    ptr: Tensor,
    own: Tensor,
    count: Tensor,
    multiplicity: Optional[Tensor],  # noqa: UP045
    padded: bool,
) -> Tensor:
    return moments.moments_backward(
        *(None if part is None else part.contiguous() for part in (grad, rows, d_own, d_mean)),
        d_squares, middle, ptr, own, count, multiplicity, padded,
    )  # fmt: skip


@measure_backward.register_fake
def _(grad: Any, rows: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(rows)


@operator("set_to_set")
def set_to_set(
    x: Tensor, weights: list[Tensor], steps: int, ptr: Tensor, counted: Optional[Tensor]  # noqa: UP045
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Hidden and read after the last step, and what is kept of all steps."""
    weights = [weight.contiguous() for weight in weights]
    return set_to_set_kernels.set_to_set(x.contiguous(), weights, steps, ptr, counted)


@set_to_set.register_fake
def _(x: Tensor, weights: Any, steps: int, ptr: Tensor, counted: Any) -> tuple[Tensor, Tensor]:
    count, channels = ptr.numel() - 1, x.size(1)
    kept = x.new_empty(steps + 1, count, 8, channels, dtype=accumulator(x))
    return x.new_empty(count, 2 * channels), kept


@operator("set_to_set_backward")
def set_to_set_backward(
    grad: Tensor,
    x: Tensor,
    weights: list[Tensor],
    kept: Tensor,
    ptr: Tensor,
    counted: Optional[Tensor],  # noqa: UP045
) -> tuple[Tensor, Tensor]:
    """The gradient of x, and those of the weights one after another."""
    weights = [weight.contiguous() for weight in weights]
    return set_to_set_kernels.set_to_set_backward(
        grad.contiguous(), x.contiguous(), weights, kept, ptr, counted
    )


@set_to_set_backward.register_fake
def _(grad: Tensor, x: Tensor, weights: list[Tensor], kept: Tensor, *_: Any) -> Any:
    return torch.empty_like(x), kept.new_empty(sum(weight.numel() for weight in weights))
