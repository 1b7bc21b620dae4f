"""Routes: the edges of a batch and the rows of its contexts, in the form that kernels read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from smpgnn.contexts.caching import cached_property
from smpgnn.contexts.topology import pointer, take
from smpgnn.ops.neighbor import Lift

if TYPE_CHECKING:
    from smpgnn.contexts.layout import RowLayout


class Wiring(Protocol):
    """Who sends rows to whom, in the form of the plain operations and in that of the kernels."""

    @property
    def layout(self) -> RowLayout: ...

    @property
    def lift(self) -> Lift: ...

    @property
    def routes(self) -> Routes: ...


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The edges of each node, sorted by receiver or by sender, and the rows that they connect.

    `first` is the first row of the node at the other end. If all contexts of a graph have the same
    rows, row j of one sends to row j of the other, and `row_ptr` and `row` are empty. `last` is the
    receiver of each edge [E] if sorted by receiver, and the edge of each entry of `row` [M] if
    sorted by sender.

    Shapes: ptr [K + 1]; first, edge [E]; row_ptr [P + 1]; row [M].
    """

    ptr: Tensor
    first: Tensor
    edge: Tensor
    row_ptr: Tensor
    row: Tensor
    last: Tensor

    def tensors(self) -> list[Tensor]:
        return [self.ptr, self.first, self.edge, self.row_ptr, self.row, self.last]


@dataclass(frozen=True, eq=False)
class Routes:
    """What the kernels need to know about a batch; indices of rows, nodes and edges are int32.

    Args:
        ptr: context i has the rows ptr[i]:ptr[i+1], [K + 1].
        own: the own row of each context, [K].
        scale: 1 / d_avg of the graph of each node, [K].
        arrived: number of messages of each node divided by d_avg, [K].
        sides: returns the neighbours by receiver and by sender; called on first use.
        padded: whether there are padding rows, from ptr[K] on.
    """

    ptr: Tensor
    own: Tensor
    scale: Tensor
    arrived: Tensor
    sides: Callable[[], tuple[Neighbors, Neighbors]]
    padded: bool = False

    @cached_property
    def _tensors(self) -> list[Tensor]:
        senders, receivers = self.sides()
        return [self.ptr, self.own, self.scale, *senders.tensors(), *receivers.tensors()]

    def tensors(self) -> list[Tensor]:
        """ptr, own, scale, then the six tensors by receiver and the six by sender."""
        return self._tensors


def find_neighbors(
    edge_index: Tensor, row_ptr: Tensor, lift: Lift | None
) -> tuple[Neighbors, Neighbors]:
    """Neighbours by receiver and by sender; pass `lift` if contexts have different rows.

    Shape: row_ptr [K + 1], the start of the rows of each node.
    """
    sender, receiver = edge_index
    empty = edge_index.new_zeros(0, dtype=torch.int32)
    ptr, order = _by_node(receiver, row_ptr.numel() - 1)
    out_ptr, out_order = _by_node(sender, row_ptr.numel() - 1)
    rows, back, back_edge = (empty, empty), (empty, empty), empty
    if lift is not None:
        back_ptr, by_source = lift.by_source
        rows = lift.ptr.int(), lift.source.int()
        back = back_ptr.int(), take(lift.target, by_source).int()
        back_edge = take(lift.edge, by_source).int()
    starts = row_ptr[:-1].int()
    return (
        Neighbors(
            ptr, take(starts, take(sender, order)), order.int(), *rows, take(receiver, order).int()
        ),
        Neighbors(
            out_ptr, take(starts, take(receiver, out_order)), out_order.int(), *back, back_edge
        ),
    )


def _by_node(at: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Pointer (int32) and indices of the edges at each node."""
    return pointer(torch.bincount(at, minlength=count)).int(), torch.argsort(at, stable=True)
