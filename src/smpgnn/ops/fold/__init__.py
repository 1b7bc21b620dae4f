"""Batch norm merged into the weights of the set map that follows it (on a GPU)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.ops.backend import plain_gradients
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


def fold(
    moments: Moments, count: Tensor, norm: NormState, w1: Tensor, terms: Tensor, bias: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Matrix, terms of the contexts and center with which `set_linear` includes a batch norm.

    `set_linear` of the rows with these equals batch norm followed by the set map. The running
    statistics are updated. `terms` are the matrices for the means of the contexts and, if S = 2,
    those for their own rows. In a backward pass for first derivatives the gradient of the center is
    part of that of the means, so `set_linear` leaves it out.

    Shapes: count [K], w1 [C, D], terms [S, C, 2 D], bias [D].
    """
    assert moments.squares is not None
    assert moments.middle is not None
    assert moments.total is not None
    values = [moments.mean, moments.own][: terms.size(0)]
    matrix, both = _Fold.apply(  # type: ignore[no-untyped-call]
        values[0].unsqueeze(1) if len(values) == 1 else torch.stack(values, dim=1),
        moments.squares, norm.weight, norm.bias, w1, terms, bias, moments.middle, moments.total,
        count, norm,
    )  # fmt: skip
    return matrix, both, moments.middle


def fold_reference(
    values: Tensor,
    squares: Tensor,
    gamma: Tensor,
    beta: Tensor,
    w1: Tensor,
    terms: Tensor,
    bias: Tensor,
    middle: Tensor,
    total: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Matrix and terms of the contexts in plain torch; `values` [K, S, C], the means first."""
    scale = gamma * torch.rsqrt(squares / total + eps)
    both = torch.einsum("ksc,scd->kd", (values - middle) * scale + beta, terms)
    offset = torch.cat([bias + beta @ w1, torch.zeros_like(bias)])
    return scale.unsqueeze(1) * w1, both + offset


class _Fold(Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, squares: Tensor, gamma: Tensor, beta: Tensor, w1: Tensor,
        terms: Tensor, bias: Tensor, middle: Tensor, total: Tensor, count: Tensor, norm: NormState,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        from smpgnn.ops.fold import kernel

        matrix, both, scale = kernel.fold(
            values, middle, squares, total, gamma, beta, w1, terms, bias, norm.running_mean,
            norm.running_var, norm.batches, norm.eps, norm.momentum,
        )  # fmt: skip
        ctx.save_for_backward(
            values, squares, gamma, beta, w1, terms, bias, middle, total, count, scale
        )
        ctx.eps = norm.eps
        return matrix, both

    @staticmethod
    def backward(ctx: Any, d_matrix: Tensor, d_both: Tensor) -> Any:
        *inputs, total, count, scale = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda v, s, g, b, w, t, c, m: fold_reference(
                    v, s, g, b, w, t, c, m, total, ctx.eps
                ),
                inputs,
                [d_matrix, d_both],
            )
            return *again, None, None, None
        from smpgnn.ops.fold import kernel

        values, squares, gamma, beta, w1, terms, _, middle = inputs
        d_values, d_squares, d_gamma, d_beta, d_w1, d_terms, d_bias = kernel.fold_backward(
            d_matrix, d_both, values, middle, squares, total, count, gamma, beta, scale, w1, terms,
            ctx.eps,
        )  # fmt: skip
        like = w1.dtype
        return (
            d_values, d_squares, d_gamma.to(gamma.dtype), d_beta.to(beta.dtype), d_w1.to(like),
            d_terms.to(like), d_bias.to(like), None, None, None, None,
        )  # fmt: skip
