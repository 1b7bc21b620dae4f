"""Sums, maxima and moments of the rows of contexts."""

# no `from __future__ import annotations`: torch reads the types of the operators

from typing import Any, Optional

import torch
from torch import Tensor

from smpgnn.ops.cuda.operator import operator
from smpgnn.ops.kernels import fold as fold_kernels
from smpgnn.ops.kernels import moments, segment
from smpgnn.ops.kernels import pool as pool_kernels
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
    if not squares:
        middle, spread, total = (mean.new_empty(size) for size in (rows.size(1), rows.size(1), 1))
        return own_rows, mean, middle, spread, total  # nobody reads the last three
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


@operator("pool")
def pool(rows: Tensor, ptr: Tensor, own: Tensor, multiplicity: Optional[Tensor]) -> Tensor:  # noqa: UP045
    """Own row, mean and maximum of each context after each layer, side by side."""
    return pool_kernels.pool(rows.contiguous(), ptr, own, multiplicity)


@pool.register_fake
def _(rows: Tensor, ptr: Any, own: Tensor, multiplicity: Any) -> Tensor:
    return rows.new_empty(rows.size(0), own.numel(), 3 * rows.size(2))


@operator("pool_backward")
def pool_backward(
    grad: Tensor,
    rows: Tensor,
    out: Tensor,
    ptr: Tensor,
    own: Tensor,
    multiplicity: Optional[Tensor],  # noqa: UP045
    padded: bool,
) -> Tensor:
    return pool_kernels.pool_backward(
        grad.contiguous(), rows.contiguous(), out, ptr, own, multiplicity, padded
    )


@pool_backward.register_fake
def _(grad: Any, rows: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(rows)
