"""Local contexts: what each node knows about every other node."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from smpgnn.contexts.layout import RowLayout
from smpgnn.errors import InputError
from smpgnn.ops import Moments, expand_rows, measure, segment_max, segment_sum
from smpgnn.tracing import traced


@dataclass(frozen=True, eq=False)
class LocalContext:
    """K local contexts in one tensor: the rows U_i[j, :] of context i, one context after another.

    `moments` contains own rows, means and squares once `measured` has computed them.
    Shape: rows [P, C].
    """

    rows: Tensor
    layout: RowLayout
    moments: Moments | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if traced():
            return
        if self.rows.dim() != 2 or self.rows.size(0) != self.layout.num_rows:
            raise InputError(
                f"rows must have shape [{self.layout.num_rows}, channels], "
                f"not {list(self.rows.shape)}."
            )

    @property
    def num_channels(self) -> int:
        return self.rows.size(1)

    def with_rows(self, rows: Tensor) -> LocalContext:
        """Contexts with the same layout and other rows."""
        return LocalContext(rows, self.layout)

    def measured(self, squares: bool = False) -> LocalContext:
        """Compute own rows, means and, with `squares`, squares, in one pass over the rows."""
        if self.moments is not None and (self.moments.squares is not None or not squares):
            return self
        rows, moments = measure(self.rows, self.layout, squares)
        return LocalContext(rows, self.layout, moments=moments)

    def own(self) -> Tensor:
        """U_i[i, :], the own rows, [K, C]."""
        if self.moments is not None:
            return self.moments.own
        return self.rows.index_select(0, self.layout.own)

    def sum(self) -> Tensor:
        """1ᵀ U_i, [K, C]."""
        return segment_sum(self.rows, *self.layout.weighted)

    def mean(self) -> Tensor:
        """1ᵀ U_i / n, [K, C]."""
        if self.moments is not None:
            return self.moments.mean
        count: Tensor = self.layout.count
        return self.sum() / count.clamp(min=1).to(self.rows.dtype).unsqueeze(1)

    def max(self) -> Tensor:
        """The maximum of each channel of U_i, [K, C]."""
        layout = self.layout
        return segment_max(self.rows, layout.ptr, layout.owner, layout.multiplicity, layout.padded)

    def expand(self, values: Tensor) -> Tensor:
        """Copy the value of each context to its rows: [K, C] to [P, C] (1 ⊗ value)."""
        return expand_rows(values, *self.layout.plain)

    def add_own(self, values: Tensor) -> LocalContext:
        """Add values to the own rows: U_i + 𝟙_i ⊗ values_i."""
        return self.with_rows(self.rows.index_add(0, self.layout.own, values))
