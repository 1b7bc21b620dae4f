"""The fast layer after its set map, as one operation that keeps only its input."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.ops.affine import add_inner_product, groups, multiply, sums_like
from smpgnn.ops.backend import (
    fused_product,
    plain_gradients,
    transformed,
    working_dtype,
)
from smpgnn.ops.neighbor import neighbor_sum
from smpgnn.ops.routes import Wiring


def fast_core(u: Tensor, w4: Tensor, w5: Tensor, wiring: Wiring, towers: int = 1) -> Tensor:
    """u + s + (u W4) ⊙ (s W5), with s the sum over neighbours divided by d_avg.

    W4 and W5 have `towers` blocks on their diagonals; other entries are 0, and their gradients
    need not be computed.

    Shapes: u [P, C], w4 and w5 [C, C], result [P, C].
    """
    u, w4, w5 = (value.to(working_dtype(u)) for value in (u, w4, w5))
    if transformed():
        return fast_core_reference(u, w4, w5, wiring)
    result: Tensor = _FastCore.apply(u, w4, w5, wiring, towers)  # type: ignore[no-untyped-call]
    return result


def fast_core_reference(u: Tensor, w4: Tensor, w5: Tensor, wiring: Wiring) -> Tensor:
    s = neighbor_sum(u, wiring.lift)
    return torch.addcmul(u + s, u @ w4, s @ w5)


class _FastCore(Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, w4: Tensor, w5: Tensor, wiring: Wiring, towers: int) -> Tensor:
        ctx.wiring, ctx.fused, ctx.groups = wiring, fused_product(u, w4), groups(w4, towers)
        if ctx.fused:
            from smpgnn.ops.fast_core import kernel

            routes = wiring.routes
            out: Tensor
            out, s = kernel.fast_core(u, w4, w5, routes.tensors(), routes.padded)
        else:
            out, s = torch.empty_like(u), None
            for block in wiring.lift.blocks(u.size(1)):
                x, new = u[block.rows], out[block.rows]
                sums = block.lift.receive(x)
                q = multiply(sums, w5, torch.empty_like(x), ctx.groups)
                multiply(x, w4, new, ctx.groups).mul_(q).add_(sums).add_(x)
        ctx.save_for_backward(u, w4, w5, s)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        u, w4, w5, s = ctx.saved_tensors
        wiring: Wiring = ctx.wiring
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda u, w4, w5: fast_core_reference(u, w4, w5, wiring), (u, w4, w5), [grad]
            )
            return *again, None, None
        if ctx.fused:
            from smpgnn.ops.fast_core import kernel

            routes, owner = wiring.routes, wiring.layout.small_owner
            du, slopes = kernel.fast_core_backward(
                grad, u, s, w4, w5, routes.tensors(), owner, routes.padded
            )
            return du, *slopes.to(w4.dtype).unbind(0), None, None
        du, d_w4, d_w5 = torch.empty_like(u), sums_like(w4), sums_like(w5)
        for block in wiring.lift.blocks(u.size(1)):
            x, g, dx = u[block.rows], grad[block.rows], du[block.rows]
            sums = block.lift.receive(x)
            at_p = multiply(sums, w5, torch.empty_like(x), ctx.groups).mul_(g)
            at_q = multiply(x, w4, torch.empty_like(x), ctx.groups).mul_(g)
            add_inner_product(d_w4, x, at_p, ctx.groups)
            add_inner_product(d_w5, sums, at_q, ctx.groups)
            d_sums = multiply(at_q, w5.t(), dx, ctx.groups).add_(g)
            torch.add(block.lift.send(d_sums), g, out=dx)
            multiply(at_p, w4.t(), dx, ctx.groups, add=True)
        return du, d_w4.to(w4.dtype), d_w5.to(w5.dtype), None, None
