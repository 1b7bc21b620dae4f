"""Two-layer perceptrons on rows: relu(W_x (x − center) + W_y y + b_1), then W_2 and b_2."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from smpgnn.ops.backend import fused, opaque, plain_gradients

if TYPE_CHECKING:
    from smpgnn.contexts.layout import RowLayout

#: The width up to which a program holds all matrices and the sums of their gradients.
WIDEST = 32


@dataclass(frozen=True, eq=False)
class Maps:
    """The maps of a perceptron: of its one or two inputs, their bias, the second map and its bias.

    Shapes: x [H, C], y [H, D] or None, bias [H], out [N, H], out_bias [N].
    """

    x: Tensor
    y: Tensor | None
    bias: Tensor
    out: Tensor
    out_bias: Tensor


@opaque
def perceptron(
    x: Tensor, y: Tensor | None, maps: Maps, layout: RowLayout, center: Tensor | None = None
) -> Tensor:
    r"""A perceptron of one or two inputs, side by side, on every row.

    .. math:: W_2\, \text{relu}\bigl(W_x (x - \text{center}) + W_y y + b_1\bigr) + b_2

    Args:
        x, y: the rows.
        maps: :math:`W_x`, :math:`W_y`, :math:`b_1`, :math:`W_2` and :math:`b_2`.
        layout: of the rows; where it is padded, rows that no context owns are zero.
        center: taken from every row of x.

    Shapes: x [P, C], y [P, D] or None, result [P, N].
    """
    widest = max(*maps.x.shape, maps.out.size(0), 0 if maps.y is None else maps.y.size(1))
    plain = torch.is_autocast_enabled(x.device.type) or x.dtype in (torch.bfloat16, torch.float16)
    if not fused(x) or plain or widest > WIDEST:
        return perceptron_reference(x, y, maps, layout, center)
    center = x.new_zeros(x.size(1)) if center is None else center.to(x.dtype)
    weights = (maps.x, maps.y, maps.bias, maps.out, maps.out_bias)
    result: Tensor = _Perceptron.apply(x, center, y, *weights, layout)  # type: ignore[no-untyped-call]
    return result


def perceptron_reference(
    x: Tensor, y: Tensor | None, maps: Maps, layout: RowLayout, center: Tensor | None = None
) -> Tensor:
    """The same in plain torch."""
    hidden = F.linear(x if center is None else x - center.to(x.dtype), maps.x, maps.bias)
    if y is not None and maps.y is not None:
        hidden = hidden + F.linear(y, maps.y)
    rows = F.linear(hidden.relu(), maps.out, maps.out_bias)
    return rows if layout.unowned is None else rows.masked_fill(layout.unowned, 0.0)


class _Perceptron(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, center: Tensor, y: Tensor | None, wx: Tensor, wy: Tensor | None,
        b1: Tensor, w2: Tensor, b2: Tensor, layout: RowLayout,
    ) -> Tensor:  # fmt: skip
        from smpgnn.ops.perceptron import kernel

        ctx.layout = layout
        ctx.save_for_backward(x, center, y, wx, wy, b1, w2, b2)
        out: Tensor = kernel.perceptron(
            x.contiguous(), center, None if y is None else y.contiguous(), wx.contiguous(),
            (wx if wy is None else wy).contiguous(), b1, w2.contiguous(), b2, layout.small[0],
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, center, y, wx, wy, b1, w2, _b2 = inputs = ctx.saved_tensors
        layout: RowLayout = ctx.layout
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda x, center, y, *maps: perceptron_reference(x, y, Maps(*maps), layout, center),
                inputs,
                [grad],
            )
            return *again, None
        from smpgnn.ops.perceptron import kernel

        x, y = x.contiguous(), None if y is None else y.contiguous()
        wx, w2 = wx.contiguous(), w2.contiguous()
        wy = wx if wy is None else wy.contiguous()
        ptr = layout.small[0]
        dx, dy, flat = kernel.perceptron_backward(grad, x, center, y, wx, wy, b1, w2, ptr)
        matrices = [wx, w2] if y is None else [wx, wy, w2]
        sizes = [*(matrix.numel() for matrix in matrices), b1.numel(), w2.size(0)]
        *slopes, d_b1, d_b2 = torch.split(flat.to(x.dtype), sizes)
        slopes = [slope.view(m.shape) for slope, m in zip(slopes, matrices, strict=True)]
        d_wy = None if y is None else slopes[1]
        dy = None if y is None else dy
        d_center = -(d_b1 @ wx) if ctx.needs_input_grad[1] else None
        return dx, d_center, dy, slopes[0], d_wy, d_b1, slopes[-1], d_b2, None
