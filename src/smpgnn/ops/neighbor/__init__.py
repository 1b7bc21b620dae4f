"""Sums over neighbours, row by row, without storing a message per edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.contexts.caching import cached_property
from smpgnn.contexts.topology import pointer, take
from smpgnn.ops import backend
from smpgnn.ops.backend import fused, plain_gradients, transformed
from smpgnn.ops.sparse import SparseSum, pieces, sparse_apply
from smpgnn.tracing import traced

#: Numbers that one piece of the relu sum keeps: few compared to the rest of a network, enough for
#: a batch of molecules in one piece.
CHUNK = {"cpu": 1 << 23, "cuda": 1 << 26}


@dataclass(frozen=True, eq=False)
class Lift:
    """The message graph on rows: row (i, j) receives from row (k, j) of each neighbour k of i.

    Entries are sorted by receiving row. Shapes: ptr [P + 1]; source, target (rows) and edge [M];
    scale [P], the factor 1 / d_avg on the sum that a row receives.
    """

    ptr: Tensor
    source: Tensor
    target: Tensor
    edge: Tensor
    scale: Tensor
    #: Rows between which the list may be cut [B + 1]: no message passes from one part to another.
    cuts: Tensor | None = None
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    @cached_property
    def by_source(self) -> tuple[Tensor, Tensor]:
        """Pointer [P + 1] and indices [M] of the entries that leave each row."""
        counts = torch.bincount(self.source, minlength=self.scale.numel())
        order = torch.argsort(self.source.int(), stable=True)
        return pointer(counts).to(self.ptr.dtype), order.to(self.ptr.dtype)

    @cached_property
    def receive(self) -> SparseSum:
        return SparseSum(self.ptr, self.source, take(self.scale, self.target))

    @cached_property
    def send(self) -> SparseSum:
        ptr, order = self.by_source
        target = take(self.target, order)
        return SparseSum(ptr, target, take(self.scale, target))

    @cached_property
    def places(self) -> Tensor:
        """0, 1, …, M."""
        return torch.arange(
            self.source.numel() + 1, device=self.source.device, dtype=self.ptr.dtype
        )

    @cached_property
    def terms(self) -> tuple[Tensor, Tensor]:
        """Pointer and indices of the two summands of each term in the table [receiver, sender]."""
        parts = [self.target, self.source + self.scale.numel()]
        return 2 * self.places, torch.stack(parts, dim=1).flatten()

    @cached_property
    def terms_with_edge(self) -> tuple[Tensor, Tensor]:
        """The same for the three summands in the table [receiver, sender, edge]."""
        size = self.scale.numel()
        parts = [self.target, self.source + size, self.edge + 2 * size]
        return 3 * self.places, torch.stack(parts, dim=1).flatten()

    @cached_property
    def by_edge(self) -> Tensor:
        """The entries sorted by edge, [M]."""
        return torch.argsort(self.edge.int(), stable=True).to(self.ptr.dtype)

    @cached_property
    def edge_ends(self) -> Tensor | None:
        """Pointer [E + 1] into `by_edge`, if it is known beforehand; None: count the entries."""
        return None

    def edge_ptr(self, edges: int) -> Tensor:
        """Pointer [E + 1] into `by_edge`."""
        if self.edge_ends is not None:
            return self.edge_ends
        return pointer(torch.bincount(self.edge, minlength=edges)).to(self.ptr.dtype)

    @cached_property
    def small(self) -> tuple[Tensor, Tensor, Tensor]:
        """ptr, source and edge in int32, for the kernels."""
        return self.ptr.int(), self.source.int(), self.edge.int()

    @cached_property
    def small_by_source(self) -> tuple[Tensor, Tensor, Tensor]:
        """The entries of each source in int32: pointer [P + 1], target and edge."""
        ptr, order = self.by_source
        return ptr.int(), take(self.target, order).int(), take(self.edge, order).int()

    def small_by_edge(self, edges: int) -> tuple[Tensor, Tensor, Tensor]:
        """The entries of each edge in int32: pointer [E + 1], target and source. Cached."""
        if not self._by_edge:
            order = self.by_edge
            target, source = (take(rows, order).int() for rows in (self.target, self.source))
            self._by_edge.append((self.edge_ptr(edges).int(), target, source))
        return self._by_edge[0]

    @cached_property
    def _by_edge(self) -> list[tuple[Tensor, Tensor, Tensor]]:
        return []

    def blocks(self, channels: int) -> list[Block]:
        """Parts without messages between them, whose rows stay in the cache of a processor.

        Operations on a CPU go through them one by one; on a GPU there is one block.
        """
        limit = max(1, backend.CACHED // max(1, channels))
        total = self.scale.numel()
        if self.cuts is None or self.given or self.scale.is_cuda or total <= limit:
            return [Block(slice(0, total), slice(None), self)]
        if limit not in self._blocks:
            self._blocks[limit] = list(self._cut(limit))
        return self._blocks[limit]

    @cached_property
    def _blocks(self) -> dict[int, list[Block]]:
        """`blocks` by the number of their rows."""
        return {}

    def _cut(self, limit: int) -> Iterator[Block]:
        assert self.cuts is not None
        parts = [rows for _, rows in pieces(self.cuts, self.scale.numel(), limit)]
        ends = self.ptr[torch.tensor([0, *(rows.stop for rows in parts)])].tolist()
        for rows, (begin, end) in zip(parts, pairwise(ends), strict=True):
            edge = self.edge[begin:end]
            first, last = (int(value) for value in edge.aminmax()) if end > begin else (0, -1)
            lift = Lift(  # int32: fewer bytes in the cache
                ptr=(self.ptr[rows.start : rows.stop + 1] - begin).int(),
                source=(self.source[begin:end] - rows.start).int(),
                target=(self.target[begin:end] - rows.start).int(),
                edge=(edge - first).int(),
                scale=self.scale[rows],
            )
            yield Block(rows, slice(first, last + 1), lift)

    def chunks(self, entries: int) -> Iterator[tuple[slice, slice]]:
        """Split into pieces of about `entries` entries: the receiving rows and entries of each."""
        total = self.source.numel()
        # padded lists are never cut
        yield from pieces(self.ptr, total, total if self.given else entries)


@dataclass(frozen=True, eq=False)
class Block:
    """Some rows that exchange messages with each other only; their edges, from first to last."""

    rows: slice
    edges: slice
    lift: Lift


def neighbor_sum(rows: Tensor, lift: Lift) -> Tensor:
    """scale · Σ_k rows(k, j) over the neighbours k of i, for every row (i, j): [P, C] to [P, C]."""
    if traced():
        total = torch.zeros_like(rows).index_add(0, lift.target, rows.index_select(0, lift.source))
        return total * lift.scale.to(rows.dtype).unsqueeze(1)
    return sparse_apply(rows, lift.receive, lift.send)


def relu_neighbor_sum(receiver: Tensor, sender: Tensor, edge: Tensor | None, lift: Lift) -> Tensor:
    """scale · Σ_k relu(receiver(i, j) + sender(k, j) + edge(i, k)) for every row (i, j).

    Terms are computed in pieces and not stored; the backward pass recomputes them.

    Shapes: receiver, sender [P, C], edge [E, C] or None, result [P, C].
    """
    dtype = torch.promote_types(receiver.dtype, sender.dtype)
    receiver, sender = receiver.to(dtype), sender.to(dtype)
    edge = None if edge is None else edge.to(dtype)
    if transformed():
        return relu_neighbor_sum_reference(receiver, sender, edge, lift)
    result: Tensor = _ReluNeighborSum.apply(receiver, sender, edge, lift)  # type: ignore[no-untyped-call]
    return result


def relu_neighbor_sum_reference(
    receiver: Tensor, sender: Tensor, edge: Tensor | None, lift: Lift
) -> Tensor:
    """The plain form of `relu_neighbor_sum`, with all terms in memory."""
    terms = receiver.index_select(0, lift.target) + sender.index_select(0, lift.source)
    if edge is not None:
        terms = terms + edge.index_select(0, lift.edge)
    total = torch.zeros_like(receiver).index_add(0, lift.target, terms.relu())
    return total * lift.scale.to(total.dtype).unsqueeze(1)


class _ReluNeighborSum(Function):
    @staticmethod
    def forward(
        ctx: Any, receiver: Tensor, sender: Tensor, edge: Tensor | None, lift: Lift
    ) -> Tensor:
        ctx.save_for_backward(receiver, sender, edge)
        ctx.lift = lift
        if _listed(receiver):
            from smpgnn.ops.neighbor import kernel

            out: Tensor = kernel.relu_sums(receiver, sender, edge, lift)
            return out
        # One table of all summands, so that a term is one gather of two or three rows.
        table = torch.cat([receiver, sender] if edge is None else [receiver, sender, edge])
        return relu_table_sum(table, lift, edge is not None)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        receiver, sender, edge = ctx.saved_tensors
        lift: Lift = ctx.lift
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda r, s, e: relu_neighbor_sum_reference(r, s, e, lift),
                [receiver, sender, edge],
                [grad],
            )
            return *again, None
        if _listed(receiver):
            from smpgnn.ops.neighbor import kernel

            return *kernel.relu_gradients(grad, receiver, sender, edge, lift), None
        table = torch.cat([receiver, sender] if edge is None else [receiver, sender, edge])
        return *relu_table_gradients(grad, table, lift, edge is not None)[1:], None


def _listed(rows: Tensor) -> bool:
    """Whether kernels go through the lists."""
    return fused(rows) and rows.size(1) <= 128


def relu_table_sum(table: Tensor, lift: Lift, with_edge: bool) -> Tensor:
    """`relu_neighbor_sum` of a table of receivers, then senders, then edges."""
    parts = list(_pieces(lift, table))
    if len(parts) == 1:
        out = _collect(_terms(table, lift, parts[0][1], with_edge).relu_(), lift, *parts[0])
        return out.mul_(lift.scale.to(out.dtype).unsqueeze(1))
    out = table.new_empty(lift.scale.numel(), table.size(1))
    for rows, part in parts:
        out[rows] = _collect(_terms(table, lift, part, with_edge).relu_(), lift, rows, part)
    return out.mul_(lift.scale.to(out.dtype).unsqueeze(1))


def relu_table_gradients(
    grad: Tensor, table: Tensor, lift: Lift, with_edge: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The result of `relu_table_sum` again, and gradients of receivers, senders and edges."""
    size = lift.scale.numel()
    edges = table.size(0) - 2 * size
    scale = lift.scale.to(grad.dtype).unsqueeze(1)
    grad = grad * scale
    parts = list(_pieces(lift, table))
    if len(parts) == 1:
        terms = _terms(table, lift, parts[0][1], with_edge).relu_()
        sums = _collect(terms, lift, *parts[0])
        passed = _passed(grad, terms, lift, parts[0][1])
        sent, grad_edge = SparseSum(*lift.by_source), None
        if with_edge:
            grad_edge = SparseSum(lift.edge_ptr(edges), lift.by_edge)(passed)
        grad_receiver, grad_sender = _collect(passed, lift, *parts[0]), sent(passed)
        return sums.mul_(scale), grad_receiver, grad_sender, grad_edge
    sums, grad_receiver = torch.empty_like(grad), torch.empty_like(grad)
    grad_sender = torch.zeros_like(grad)
    grad_edge = grad.new_zeros(edges, grad.size(1)) if with_edge else None
    for rows, part in parts:
        terms = _terms(table, lift, part, with_edge).relu_()
        sums[rows] = _collect(terms, lift, rows, part)
        passed = _passed(grad, terms, lift, part)
        grad_receiver[rows] = _collect(passed, lift, rows, part)
        grad_sender.index_add_(0, lift.source[part], passed)
        if grad_edge is not None:
            grad_edge.index_add_(0, lift.edge[part], passed)
    return sums.mul_(scale), grad_receiver, grad_sender, grad_edge


