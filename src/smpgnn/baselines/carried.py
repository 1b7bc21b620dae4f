"""What a baseline carries from layer to layer beside its node rows: states of edges, of cliques, ….

The frame passes contexts from a layer through norm and residual to the next layer, and knows rows
only. A `CarryingContext` keeps the rest on the way, so baselines need no frame of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.layout import RowLayout


@dataclass(frozen=True, eq=False)
class CarryingContext(LocalContext):
    """A context with more fields, which `with_rows` and `measured` keep as they are."""

    def with_rows(self, rows: Tensor) -> CarryingContext:
        return replace(self, rows=rows, moments=None)

    def measured(self, squares: bool = False) -> CarryingContext:
        known = super().measured(squares)
        return replace(self, rows=known.rows, moments=known.moments)


def normalize(norm: nn.Module, values: Tensor, layout: RowLayout) -> Tensor:
    """A norm of rows (`smpgnn.layers.norm.row_norm`) on values that are no node rows, [P, C].

    `layout` has them as contexts of one row each. Those of padding become zero.
    """
    context: LocalContext = norm(LocalContext(values, layout))
    unowned = layout.unowned
    return context.rows if unowned is None else context.rows.masked_fill(unowned, 0.0)
