"""Messages on edges, as rivals have them: aggregations and what they send back."""

# no `from __future__ import annotations`: torch reads the types of the operators

from typing import Any, Optional

import torch
from torch import Tensor

from smpgnn.ops.cuda.operator import operator
from smpgnn.ops.kernels import aggregate as aggregate_kernels
from smpgnn.ops.kernels import attention as attention_kernels
from smpgnn.ops.kernels import gates
from smpgnn.ops.kernels import relu_sum as relu_sum_kernels


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


@operator("attention")
def attention(
    values: Tensor,
    src: Tensor,
    dst: Tensor,
    bias: Tensor,
    part: Optional[Tensor],  # noqa: UP045
    sender: Tensor,
    ptr: Tensor,
    order: Optional[Tensor],  # noqa: UP045
    slope: float,
) -> Tensor:
    maps = src.contiguous(), dst.contiguous(), bias.contiguous()
    part = None if part is None else part.contiguous()
    return attention_kernels.attention(
        values.contiguous(), maps, part, sender.contiguous(), ptr, order, slope
    )


@attention.register_fake
def _(values: Tensor, *_: Any) -> Tensor:
    return values.new_empty(values.shape)


@operator("attention_backward")
def attention_backward(
    grad: Tensor,
    values: Tensor,
    src: Tensor,
    dst: Tensor,
    bias: Tensor,
    part: Optional[Tensor],  # noqa: UP045
    sender: Tensor,
    receiver: Tensor,
    ptr: Tensor,
    order: Optional[Tensor],  # noqa: UP045
    leaving_ptr: Tensor,
    leaving: Tensor,
    slope: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of values, of scores of senders and receivers, before the elu, of the edges' part.

    The last is empty where there is no such part.
    """
    maps = src.contiguous(), dst.contiguous(), bias.contiguous()
    dx, d_scores, back, d_part = attention_kernels.attention_backward(
        grad.contiguous(), values.contiguous(), maps, None if part is None else part.contiguous(),
        (sender.contiguous(), receiver.contiguous()), (ptr, order), (leaving_ptr, leaving), slope,
    )  # fmt: skip
    return dx, d_scores, back, values.new_empty(0) if part is None else d_part


@attention_backward.register_fake
def _(grad: Any, values: Tensor, s: Any, d: Any, b: Any, part: Any, *_: Any) -> Any:
    like = values.new_empty(values.shape)
    scores = values.new_empty(*values.shape[:2], 2)
    d_part = values.new_empty(0 if part is None else part.shape)
    return like, scores, torch.empty_like(like), d_part


@operator("relu_sum")
def relu_sum(
    x: Tensor,
    term: Tensor,
    sender: Tensor,
    ptr: Tensor,
    order: Optional[Tensor],  # noqa: UP045
) -> Tensor:
    return relu_sum_kernels.relu_sum(
        x.contiguous(), term.contiguous(), sender.contiguous(), ptr, order
    )


@relu_sum.register_fake
def _(x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


@operator("relu_sum_backward")
def relu_sum_backward(
    grad: Tensor,
    x: Tensor,
    term: Tensor,
    receiver: Tensor,
    leaving_ptr: Tensor,
    leaving: Tensor,
    arriving: Tensor,
    padded: bool,
) -> tuple[Tensor, Tensor]:
    return relu_sum_kernels.relu_sum_backward(
        grad.contiguous(), x.contiguous(), term.contiguous(), receiver.contiguous(),
        (leaving_ptr, leaving), arriving, padded,
    )  # fmt: skip


@relu_sum_backward.register_fake
def _(grad: Any, x: Tensor, term: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(term)
