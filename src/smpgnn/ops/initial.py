"""The rows of contexts before the first layer: all zero but those of the nodes themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smpgnn.ops.backend import fused, opaque
from smpgnn.ops.moments import Moments

if TYPE_CHECKING:
    from smpgnn.layout import RowLayout


@opaque
def initial_rows(x: Tensor | None, dtype: torch.dtype, layout: RowLayout) -> tuple[Tensor, Moments]:
    """Zeros, except for the own row of each context, [1, x_i]; and the moments of that.

    Rows that no context owns are of no account. Shapes: x [K, F] or None; rows [P, 1 + F].
    """
    learned = x is not None and x.requires_grad and torch.is_grad_enabled()
    if learned or not fused(layout.ptr):
        return initial_rows_reference(x, dtype, layout)
    from smpgnn.ops import cuda

    given = layout.own.new_empty(layout.own.numel(), 0, dtype=dtype) if x is None else x
    rows, own, mean = cuda.initial_rows(given, *layout.small, layout.count, layout.owner.numel())
    return rows, Moments(own, mean)


def initial_rows_reference(
    x: Tensor | None, dtype: torch.dtype, layout: RowLayout
) -> tuple[Tensor, Moments]:
    """The same from parts."""
    ones = torch.ones(layout.own.numel(), 1, dtype=dtype, device=layout.own.device)
    own = ones if x is None else torch.cat([ones, x], dim=1)
    zeros, count = own.new_zeros(layout.owner.numel(), own.size(1)), layout.count.clamp(min=1)
    return zeros.index_copy(0, layout.own, own), Moments(own, own / count.unsqueeze(1))
