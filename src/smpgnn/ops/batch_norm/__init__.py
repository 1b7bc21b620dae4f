"""Batch norm of rows on a GPU; `fold` merges it with the set map instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.ops.backend import plain_gradients
from smpgnn.ops.fold import NormState
from smpgnn.ops.moments import Moments

if TYPE_CHECKING:
    from smpgnn.contexts.layout import RowLayout


def batch_norm(rows: Tensor, layout: RowLayout, moments: Moments, norm: NormState) -> Tensor:
    """Normalise rows by their moments and update the running statistics.

    Padding rows become zero. The gradient includes that through the moments.

    Shape: rows [P, C].
    """
    assert moments.squares is not None
    assert moments.middle is not None
    statistics = moments.middle.detach(), moments.squares.detach(), moments.total
    result: Tensor = _BatchNorm.apply(rows, norm.weight, norm.bias, layout, norm, *statistics)  # type: ignore[no-untyped-call]
    return result


def batch_norm_reference(
    rows: Tensor, weight: Tensor, bias: Tensor, layout: RowLayout, eps: float
) -> Tensor:
    """The plain form of `batch_norm`."""
    times = layout.counted
    counted = rows.new_ones(rows.size(0)) if times is None else times.to(rows.dtype)
    total = counted.sum().clamp(min=1)
    gap = rows - counted @ rows / total
    out = gap * (weight * torch.rsqrt(counted @ gap.square() / total + eps)) + bias
    return out if layout.unowned is None else out.masked_fill(layout.unowned, 0.0)


class _BatchNorm(Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor, layout: RowLayout, norm: NormState,
        *statistics: Tensor,
    ) -> Tensor:  # fmt: skip
        from smpgnn.ops.batch_norm import kernel

        ctx.layout, ctx.eps = layout, norm.eps
        ctx.save_for_backward(rows, weight, bias, *statistics)
        out: Tensor = kernel.batch_norm(
            rows, layout.small[0], weight, bias, *statistics, norm.running_mean, norm.running_var,
            norm.batches, norm.eps, norm.momentum,
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        rows, weight, bias, *statistics = ctx.saved_tensors
        layout: RowLayout = ctx.layout
        nothing = (None,) * (2 + len(statistics))
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda rows, gamma, beta: batch_norm_reference(rows, gamma, beta, layout, ctx.eps),
                (rows, weight, bias),
                [grad],
            )
            return *again, *nothing
        from smpgnn.ops.batch_norm import kernel

        dx, slopes = kernel.batch_norm_backward(
            grad, rows, layout.small[0], layout.multiplicity, weight, *statistics, ctx.eps
        )
        d_bias, d_weight = slopes.to(weight.dtype).unbind(0)
        return dx, d_weight, d_bias, *nothing
