"""Routes: the graphs and the rows of their contexts as the kernels read them."""

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
    """Who sends rows to whom, in the two forms in which operations read it; made on demand."""

    @property
    def layout(self) -> RowLayout: ...

    @property
    def lift(self) -> Lift: ...

    @property
    def routes(self) -> Routes: ...


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The edges of each node from one side, and the rows that they join.

    `first` is the first row of the node at the other end. Where all contexts of a graph have the
    same rows, row j of one joins row j of the other, and `row_ptr` and `row` are empty. `last` is,
    by receiver, the receiver of each edge [E], and by sender the edge of each entry of `row` [M].

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
    """What operations need to know of a batch; numbers of rows, nodes and edges are int32.

    Args:
        ptr: context i has the rows ptr[i]:ptr[i+1], [K + 1].
        own: the row in which each node describes itself, [K].
        scale: 1 / d_avg of the graph of each node, [K].
        arrived: number of messages of each node divided by d_avg, [K].
        sides: makes the neighbours by receiver and by sender; called once, when a kernel asks.
        padded: whether there are rows past ptr[K], which no context owns.
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
    """Neighbours by receiver and by sender; `lift` where contexts differ in their rows.

    Shape: row_ptr [K + 1], where the rows of each node start.
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
    """Pointer (int32) and numbers of the edges at each node."""
    return pointer(torch.bincount(at, minlength=count)).int(), torch.argsort(at, stable=True)
