"""The rows of contexts before the first layer: a 1 in the own row, and features."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.ops.backend import fused
from smpgnn.ops.moments import Moments, measure_reference

if TYPE_CHECKING:
    from smpgnn.contexts.layout import RowLayout


def initial_rows(
    x: Tensor | None, dtype: torch.dtype, layout: RowLayout, held: Tensor | None = None
) -> tuple[Tensor, Moments]:
    """Zero rows, except for the own row [1, x_i] of each context; and their moments.

    With `held` the other rows are [0, x_held], or zero where `held` is K. A row whose multiplicity
    is not 1 must then have the same features as the other rows of its context. The content of
    padding rows does not matter.
    Shapes: x [K, F] or None; held [P]; rows [P, 1 + F].
    """
    learned = x is not None and x.requires_grad and torch.is_grad_enabled()
    if learned or not fused(layout.ptr):
        return initial_rows_reference(x, dtype, layout, held)
    from smpgnn.ops.initial import kernel

    given = layout.own.new_empty(layout.own.numel(), 0, dtype=dtype) if x is None else x
    size = layout.owner.numel()
    rows, own, mean = kernel.initial_rows(given, *layout.small, layout.count, size, held)
    return rows, Moments(own, mean)


def initial_rows_reference(
    x: Tensor | None, dtype: torch.dtype, layout: RowLayout, held: Tensor | None = None
) -> tuple[Tensor, Moments]:
    """The plain form of `initial_rows`."""
    ones = torch.ones(layout.own.numel(), 1, dtype=dtype, device=layout.own.device)
    if x is None or held is None:
        own, count = ones if x is None else torch.cat([ones, x], dim=1), layout.count.clamp(min=1)
        rows = own.new_zeros(layout.owner.numel(), own.size(1)).index_copy(0, layout.own, own)
        return rows, Moments(own, own / count.unsqueeze(1))
    marks, _ = initial_rows_reference(None, dtype, layout)
    features = F.pad(x, (0, 0, 0, 1)).index_select(0, held)
    rows, own, mean, *_ = measure_reference(torch.cat([marks, features], dim=1), layout, False)
    return rows, Moments(own, mean)
