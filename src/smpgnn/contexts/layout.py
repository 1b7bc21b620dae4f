"""The layout of context rows in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from smpgnn.contexts.caching import cached_property, outside_modes
from smpgnn.contexts.topology import segments
from smpgnn.ops.sparse import SparseSum, segment_matrices
from smpgnn.tracing import traced


@dataclass(frozen=True, eq=False, kw_only=True)
class RowLayout:
    """The layout of K contexts in one tensor of P rows.

    Context k has the rows ptr[k]:ptr[k+1], and own[k] is its own row. A row counts `multiplicity`
    times in sums, means and statistics. If `padded`, the rows from ptr[K] on are padding: they
    belong to no context, and their values are finite and affect nothing.

    `given` contains values of cached properties that are known beforehand, by name.

    Shapes: ptr [K + 1], own [K], multiplicity [P] or None (all 1).
    """

    ptr: Tensor
    own: Tensor
    num_rows: int
    multiplicity: Tensor | None = None
    padded: bool = False
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def owner(self) -> Tensor:
        """The context to which each row belongs, [P]."""
        return segments(self.ptr.diff(), self.num_rows)[0]

    @cached_property
    def count(self) -> Tensor:
        """The number of rows of each context, with multiplicity, [K]: the paper's n."""
        if self.multiplicity is None:
            return self.ptr.diff()
        total = torch.zeros_like(self.own)
        return total.index_add_(0, self.owner, self.multiplicity)

    @cached_property
    def counted(self) -> Tensor | None:
        """The multiplicity of each row, [P], 0 for padding; None: all 1."""
        if not self.padded:
            return self.multiplicity
        return (torch.arange(self.num_rows, device=self.ptr.device) < self.ptr[-1]).long()

    @cached_property
    def unowned(self) -> Tensor | None:
        """Whether a row is padding, [P, 1]; None: no row is."""
        return (
            (self.counted == 0).unsqueeze(1) if self.padded and self.counted is not None else None
        )

    @outside_modes
    def counts(self, dtype: torch.dtype) -> Tensor:
        """`count` in this dtype, [K]. Cached."""
        if traced():
            return self.count.to(dtype)
        if dtype not in self._counts:
            self._counts[dtype] = self.count.to(dtype)
        return self._counts[dtype]

    @outside_modes
    def total(self, dtype: torch.dtype) -> Tensor:
        """The number of rows of all contexts, with multiplicity, in this dtype. Cached."""
        if traced():
            return (self.ptr[-1] if self.multiplicity is None else self.count.sum()).to(dtype)
        if dtype not in self._totals:
            total = self.ptr[-1] if self.multiplicity is None else self.count.sum()
            self._totals[dtype] = total.to(dtype)
        return self._totals[dtype]

    @cached_property
    def _counts(self) -> dict[torch.dtype, Tensor]:
        """`counts` by dtype."""
        return {}

    @cached_property
    def _totals(self) -> dict[torch.dtype, Tensor]:
        """`total` by dtype."""
        return {}

    @cached_property
    def small(self) -> tuple[Tensor, Tensor]:
        """ptr and own in int32, for the kernels."""
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
