"""Own rows, means and squares of contexts in one pass, for set map, norm and pooling.

The backward pass also adds their gradients to that of the rows in one pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.ops.affine import row_blocks
from smpgnn.ops.backend import fused, plain_gradients, transformed
from smpgnn.ops.sparse import segment_sum

if TYPE_CHECKING:
    from smpgnn.contexts.layout import RowLayout


@dataclass(frozen=True, eq=False)
class Moments:
    """The own row and the mean of each context, and the centred squares of all rows.

    Shapes: own and mean [K, C]; squares [C], Σ (row − mean of all rows)², or None; with squares
    also `middle` [C], the mean of all rows, and their number `total` [1], which has no gradient.
    """

    own: Tensor
    mean: Tensor
    squares: Tensor | None = None
    middle: Tensor | None = None
    total: Tensor | None = None


def measure(rows: Tensor, layout: RowLayout, squares: bool) -> tuple[Tensor, Moments]:
    """The moments of rows [P, C], and the rows to use instead of the given ones."""
    if transformed():
        out, *found = measure_reference(rows, layout, squares)
        total = layout.total(found[2].dtype).clamp(min=1).unsqueeze(0)
        return out, Moments(*found[:2], *((*found[2:], total) if squares else ()))
    out, own, mean, spread, middle, total = _Measure.apply(rows, layout, squares)  # type: ignore[no-untyped-call]
    return out, Moments(own, mean, *((spread, middle, total) if squares else ()))


def measure_reference(
    rows: Tensor, layout: RowLayout, squares: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The plain form of `measure`: rows, own rows, means, centred squares, mean of all rows."""
    count = layout.count
    total = segment_sum(rows, *layout.weighted)
    mean = total / count.clamp(min=1).to(rows.dtype).unsqueeze(1)
    own = rows.index_select(0, layout.own)
    wide = rows.to(_wide(rows))
    middle = total.to(wide.dtype).sum(0) / count.sum().clamp(min=1)
    if not squares:
        return rows, own, mean, torch.zeros_like(middle), middle
    gap = (wide - middle).square()
    if layout.counted is not None:
        gap = gap * layout.counted.to(gap.dtype).unsqueeze(1)
    return rows, own, mean, gap.sum(0), middle


def _wide(rows: Tensor) -> torch.dtype:
    """The dtype of statistics over all rows."""
    return torch.float64 if rows.dtype == torch.float64 else torch.float32


class _Measure(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, layout: RowLayout, squares: bool) -> tuple[Tensor, ...]:
        ctx.layout, ctx.squares = layout, squares
        ctx.set_materialize_grads(False)
        if fused(rows):
            from smpgnn.ops.moments import kernel

            own, mean, middle, spread, total = kernel.measure(
                rows, *layout.small, layout.count, layout.multiplicity, squares
            )
        else:
            wide = _wide(rows)
            own = rows.index_select(0, layout.own)
            mean = layout.weighted[0](rows) / layout.count.clamp(min=1).to(rows.dtype).unsqueeze(1)
            total = layout.count.sum().clamp(min=1).to(wide).unsqueeze(0)
            middle = spread = torch.zeros(rows.size(1), dtype=wide, device=rows.device)
            if squares:
                middle = (layout.count.to(wide) @ mean.to(wide)) / total
                spread = _centred_squares(rows, middle, layout.counted)
        ctx.save_for_backward(rows, middle)
        ctx.mark_non_differentiable(total)
        return rows.view_as(rows), own, mean.to(rows.dtype), spread, middle, total

    @staticmethod
    def backward(
        ctx: Any, grad: Any, d_own: Any, d_mean: Any, d_squares: Any, d_middle: Any, _total: Any
    ) -> Any:
        rows, middle = ctx.saved_tensors
        layout: RowLayout = ctx.layout
        d_squares = d_squares if ctx.squares else None
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda given: measure_reference(given, layout, ctx.squares),
                (rows,),
                [grad, d_own, d_mean, d_squares, d_middle],
            )
            return *again, None, None
        if d_middle is not None:
            part = (layout.counts(middle.dtype) / layout.total(middle.dtype).clamp(min=1)).outer(
                d_middle
            )
            d_mean = (part if d_mean is None else part + d_mean).to(rows.dtype)
        if d_own is None and d_mean is None and d_squares is None:
            return grad, None, None
        if fused(rows):
            from smpgnn.ops.moments import kernel

            out: Tensor = kernel.moments_backward(
                grad, rows, d_own, d_mean, d_squares, middle, *layout.small, layout.count,
                layout.multiplicity, layout.padded,
            )  # fmt: skip
            return out, None, None
        share = rows.new_zeros(layout.own.numel(), rows.size(1)) if d_mean is None else d_mean
        share = share / layout.count.clamp(min=1).to(share.dtype).unsqueeze(1)
        if d_squares is not None:
            share = share - (2 * d_squares * middle).to(share.dtype)
        out, counted = torch.empty_like(rows), layout.counted
        for some in row_blocks(rows):
            part = out[some]
            torch.index_select(share, 0, layout.owner[some], out=part)
            if d_squares is not None:
                part.addcmul_(rows[some], (2 * d_squares).to(rows.dtype))
            if counted is not None:
                part.mul_(counted[some].to(out.dtype).unsqueeze(1))
            if grad is not None:
                part += grad[some]
        if d_own is not None:
            out.index_add_(0, layout.own, d_own.to(out.dtype))
        return out, None, None


def _centred_squares(rows: Tensor, middle: Tensor, multiplicity: Tensor | None) -> Tensor:
    total = torch.zeros_like(middle)
    for some in row_blocks(rows):
        gap = (rows[some] - middle.to(rows.dtype)).to(middle.dtype).square_()
        total += gap.sum(0) if multiplicity is None else multiplicity[some].to(gap.dtype) @ gap
    return total
