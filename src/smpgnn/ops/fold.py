"""Batch norm taken into the weights of the set map that follows it (on a GPU)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.ops.backend import opaque
from smpgnn.ops.moments import Moments


@dataclass(frozen=True, eq=False)
class NormState:
    """Weights, running statistics and constants of a batch norm."""

    weight: Tensor
    bias: Tensor
    running_mean: Tensor
    running_var: Tensor
    batches: Tensor
    eps: float
    momentum: float


@opaque
def fold(
    moments: Moments, count: Tensor, norm: NormState, w1: Tensor, w23: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Matrix, terms of the contexts and center for `smpgnn.ops.set_linear` on rows as they are.

    Equal to batch norm with the statistics of these rows and the set map of what comes out; the
    running statistics are brought up to date. Shapes: count [K], w1 [C, D], w23 [C, 2 D], bias [D].
    """
    assert moments.squares is not None
    assert moments.middle is not None
    assert moments.total is not None
    norm.batches.add_(1)
    matrix, both = _Fold.apply(  # type: ignore[no-untyped-call]
        moments.mean, moments.squares, norm.weight, norm.bias, w1, w23, bias, moments.middle,
        moments.total, count, norm,
    )  # fmt: skip
    return matrix, both, moments.middle


def normalized(values: Tensor, moments: Moments, count: Tensor, norm: NormState) -> Tensor:
    """Values [K, C] under the batch norm of `fold`, whose statistics are those of `moments`.

    The running statistics stay as they are: `fold` sees to them.
    """
    assert moments.squares is not None
    assert moments.total is not None
    wide, total = moments.squares.dtype, moments.total
    middle = count.to(wide) @ moments.mean.to(wide) / total
    scale = norm.weight * torch.rsqrt(moments.squares / total + norm.eps)
    return torch.addcmul(norm.bias, values - middle, scale).to(values.dtype)


def fold_reference(
    mean: Tensor,
    squares: Tensor,
    gamma: Tensor,
    beta: Tensor,
    w1: Tensor,
    w23: Tensor,
    bias: Tensor,
    total: Tensor,
    count: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Matrix, terms of the contexts and center from parts."""
    middle = count.to(mean.dtype) @ mean / total
    scale = gamma * torch.rsqrt(squares / total + eps)
    terms = ((mean - middle) * scale + beta) @ w23
    offset = torch.cat([bias + beta @ w1, torch.zeros_like(bias)])
    return scale.unsqueeze(1) * w1, terms + offset, middle


class _Fold(Function):
    @staticmethod
    def forward(
        ctx: Any, mean: Tensor, squares: Tensor, gamma: Tensor, beta: Tensor, w1: Tensor,
        w23: Tensor, bias: Tensor, middle: Tensor, total: Tensor, count: Tensor, norm: NormState,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        from smpgnn.ops import cuda

        matrix, both, scale = cuda.fold(
            mean, middle, squares, total, gamma, beta, w1, w23, bias, norm.running_mean,
            norm.running_var, norm.eps, norm.momentum,
        )  # fmt: skip
        ctx.save_for_backward(
            mean, squares, gamma, beta, w1, w23, bias, middle, total, count, scale
        )
        ctx.eps = norm.eps
        return matrix, both

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, d_matrix: Tensor, d_both: Tensor) -> Any:
        from smpgnn.ops import cuda

        mean, squares, gamma, beta, w1, w23, _, middle, total, count, scale = ctx.saved_tensors
        d_mean, d_squares, d_gamma, d_beta, d_w1, d_w23, d_bias = cuda.fold_backward(
            d_matrix, d_both, mean, middle, squares, total, count, gamma, beta, scale, w1, w23,
            ctx.eps,
        )  # fmt: skip
        like = w1.dtype
        return (
            d_mean, d_squares, d_gamma.to(gamma.dtype), d_beta.to(beta.dtype), d_w1.to(like),
            d_w23.to(like), d_bias.to(like), None, None, None, None,
        )  # fmt: skip
