"""Rows that are read at other places, and sums in the other direction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from smpgnn.contexts.caching import cached_property
from smpgnn.contexts.topology import pointer
from smpgnn.ops.sparse import SparseSum, sparse_apply
from smpgnn.tracing import occurrences


@dataclass(frozen=True, eq=False)
class RowGather:
    """Place m reads row index[m]. Shape: index [M], of `num_rows` rows."""

    index: Tensor
    num_rows: int
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    def __call__(self, rows: Tensor) -> Tensor:
        """The row that each place reads, [P, C] to [M, C]."""
        return sparse_apply(rows, self._read, self._sum)

    def sums(self, values: Tensor) -> Tensor:
        """For each row the sum of the values at the places that read it, [M, C] to [P, C]."""
        return sparse_apply(values, self._sum, self._read)

    @cached_property
    def by_row(self) -> tuple[Tensor, Tensor]:
        """Pointer [P + 1] and indices [M] of the places that read each row."""
        counts = occurrences(self.index, self.num_rows)
        return pointer(counts), torch.argsort(self.index.int(), stable=True)

    @cached_property
    def _read(self) -> SparseSum:
        places = torch.arange(self.index.numel() + 1, device=self.index.device)
        return SparseSum(places, self.index, form="spread")

    @cached_property
    def _sum(self) -> SparseSum:
        return SparseSum(*self.by_row)
