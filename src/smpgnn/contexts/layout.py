"""How the rows of contexts lie in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from smpgnn.contexts.caching import cached_property, outside_modes
from smpgnn.ops.sparse import SparseSum, segment_matrices


@dataclass(frozen=True, eq=False)
class RowLayout:
    """How a set of K contexts lies in one tensor of P rows.

    Context k has the rows ptr[k]:ptr[k+1]; own[k] is the row in which its node describes itself;
    a row counts multiplicity times in sums, means and statistics. Where it is `padded` there are
    rows past ptr[K] that belong to no context: their values are finite and reach nobody.

    Shapes: ptr [K + 1], owner [P], own [K], multiplicity [P] or None (all ones).
    """

    ptr: Tensor
    owner: Tensor
    own: Tensor
    multiplicity: Tensor | None
    padded: bool = False
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    @cached_property
    def count(self) -> Tensor:
        """The number of rows of each context, multiplicities counted, [K]: the paper's n."""
        if self.multiplicity is None:
            return self.ptr.diff()
        total = torch.zeros_like(self.own)
        return total.index_add_(0, self.owner, self.multiplicity)

    @cached_property
    def counted(self) -> Tensor | None:
        """How often each row counts, [P], zero for rows of no context; None: all once."""
        if not self.padded:
            return self.multiplicity
        return (torch.arange(self.owner.numel(), device=self.ptr.device) < self.ptr[-1]).long()

    @cached_property
    def unowned(self) -> Tensor | None:
        """Whether a row belongs to no context, [P, 1]; None: there is no such row."""
        return (
            (self.counted == 0).unsqueeze(1) if self.padded and self.counted is not None else None
        )

    @outside_modes
    def counts(self, dtype: torch.dtype) -> Tensor:
        """`count` in this type, [K]; made once."""
        if dtype not in self._counts:
            self._counts[dtype] = self.count.to(dtype)
        return self._counts[dtype]

    @outside_modes
    def total(self, dtype: torch.dtype) -> Tensor:
        """The number of rows of all contexts, multiplicities counted; made once."""
        if dtype not in self._totals:
            total = self.ptr[-1] if self.multiplicity is None else self.count.sum()
            self._totals[dtype] = total.to(dtype)
        return self._totals[dtype]

    @cached_property
    def _counts(self) -> dict[torch.dtype, Tensor]:
        """`counts` in the types that were asked for."""
        return {}

    @cached_property
    def _totals(self) -> dict[torch.dtype, Tensor]:
        """`total` in the types that were asked for."""
        return {}

    @cached_property
    def small(self) -> tuple[Tensor, Tensor]:
        """ptr and own as the kernels read them, int32."""
        return self.ptr.int(), self.own.int()

    @cached_property
    def small_owner(self) -> Tensor:
        return self.owner.int()

    @cached_property
    def weighted(self) -> tuple[SparseSum, SparseSum]:
        return segment_matrices(self.ptr, self.owner, self.multiplicity)

    @cached_property
    def plain(self) -> tuple[SparseSum, SparseSum]:
        return segment_matrices(self.ptr, self.owner)
