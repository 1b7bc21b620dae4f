"""Own row, mean and maximum of the contexts after every layer, in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.ops.backend import fused, plain_gradients
from smpgnn.ops.moments import measure
from smpgnn.ops.sparse import segment_max

if TYPE_CHECKING:
    from smpgnn.contexts.layout import RowLayout


def pool_contexts(rows: Tensor, layout: RowLayout) -> Tensor:
    """Own row, mean and maximum of each context, side by side, after each of L layers.

    Shapes: rows [L, P, C], result [L, K, 3 C].
    """
    if not fused(rows):
        return pool_contexts_reference(rows, layout)
    result: Tensor = _Pool.apply(rows, layout)  # type: ignore[no-untyped-call]
    return result


def pool_contexts_reference(rows: Tensor, layout: RowLayout) -> Tensor:
    """The plain form of `pool_contexts`, layer by layer."""
    return torch.stack([_pooled(part, layout) for part in rows.unbind(0)])


def _pooled(rows: Tensor, layout: RowLayout) -> Tensor:
    rows, moments = measure(rows, layout, squares=False)
    top = segment_max(rows, layout.ptr, layout.owner, layout.multiplicity, layout.padded)
    return torch.cat([moments.own, moments.mean, top], dim=1)


class _Pool(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, layout: RowLayout) -> Tensor:
        from smpgnn.ops.pool import kernel

        ctx.layout = layout
        out: Tensor = kernel.pool(rows, *layout.small, layout.multiplicity)
        ctx.save_for_backward(rows, out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        rows, out = ctx.saved_tensors
        layout: RowLayout = ctx.layout
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda rows: pool_contexts_reference(rows, layout), [rows], [grad]
            )
            return *again, None
        from smpgnn.ops.pool import kernel

        small, counted = layout.small, layout.multiplicity
        return kernel.pool_backward(grad, rows, out, *small, counted, layout.padded), None
