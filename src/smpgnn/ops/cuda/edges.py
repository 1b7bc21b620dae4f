"""Messages on edges, as rivals have them: aggregations and what they send back."""

# no `from __future__ import annotations`: torch reads the types of the operators

from typing import Any, Optional

import torch
from torch import Tensor

from smpgnn.ops.cuda.operator import operator
from smpgnn.ops.kernels import aggregate as aggregate_kernels
from smpgnn.ops.kernels import gates


@operator("aggregate")
def aggregate(
    message: Tensor,
    ptr: Tensor,
    order: Optional[Tensor],  # noqa: UP045
    delta: Tensor,
    least: float,
) -> Tensor:
    return aggregate_kernels.aggregate(message.contiguous(), ptr, order, delta, least)


@aggregate.register_fake
def _(message: Tensor, ptr: Tensor, *_: Any) -> Tensor:
    return message.new_empty(ptr.numel() - 1, 12 * message.size(1))


@operator("aggregate_backward")
def aggregate_backward(
    grad: Tensor,
    message: Tensor,
    out: Tensor,
    ptr: Tensor,
    order: Optional[Tensor],  # noqa: UP045
    delta: Tensor,
) -> Tensor:
    return aggregate_kernels.aggregate_backward(
        grad.contiguous(), message.contiguous(), out, ptr, order, delta
    )


@aggregate_backward.register_fake
def _(grad: Any, message: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(message)


@operator("gated_sum")
def gated_sum(
    table: Tensor,
    term: Tensor,
    sender: Tensor,
    ptr: Tensor,
    order: Optional[Tensor],  # noqa: UP045
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The new rows, the gates, and what is above 0 of them."""
    return gates.gated_sum(
        table.contiguous(), term.contiguous(), sender.contiguous(), ptr, order, eps
    )


@gated_sum.register_fake
def _(table: Tensor, term: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    rows = term.new_empty(table.size(0), term.size(1))
    return rows, torch.empty_like(term), torch.empty_like(term)


@operator("gated_sum_backward")
def gated_sum_backward(
    d_rows: Tensor,
    d_opened: Tensor,
    table: Tensor,
    gate: Tensor,
    rows: Tensor,
    sender: Tensor,
    receiver: Tensor,
    ptr: Tensor,
    order: Optional[Tensor],  # noqa: UP045
    leaving_ptr: Tensor,
    leaving: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Gradients of the table and of the term of the edges."""
    return gates.gated_sum_backward(
        d_rows.contiguous(), d_opened.contiguous(), table.contiguous(), gate, rows,
        (sender.contiguous(), receiver.contiguous()), (ptr, order), (leaving_ptr, leaving), eps,
    )  # fmt: skip


@gated_sum_backward.register_fake
def _(d_rows: Any, d_opened: Any, table: Tensor, gate: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(table), torch.empty_like(gate)
