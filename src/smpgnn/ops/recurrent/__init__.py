"""A gated recurrent unit over the features that a node has after each layer, as one operation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from smpgnn.ops.backend import fused_product, opaque, plain_gradients, transformed


@opaque
def gated_state(x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
    r"""The state after the last step of a gated recurrent unit (GRU); zero before the first.

    .. math::
        r_t, z_t &= \sigma(W x_t + b + V h_{t-1} + c) \\
        n_t &= \tanh\bigl(W x_t + b + r_t \odot (V h_{t-1} + c)\bigr) \\
        h_t &= (1 - z_t) \odot n_t + z_t \odot h_{t-1}

    Args:
        x: features of every node in every step.
        weights: those of `nn.GRUCell` in its order: the matrices of input and state, W and V, and
            the biases b and c; each has the rows of r, then those of z, then those of n.

    Shapes: x [L, N, D], weights [3 H, D], [3 H, H], [3 H], [3 H], result [N, H] of the type of x.
    """
    if not fused_product(x, weights[1][: weights[1].size(1)]):
        return gated_state_reference(x, weights)
    result: Tensor = _GatedState.apply(x, *weights)  # type: ignore[no-untyped-call]
    return result


def gated_state_reference(x: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
    """The same step by step, in plain torch."""
    weights = tuple(weight.to(x.dtype) for weight in weights)
    state = x.new_zeros(x.size(1), weights[1].size(1))
    for features in x.unbind(0):
        state = _gru_cell(features, state, weights)
    return state.to(x.dtype)


def _gru_cell(given: Tensor, state: Tensor, weights: tuple[Tensor, ...]) -> Tensor:
    if not transformed():
        return torch.gru_cell(given, state, *weights)
    # the fused cell of a GPU has no forward-mode derivative
    of_input, of_state, bias, state_bias = weights
    from_input = F.linear(given, of_input, bias).chunk(3, dim=1)
    from_state = F.linear(state, of_state, state_bias).chunk(3, dim=1)
    reset, update = ((a + b).sigmoid() for a, b in zip(from_input[:2], from_state[:2], strict=True))
    new = (from_input[2] + reset * from_state[2]).tanh()
    return (1 - update) * new + update * state


class _GatedState(Function):
    """What the input adds to the gates is one product for all steps; so are its gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *weights: Tensor) -> Tensor:
        from smpgnn.ops.recurrent import kernel

        of_input, *others = weights
        given = x.flatten(0, 1) @ of_input.to(x.dtype).t()
        state: Tensor
        state, kept = kernel.gated_state(given.view(*x.shape[:2], of_input.size(0)), *others)
        ctx.save_for_backward(x, kept, *weights)
        return state.to(x.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, kept, *weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            return plain_gradients(
                lambda x, *weights: gated_state_reference(x, weights), (x, *weights), [grad]
            )
        from smpgnn.ops.recurrent import kernel

        of_input, *others = weights
        d_given, flat = kernel.gated_state_backward(grad, kept, others[0])
        d_given, rows = d_given.flatten(0, 1).to(x.dtype), x.flatten(0, 1)
        slopes = zip(flat.split([weight.numel() for weight in others]), others, strict=True)
        return (
            (d_given @ of_input.to(x.dtype)).view_as(x),
            (d_given.t() @ rows).to(of_input.dtype),
            *(slope.view(weight.shape).to(weight.dtype) for slope, weight in slopes),
        )
