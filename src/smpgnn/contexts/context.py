"""Local contexts: what every node knows of every other node."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor

from smpgnn.contexts.layout import RowLayout
from smpgnn.errors import InputError
from smpgnn.ops import (
    Moments,
    NormState,
    batch_norm,
    expand_rows,
    measure,
    segment_max,
    segment_sum,
)


@dataclass(frozen=True, eq=False)
class LocalContext:
    """K local contexts: U_i[j, :] are the `rows` of context i, in the order of its identifiers.

    `moments` are what is known of the rows already; see `measured`. Shape: rows [P, C].
    """

    rows: Tensor
    layout: RowLayout
    moments: Moments | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.rows.dim() != 2 or self.rows.size(0) != self.layout.owner.numel():
            raise InputError(
                f"rows must have shape [{self.layout.owner.numel()}, channels], "
                f"not {list(self.rows.shape)}."
            )

    @property
    def num_channels(self) -> int:
        return self.rows.size(1)

    def with_rows(self, rows: Tensor) -> LocalContext:
        """The same contexts with other content."""
        return LocalContext(rows, self.layout)

    def measured(self, squares: bool = False) -> LocalContext:
        """The same contexts, their own rows, means and (`squares`) spread measured in one pass."""
        if self.moments is not None and (self.moments.squares is not None or not squares):
            return self
        rows, moments = measure(self.rows, self.layout, squares)
        return LocalContext(rows, self.layout, moments=moments)

    def own(self) -> Tensor:
        """U_i[i, :], what each node knows of itself, [K, C]."""
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
        return self.sum() / self.layout.count.clamp(min=1).to(self.rows.dtype).unsqueeze(1)

    def max(self) -> Tensor:
        """The largest entry of each channel of U_i, [K, C]."""
        layout = self.layout
        return segment_max(self.rows, layout.ptr, layout.owner, layout.multiplicity, layout.padded)

    def expand(self, values: Tensor) -> Tensor:
        """Give each row the value of its context: [K, C] to [P, C] (1 ⊗ value)."""
        return expand_rows(values, *self.layout.plain)

    def written(self) -> Tensor:
        """The rows, those that no context owns set to zero, [P, C]."""
        unowned = self.layout.unowned
        return self.rows if unowned is None else self.rows.masked_fill(unowned, 0.0)

    def add_own(self, values: Tensor) -> LocalContext:
        """Add to the row in which each node describes itself: U_i + 𝟙_i ⊗ values_i."""
        return self.with_rows(self.rows.index_add(0, self.layout.own, values))


class ScaledContext(LocalContext):
    """Contexts whose channels are still to be scaled: (U_i − center) ⊙ scale + shift.

    A linear map that follows takes all three into its own pass, and the rows need not be written
    anew; `rows` does it for all others, by a kernel where there is one.

    Args:
        raw: the contexts as they are.
        affine: makes center, scale and shift, [C] each; called at most once.
        norm: the batch norm whose scale and shift these are, where it is in training and a fused
            set map, or `rows`, may do its work in place of `affine`; one of them, once.
    """

    raw: LocalContext
    norm: NormState | None

    def __init__(
        self,
        raw: LocalContext,
        affine: Callable[[], tuple[Tensor, Tensor, Tensor]],
        norm: NormState | None = None,
    ) -> None:
        self.__dict__.update(raw=raw, _affine=affine, norm=norm, layout=raw.layout, moments=None)

    @cached_property
    def affine(self) -> tuple[Tensor, Tensor, Tensor]:
        made: tuple[Tensor, Tensor, Tensor] = self.__dict__["_affine"]()
        return made

    def _scaled(self, values: Tensor) -> Tensor:
        center, scale, shift = self.affine
        return torch.addcmul(shift, values - center, scale).to(values.dtype)

    @cached_property
    def rows(self) -> Tensor:
        if self.norm is None or "affine" in self.__dict__:
            return self._scaled(self.raw.rows)
        assert self.raw.moments is not None
        return batch_norm(self.raw.rows, self.layout, self.raw.moments, self.norm)

    @property
    def _by_norm(self) -> bool:
        """Whether the norm has done its work already, and made no center, scale and shift."""
        return "rows" in self.__dict__ and "affine" not in self.__dict__

    def own(self) -> Tensor:
        return super().own() if self._by_norm else self._scaled(self.raw.own())

    def mean(self) -> Tensor:
        return super().mean() if self._by_norm else self._scaled(self.raw.mean())

    def written(self) -> Tensor:
        rows = self.rows
        return rows if self._by_norm else super().written()
