"""What a rival carries from layer to layer beside its node rows: states of edges, of cliques, ….

The frame passes contexts from a layer through norm and residual to the next layer, and knows rows
only. A `CarryingContext` keeps the rest on the way, so rivals need no frame of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from smpgnn.context import LocalContext
from smpgnn.layout import RowLayout


@dataclass(frozen=True, eq=False)
class CarryingContext(LocalContext):
    """A context with more fields, which `with_rows` and `measured` keep as they are."""

    def with_rows(self, rows: Tensor) -> CarryingContext:
        return replace(self, rows=rows, moments=None)

    def measured(self, squares: bool = False) -> CarryingContext:
        known = super().measured(squares)
        return replace(self, rows=known.rows, moments=known.moments)


def normalize(norm: nn.Module, values: Tensor, layout: RowLayout | None = None) -> Tensor:
    """A norm of rows (`smpgnn.layers.norm.row_norm`) on values that are no node rows, [P, C].

    `layout` has them as contexts of one row each; where it is not given, all of them count.
    """
    if layout is None:
        place = torch.arange(values.size(0) + 1, device=values.device)
        layout = RowLayout(ptr=place, owner=place[:-1], own=place[:-1], multiplicity=None)
    context: LocalContext = norm(LocalContext(values, layout))
    return context.rows
