"""The set map as one operation: matmul, broadcast term and own-row term."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.ops.affine import add_inner_product, groups, multiply, row_blocks, sums_like
from smpgnn.ops.backend import (
    fused_product,
    plain_gradients,
    transformed,
    working_dtype,
)
from smpgnn.ops.sparse import expand_rows

if TYPE_CHECKING:
    from smpgnn.contexts.layout import RowLayout


def set_linear(
    rows: Tensor,
    matrix: Tensor,
    both: Tensor,
    layout: RowLayout,
    center: Tensor | None = None,
    message: tuple[Tensor, ...] = (),
    folded: bool = False,
    towers: int = 1,
) -> tuple[Tensor, Tensor | None]:
    """û = (rows − center) · matrix + 1 ⊗ b_i + 𝟙_i ⊗ m_i for every context i, both = [b_i, m_i].

    `message` may be W_a, W_b and b_a of `default_core`. If kernels run, the second result then is
    û W_a + b_a and û W_b side by side. These terms have no gradient: `default_core` computes it
    from û. `folded`: matrix, both and center come from `fold`. The matrix has `towers` blocks on
    its diagonal; other entries are 0, and their gradients need not be computed.

    Shapes: rows [P, C], matrix [C, D], both [K, 2 D], center [C], W_a and W_b [D, D], b_a [D],
    results [P, D] and [P, 2 D] or None.
    """
    dtype = working_dtype(rows)
    center = rows.new_zeros(rows.size(1)) if center is None else center
    rows, matrix, both = (value.to(dtype) for value in (rows, matrix, both))
    if transformed():
        return set_linear_reference(rows, matrix, both, center, layout), None
    maps = tuple(value.detach().to(dtype) for value in message)
    result: tuple[Tensor, Tensor | None] = _SetLinear.apply(  # type: ignore[no-untyped-call]
        rows, matrix, both, center, layout, maps, folded, towers
    )
    return result


def set_linear_reference(
    rows: Tensor, matrix: Tensor, both: Tensor, center: Tensor, layout: RowLayout
) -> Tensor:
    """The plain form of `set_linear`."""
    base, mine = both.chunk(2, dim=1)
    product = (rows - center.to(rows.dtype)) @ matrix
    return (product + expand_rows(base, *layout.plain)).index_add(0, layout.own, mine)


class _SetLinear(Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, matrix: Tensor, both: Tensor, center: Tensor, layout: RowLayout,
        message: tuple[Tensor, ...], folded: bool, towers: int,
    ) -> tuple[Tensor, Tensor | None]:  # fmt: skip
        ctx.save_for_backward(rows, matrix, both, center)
        ctx.folded, ctx.groups = folded, groups(matrix, towers)
        ctx.layout, ctx.fused = layout, fused_product(rows, matrix)
        ctx.set_materialize_grads(False)
        if ctx.fused:
            from smpgnn.ops.set_map import kernel

            given = (rows, matrix, both, center, layout.small_owner, *layout.small)
            if not message or not fused_product(rows, message[0]):
                return kernel.set_linear(*given), None
            out, terms = kernel.set_linear_terms(*given, *message)
            ctx.mark_non_differentiable(terms)
            return out, terms
        base, mine = both.chunk(2, dim=1)
        base = base - center.to(matrix.dtype) @ matrix
        out = rows.new_empty(rows.size(0), matrix.size(1))
        for some in row_blocks(out):
            torch.index_select(base, 0, layout.owner[some], out=out[some])
            multiply(rows[some], matrix, out[some], ctx.groups, add=True)
        return out.index_add_(0, layout.own, mine), None

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _terms: None) -> Any:
        rows, matrix, both, center = ctx.saved_tensors
        layout: RowLayout = ctx.layout
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda r, m, b, c: set_linear_reference(r, m, b, c, layout),
                (rows, matrix, both, center),
                [grad],
            )
            return *again, None, None, None, None
        width = matrix.size(1)
        if ctx.fused:
            from smpgnn.ops.set_map import kernel

            dx, slope, d_both = kernel.set_linear_gradients(
                grad, rows, matrix, center, *layout.small
            )
        else:
            dx = torch.empty_like(rows) if ctx.needs_input_grad[0] else None
            slope = sums_like(matrix)
            for some in row_blocks(grad):
                if dx is not None:
                    multiply(grad[some], matrix.t(), dx[some], ctx.groups)
                add_inner_product(slope, rows[some], grad[some], ctx.groups)
            d_both = torch.cat([layout.plain[0](grad), grad.index_select(0, layout.own)], dim=1)
            slope -= torch.outer(center.to(slope.dtype), d_both[:, :width].sum(0))
        d_center = None
        if ctx.needs_input_grad[3] and not ctx.folded:
            total = d_both[:, :width].sum(0)
            d_center = -(total @ matrix.t().to(total.dtype)).to(center.dtype)
        return dx, slope.to(matrix.dtype), d_both.to(both.dtype), d_center, None, None, None, None
