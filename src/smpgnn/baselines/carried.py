"""Contexts that carry more than node rows from layer to layer: states of edges, of cliques, ….

The backbone applies norm and residual to the rows only. A `CarryingContext` passes its other fields
through unchanged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.layout import RowLayout


@dataclass(frozen=True, eq=False)
class CarryingContext(LocalContext):
    """A context with more fields, which `with_rows` and `measured` keep."""

    def with_rows(self, rows: Tensor) -> CarryingContext:
        return replace(self, rows=rows, moments=None)

    def measured(self, squares: bool = False) -> CarryingContext:
        known = super().measured(squares)
        return replace(self, rows=known.rows, moments=known.moments)


def normalize(norm: nn.Module, values: Tensor, layout: RowLayout) -> Tensor:
    """Apply a norm of rows (`smpgnn.layers.norm.row_norm`) to other values, [P, C].

    `layout` describes them as contexts of one row each. Padding becomes zero.
    """
    context: LocalContext = norm(LocalContext(values, layout))
    unowned = layout.unowned
    return context.rows if unowned is None else context.rows.masked_fill(unowned, 0.0)
