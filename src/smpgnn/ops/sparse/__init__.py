"""Sums over fixed sets of rows: a sparse matrix and its transpose.

On the CPU gather and sum are one pass (`embedding_bag`), about 30 times faster than a gather and
`segment_reduce` at the size of a ZINC batch. The gradient is the same operation with the transposed
matrix, so it needs no saved tensors, and derivatives of any order exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.contexts.caching import cached_property, outside_modes
from smpgnn.ops.backend import fused, plain_gradients, transformed
from smpgnn.tracing import traced


@dataclass(frozen=True, eq=False)
class SparseSum:
    """Output row r is the weighted sum of the input rows index[ptr[r]:ptr[r+1]].

    Shapes: ptr [R + 1], index [M], weight [M] or None (all 1).
    """

    ptr: Tensor
    index: Tensor
    weight: Tensor | None = None
    #: 'collect' if index is 0, 1, …; 'spread' if ptr is 0, 1, …; '' if unknown.
    form: str = ""

    @cached_property
    def _weights(self) -> dict[torch.dtype, Tensor]:
        return {}

    @outside_modes
    def _weight_as(self, dtype: torch.dtype) -> Tensor:
        if traced():
            assert self.weight is not None
            return self.weight.to(dtype)
        if dtype not in self._weights:
            assert self.weight is not None
            self._weights[dtype] = self.weight.to(dtype)
        return self._weights[dtype]

    def __call__(self, rows: Tensor) -> Tensor:
        """The sums without autograd: `rows` [Q, C] to [R, C]."""
        size = self.ptr.numel() - 1
        if self.index.numel() == 0 or rows.numel() == 0:
            return rows.new_zeros(size, rows.size(1))
        if self.form == "spread" and self.weight is None:
            return rows.detach().index_select(0, self.index)
        if self.weight is None and fused(rows):
            from smpgnn.ops.sparse import kernel

            # On a GPU the last bag of `embedding_bag` would process all padding sequentially.
            index = None if self.form == "collect" else self.index
            summed: Tensor = kernel.segment_sum(rows.detach(), self.ptr, index)
            return summed
        values, weight = rows.detach().contiguous(), self.weight
        half = values.dtype in (torch.bfloat16, torch.float16)
        if weight is not None:
            # Weights such as multiplicities would be rounded to half precision.
            values = values.float() if half else values
            weight = self._weight_as(values.dtype)
        total = torch.embedding_bag(values, self.index, self.ptr, False, 0, False, weight, True)[0]
        return total.to(rows.dtype)

    @cached_property
    def target(self) -> Tensor:
        """The output row of each entry, [M]; entries after the last row have none."""
        rows = torch.arange(self.ptr.numel() - 1, device=self.ptr.device)
        if traced():  # nothing is padded
            return rows.repeat_interleave(self.ptr.diff(), output_size=self.index.numel())
        return rows.repeat_interleave(self.ptr.diff())

    def reference(self, rows: Tensor) -> Tensor:
        """The plain form of `__call__`."""
        values = rows.index_select(0, self.index[: self.target.numel()])
        if self.weight is not None:
            half = rows.dtype in (torch.bfloat16, torch.float16)
            values = values.float() if half else values
            weight = self._weight_as(values.dtype)[: self.target.numel()]
            values = values * weight.unsqueeze(1)
        total = values.new_zeros(self.ptr.numel() - 1, rows.size(1))
        return total.index_add(0, self.target, values).to(rows.dtype)


class _SparseApply(Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, matrix: SparseSum, transposed: SparseSum) -> Tensor:
        ctx.matrix, ctx.transposed = matrix, transposed
        return matrix(rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return sparse_apply(grad, ctx.transposed, ctx.matrix), None, None


def sparse_apply(rows: Tensor, matrix: SparseSum, transposed: SparseSum) -> Tensor:
    """Apply a sparse matrix to the rows; the gradient uses its transpose."""
    if traced() and matrix.form == "spread" and matrix.weight is None:
        return rows.index_select(0, matrix.index)
    if transformed():
        return matrix.reference(rows)
    result: Tensor = _SparseApply.apply(rows, matrix, transposed)  # type: ignore[no-untyped-call]
    return result


def segment_sum(rows: Tensor, collect: SparseSum, spread: SparseSum) -> Tensor:
    """Sum the rows of every segment, [P, C] to [K, C]; see `segment_matrices`."""
    if traced():
        return _owned_sum(rows, collect, spread)
    return sparse_apply(rows, collect, spread)


def _owned_sum(rows: Tensor, collect: SparseSum, spread: SparseSum) -> Tensor:
    """The plain form of `segment_sum`, with the segment of each row from `spread`."""
    weight = collect.weight
    values = rows if weight is None else rows * weight.to(rows.dtype).unsqueeze(1)
    total = values.new_zeros(collect.ptr.numel() - 1, rows.size(1))
    return total.index_add(0, spread.index, values)


def expand_rows(values: Tensor, collect: SparseSum, spread: SparseSum) -> Tensor:
    """Copy the value of each segment to its rows, [K, C] to [P, C]; see `segment_matrices`."""
    if transformed():
        return values.index_select(0, spread.index)
    result: Tensor = _Expand.apply(values, collect, spread)  # type: ignore[no-untyped-call]
    return result


class _Expand(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, collect: SparseSum, spread: SparseSum) -> Tensor:
        ctx.collect, ctx.spread = collect, spread
        return values.index_select(0, spread.index)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return segment_sum(grad, ctx.collect, ctx.spread), None, None


def segment_matrices(
    ptr: Tensor, owner: Tensor, weight: Tensor | None = None
) -> tuple[SparseSum, SparseSum]:
    """The matrix that sums consecutive segments, and the one that copies values to their rows."""
    rows = torch.arange(owner.numel() + 1, device=owner.device)
    return SparseSum(ptr, rows[:-1], weight, "collect"), SparseSum(rows, owner, weight, "spread")


def pieces(ptr: Tensor, entries: int, limit: int) -> Iterator[tuple[slice, slice]]:
    """Cut consecutive segments into pieces of about `limit` entries: the rows and entries of each.

    Shape: ptr [R + 1], where the entries of each row begin and end; `entries` in all.
    """
    count = ptr.numel() - 1
    if entries <= limit:
        yield slice(0, count), slice(0, entries)
        return
    wanted = torch.arange(limit, entries, limit, device=ptr.device)
    cuts = torch.unique_consecutive(torch.searchsorted(ptr, wanted))
    starts = [0, *(cut for cut in cuts.tolist() if 0 < cut < count), count]
    ends = ptr[torch.tensor(starts, device=ptr.device)].tolist()
    for k in range(len(starts) - 1):
        yield slice(starts[k], starts[k + 1]), slice(ends[k], ends[k + 1])


class _SegmentMax(Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, ptr: Tensor, owner: Tensor, weight: Tensor | None, padded: bool
    ) -> Tensor:
        ctx.padded = padded
        if fused(rows):
            from smpgnn.ops.sparse import kernel

            top: Tensor = kernel.segment_max(rows, ptr, weight)
            ctx.save_for_backward(rows, top, ptr, owner, weight)
            return top
        values = rows.detach()
        if weight is not None:
            values = values.masked_fill((weight == 0).unsqueeze(1), -torch.inf)
        top = values.new_full((ptr.numel() - 1, rows.size(1)), -torch.inf)
        top.scatter_reduce_(0, owner.unsqueeze(1).expand_as(values), values, "amax")
        top.masked_fill_((ptr[1:] == ptr[:-1]).unsqueeze(1), 0.0)
        ctx.save_for_backward(rows, top, ptr, owner, weight)
        return top

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        rows, top, ptr, owner, weight = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda rows: segment_max_reference(rows, ptr, owner, weight), [rows], [grad]
            )
            return *again, None, None, None, None
        if fused(rows):
            from smpgnn.ops.sparse import kernel

            dx: Tensor = kernel.segment_max_backward(grad, rows, top, ptr, weight, ctx.padded)
            return dx, None, None, None, None
        share = (rows == top.index_select(0, owner)).to(grad.dtype)
        if weight is not None:
            share = share * weight.unsqueeze(1).to(grad.dtype)
        collect, spread = segment_matrices(ptr, owner)
        split = grad / collect(share).clamp(min=1)
        return share * split.index_select(0, spread.index), None, None, None, None


def segment_max(
    rows: Tensor, ptr: Tensor, owner: Tensor, weight: Tensor | None = None, padded: bool = False
) -> Tensor:
    """The maximum of every segment by channel, [P, C] to [K, C]; zero for an empty segment.

    Rows of weight 0 are ignored. Ties share the gradient in proportion to their weights, like that
    many separate rows. If `padded`, rows after the last segment are ignored.
    """
    if transformed():
        return segment_max_reference(rows, ptr, owner, weight)
    result: Tensor = _SegmentMax.apply(rows, ptr, owner, weight, padded)  # type: ignore[no-untyped-call]
    return result


def segment_max_reference(
    rows: Tensor, ptr: Tensor, owner: Tensor, weight: Tensor | None = None
) -> Tensor:
    """The plain form of `segment_max`: the weighted mean of the rows that attain the maximum."""
    size = ptr.numel() - 1
    counted = torch.arange(owner.numel(), device=ptr.device) < ptr[-1]
    times = torch.ones_like(owner) if weight is None else weight
    times = (times * counted).unsqueeze(1)
    values = rows.detach().masked_fill(times == 0, -torch.inf)
    place = owner.unsqueeze(1).expand_as(rows)
    top = values.new_full((size, rows.size(1)), -torch.inf)
    top = top.scatter_reduce(0, place, values, "amax")
    share = ((values == top.index_select(0, owner)) | values.isnan()) * times.to(rows.dtype)
    total = torch.zeros_like(top).index_add(0, owner, share).clamp(min=1)
    share = share / total.index_select(0, owner)
    largest = torch.where(share > 0, rows, 0.0) * share
    return torch.zeros_like(top).index_add(0, owner, largest)
