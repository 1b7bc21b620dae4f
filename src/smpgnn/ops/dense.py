"""Rows of graphs of different sizes in one dense tensor, and back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.contexts.caching import cached_property
from smpgnn.ops.sparse import SparseSum, sparse_apply


@dataclass(frozen=True, eq=False)
class Dense:
    """The map between rows and the entries of a dense tensor.

    Both directions are gathers, and each is the gradient of the other, so sums are deterministic.

    Args:
        row: the row of each entry; P for an entry without a row.
        entry: the entry of each row.

    Shapes: row [E], of any shape; entry [P].
    """

    row: Tensor
    entry: Tensor

    def spread(self, rows: Tensor) -> Tensor:
        """Rows [P, C] to entries [*E, C]; entries without a row are zero."""
        extended = F.pad(rows, (0, 0, 0, 1))  # entries without a row read the last one
        return sparse_apply(extended, *self._matrices).view(*self.row.shape, rows.size(1))

    def collect(self, entries: Tensor) -> Tensor:
        """Entries [*E, C] to rows [P, C]."""
        fill, read = self._matrices
        return sparse_apply(entries.reshape(-1, entries.size(-1)), read, fill)[:-1]

    @cached_property
    def _matrices(self) -> tuple[SparseSum, SparseSum]:
        """From rows and a zero row to entries, and back."""
        return _gather(self.row.flatten()), _gather(F.pad(self.entry, (0, 1)))


def _gather(index: Tensor) -> SparseSum:
    ends = torch.arange(index.numel() + 1, device=index.device)
    return SparseSum(ends, index, form="spread")
