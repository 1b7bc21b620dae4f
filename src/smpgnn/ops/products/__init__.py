"""Sums of products of rows, without storing a product per term."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.contexts.caching import cached_property
from smpgnn.contexts.topology import pointer, take
from smpgnn.ops.backend import transformed, working_dtype
from smpgnn.ops.sparse import SparseSum, pieces

#: Numbers that one piece of the products keeps.
CHUNK = {"cpu": 1 << 22, "cuda": 1 << 26}
#: The index lists of `Triples`: of the results, and of the left and the right factors.
RESULT, LEFT, RIGHT = range(3)


@dataclass(frozen=True, eq=False)
class Triples:
    """Row target[t] receives the product of the rows left[t] and right[t], of P rows.

    Entries are sorted by `target`. Shapes: [T] each.
    """

    target: Tensor
    left: Tensor
    right: Tensor
    num_rows: int
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    @cached_property
    def ptrs(self) -> tuple[Tensor, Tensor, Tensor]:
        """The entries of each row as result, as left and as right factor: pointers [P + 1]."""
        first, second, third = (
            pointer(torch.bincount(rows, minlength=self.num_rows))
            for rows in (self.target, self.left, self.right)
        )
        return first, second, third

    @cached_property
    def orders(self) -> tuple[Tensor, Tensor]:
        """The entries sorted by left and by right factor, [T] each."""
        left, right = (torch.argsort(rows.int(), stable=True) for rows in (self.left, self.right))
        return left, right

    @cached_property
    def _lists(self) -> dict[tuple[int, int, int], tuple[Tensor, Tensor, Tensor]]:
        return {}

    def lists(self, result: int, one: int, other: int) -> tuple[Tensor, Tensor, Tensor]:
        """The entries of each row in the part `result`, and the rows of two other parts.

        Shapes: pointer [P + 1], rows [T] each.
        """
        key = result, one, other
        if key not in self._lists:
            parts = [self.target, self.left, self.right]
            rows = parts[one], parts[other]
            if result != RESULT:
                order = self.orders[result - 1]
                rows = take(rows[0], order), take(rows[1], order)
            self._lists[key] = self.ptrs[result], *rows
        return self._lists[key]


def row_products(left: Tensor, right: Tensor, triples: Triples) -> Tensor:
    """Σ_t left[l_t] ⊙ right[r_t] over the triples t of each row, [P, C] and [P, C] to [P, C].

    Products are computed in pieces and not stored. The gradients are sums of products, too, so
    derivatives of any order exist.
    """
    dtype = working_dtype(left)
    return _product_sum(left.to(dtype), right.to(dtype), triples, (RESULT, LEFT, RIGHT))


def row_products_reference(
    one: Tensor, other: Tensor, triples: Triples, parts: tuple[int, int, int] = (0, 1, 2)
) -> Tensor:
    """The plain form of `row_products`, with all products in memory."""
    lists = [triples.target, triples.left, triples.right]
    result, first, second = (lists[part] for part in parts)
    values = one.index_select(0, first) * other.index_select(0, second)
    return values.new_zeros(triples.num_rows, values.size(1)).index_add(0, result, values)


def _product_sum(
    one: Tensor, other: Tensor, triples: Triples, parts: tuple[int, int, int]
) -> Tensor:
    if transformed():
        return row_products_reference(one, other, triples, parts)
    result: Tensor = _ProductSum.apply(one, other, triples, parts)  # type: ignore[no-untyped-call]
    return result


class _ProductSum(Function):
    @staticmethod
    def forward(
        ctx: Any, one: Tensor, other: Tensor, triples: Triples, parts: tuple[int, int, int]
    ) -> Tensor:
        ctx.save_for_backward(one, other)
        ctx.triples, ctx.parts = triples, parts
        ptr, first, second = triples.lists(*parts)
        limit = CHUNK["cuda" if one.is_cuda else "cpu"] // max(1, one.size(1))
        entries = first.numel()  # padded lists are never cut
        limit = entries if triples.given else max(1, limit)
        found = [
            SparseSum(ptr[rows.start : rows.stop + 1] - ptr[rows.start], _places(first, part))(
                one.index_select(0, first[part]) * other.index_select(0, second[part])
            )
            for rows, part in pieces(ptr, entries, limit)
        ]
        return found[0] if len(found) == 1 else torch.cat(found)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        one, other = ctx.saved_tensors
        result, first, second = ctx.parts
        d_one = d_other = None
        if ctx.needs_input_grad[0]:
            d_one = _product_sum(grad, other, ctx.triples, (first, result, second))
        if ctx.needs_input_grad[1]:
            d_other = _product_sum(grad, one, ctx.triples, (second, result, first))
        return d_one, d_other, None, None


def _places(index: Tensor, part: slice) -> Tensor:
    return torch.arange(part.stop - part.start, device=index.device)
