"""The default layer after its set map, as one operation that keeps few tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.ops.backend import (
    fused_product,
    plain_gradients,
    transformed,
    working_dtype,
)
from smpgnn.ops.default_core import blocks
from smpgnn.ops.neighbor import neighbor_sum, relu_neighbor_sum
from smpgnn.ops.routes import Wiring
from smpgnn.ops.sparse import expand_rows


@dataclass(frozen=True, eq=False)
class DefaultWeights:
    """The maps of the default layer.

    :math:`W_r = W_o W_m` composes the second map of the message with the update's map of the
    messages, and :math:`b_r = b_o W_m` is the contribution of the bias of each message.

    Shapes: matrices [C, C], biases [C].
    """

    receiver: Tensor
    sender: Tensor
    own: Tensor
    relus: Tensor
    messages: Tensor
    out: Tensor
    receiver_bias: Tensor
    own_bias: Tensor
    relus_bias: Tensor
    out_bias: Tensor


def default_core(
    u: Tensor,
    edge: Tensor | None,
    weights: DefaultWeights,
    wiring: Wiring,
    *,
    message_residual: bool,
    update_residual: bool,
    terms: Tensor | None = None,
    towers: int = 1,
) -> Tensor:
    r"""Messages and update of the default layer, from the output of its set map.

    .. math::
        r_i &= \sum_k \text{relu}(u_i W_a + b_a + u_k W_b + e_{ik}) / d_\text{avg} \\
        u_i' &= \text{relu}\bigl(u_i W_u + b_u + r_i W_r + \tfrac{\deg_i}{d_\text{avg}} b_r
                + [\textstyle\sum_k u_k W_m / d_\text{avg}]\bigr) W_v + b_v + [u_i]

    The terms in brackets belong to `message_residual` and `update_residual`. `terms` contains
    :math:`u W_a + b_a` and :math:`u W_b` side by side if they are known already. :math:`W_a` and
    :math:`W_b` have `towers` blocks on their diagonals; other entries are 0, and their gradients
    need not be computed.

    Shapes: u [P, C], edge [E, C] or None, terms [P, 2 C], result [P, C].
    """
    dtype = working_dtype(u)
    cast = [getattr(weights, name).to(dtype) for name in DefaultWeights.__dataclass_fields__]
    edge = None if edge is None else edge.to(dtype)
    if transformed():
        return _reference(u.to(dtype), edge, wiring, message_residual, update_residual, *cast)
    result: Tensor = _DefaultCore.apply(  # type: ignore[no-untyped-call]
        u.to(dtype), edge, terms, wiring, message_residual, update_residual, towers, *cast
    )
    return result


def default_core_reference(
    u: Tensor,
    edge: Tensor | None,
    weights: DefaultWeights,
    wiring: Wiring,
    *,
    message_residual: bool,
    update_residual: bool,
) -> Tensor:
    """The plain form of `default_core`."""
    w, lift = weights, wiring.lift
    relus = relu_neighbor_sum(u @ w.receiver + w.receiver_bias, u @ w.sender, edge, lift)
    total = u @ w.own + w.own_bias + relus @ w.relus
    arrived = wiring.routes.arrived.to(u.dtype).unsqueeze(1)
    total = total + expand_rows(arrived * w.relus_bias, *wiring.layout.plain)
    if message_residual:
        total = total + neighbor_sum(u, lift) @ w.messages
    new = total.relu() @ w.out + w.out_bias
    return new + u if update_residual else new


def _reference(
    u: Tensor, edge: Tensor | None, wiring: Wiring, passes: bool, adds: bool, *weights: Tensor
) -> Tensor:
    return default_core_reference(
        u, edge, DefaultWeights(*weights), wiring, message_residual=passes, update_residual=adds
    )


class _DefaultCore(Function):
    @staticmethod
    def forward(
        ctx: Any, u: Tensor, edge: Tensor | None, ab: Tensor | None, wiring: Wiring, passes: bool,
        adds: bool, towers: int, *weights: Tensor,
    ) -> Tensor:  # fmt: skip
        ctx.wiring, ctx.passes, ctx.adds, ctx.towers = wiring, passes, adds, towers
        wa, wb, wu, wr, wm, wv, ba, bu, br, bv = weights
        if fused_product(u, wu):
            from smpgnn.ops.default_core import kernel

            if ab is None:
                bias = torch.cat([ba, torch.zeros_like(ba)])
                ab = torch.addmm(bias, u, torch.cat([wa, wb], 1))
            routes = wiring.routes
            out: Tensor
            out, relus, hidden = kernel.default_core(
                u, ab, edge, [wu, wr, wm, wv], [bu, br, bv], routes.arrived, routes.tensors(),
                wiring.layout.small_owner, passes, adds, routes.padded,
            )  # fmt: skip
            ctx.save_for_backward(u, edge, ab, *weights, hidden, relus)
            return out
        new, hidden = blocks.forward(
            u, edge, weights, wiring, message_residual=passes, update_residual=adds,
            towers=towers, keep=any(ctx.needs_input_grad),
        )  # fmt: skip
        ctx.save_for_backward(u, edge, None, *weights, hidden)
        return new

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        u, edge, ab, wa, wb, wu, wr, wm, wv, ba, bu, br, bv, *rest = ctx.saved_tensors
        wiring: Wiring = ctx.wiring
        if torch.is_grad_enabled():
            du, d_edge, *slopes = plain_gradients(
                lambda u, edge, *weights: _reference(
                    u, edge, wiring, ctx.passes, ctx.adds, *weights
                ),
                [u, edge, wa, wb, wu, wr, wm, wv, ba, bu, br, bv],
                [grad],
            )
            return du, d_edge, None, None, None, None, None, *slopes
        if ab is not None:
            from smpgnn.ops.default_core import kernel

            routes = wiring.routes
            hidden, relus = rest
            terms = [wa, wb, wm, wu] if ctx.passes else [wa, wb, wu]
            du, *parts = kernel.default_core_backward(
                grad, u, ab, relus, hidden, edge, terms, wr, wv, routes.arrived, routes.tensors(),
                wiring.layout.small_owner, ctx.adds, routes.padded,
            )  # fmt: skip
            d_edge, first, others = (part.to(u.dtype) for part in parts)
            slopes, d_ba = first[:-1].chunk(len(terms)), first[-1]
            (d_wr, d_wv), (d_br, d_bv, d_bu) = others[:-3].chunk(2), others[-3:]
            d_wa, d_wb, d_wu, d_wm = slopes[0], slopes[1], slopes[-1], slopes[2]
            matrices = (d_wa, d_wb, d_wu, d_wr, d_wm if ctx.passes else None, d_wv)
            biases = (d_ba, d_bu, d_br, d_bv)
            edges = None if edge is None else d_edge
            return du, edges, None, None, None, None, None, *matrices, *biases
        (hidden,) = rest
        du, d_edge, found = blocks.backward(
            grad, u, hidden, edge, (wa, wb, wu, wr, wm, wv, ba, bu, br, bv), wiring,
            message_residual=ctx.passes, update_residual=ctx.adds, towers=ctx.towers,
        )  # fmt: skip
        return du, d_edge, None, None, None, None, None, *(slope.to(u.dtype) for slope in found)