def _pieces(lift: Lift, rows: Tensor) -> Iterator[tuple[slice, slice]]:
    limit = CHUNK["cuda" if rows.is_cuda else "cpu"]
    return lift.chunks(max(1, limit // max(1, rows.size(1))))


def _terms(table: Tensor, lift: Lift, part: slice, with_edge: bool) -> Tensor:
    """The sums receiver + sender (+ edge) of these entries, [entries, C]."""
    fan = 3 if with_edge else 2
    ends, places = lift.terms_with_edge if with_edge else lift.terms
    ends = ends[: part.stop - part.start + 1]
    return SparseSum(ends, places[part.start * fan : part.stop * fan])(table)


def _passed(grad: Tensor, terms: Tensor, lift: Lift, part: slice) -> Tensor:
    """The gradient of each term: that of its receiver if the term is positive, else zero."""
    passed = grad.index_select(0, lift.target[part])
    torch.ops.aten.threshold_backward.grad_input(passed, terms, 0, grad_input=passed)
    return passed


def _collect(terms: Tensor, lift: Lift, rows: slice, part: slice) -> Tensor:
    """The sum of the terms of each receiving row."""
    ptr = lift.ptr[rows.start : rows.stop + 1]
    ptr = ptr - part.start if part.start else ptr
    return SparseSum(ptr, lift.places[: terms.size(0)])(terms)
