"""Messages on edges, as rivals have them: aggregations and what they send back."""

# no `from __future__ import annotations`: torch reads the types of the operators

from typing import Any, Optional

import torch
from torch import Tensor

from smpgnn.ops.cuda.operator import operator
from smpgnn.ops.kernels import aggregate as aggregate_kernels


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
