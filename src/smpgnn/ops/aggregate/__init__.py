"""The aggregations of PNA: mean, least, largest and spread of messages, each scaled three times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.ops.backend import fused, opaque, plain_gradients

if TYPE_CHECKING:
    from smpgnn.contexts.incidence import Incidence

#: Variances up to this count as zero, as in PyTorch Geometric.
LEAST_VARIANCE = 1e-5


@opaque
def aggregate(message: Tensor, edges: Incidence, delta: Tensor) -> Tensor:
    """Mean, least, largest and spread of the messages that arrive, then all again for each scaler.

    The scalers are 1, log(d + 1) / δ and δ / log(d + 1) of a node that d messages reach.

    Shapes: message [E, C], delta [] or [1], result [N, 12 C].
    """
    if not fused(message):
        return aggregate_reference(message, edges, delta)
    result: Tensor = _Aggregate.apply(message, edges, delta)  # type: ignore[no-untyped-call]
    return result


def aggregate_reference(message: Tensor, edges: Incidence, delta: Tensor) -> Tensor:
    """The same in plain torch."""
    degree = edges.topology.degree.to(message.dtype).unsqueeze(1)
    sums = edges.sum(torch.cat([message, message * message], 1))
    mean, squares = (sums / degree.clamp(min=1)).chunk(2, 1)
    high, low = edges.max(torch.cat([message, -message], 1)).chunk(2, 1)
    spread = (squares - mean * mean).clamp(min=LEAST_VARIANCE).sqrt()
    spread = spread.masked_fill(spread <= math.sqrt(LEAST_VARIANCE), 0.0)
    found = torch.cat([mean, -low, high, spread], 1)
    up, down = (degree + 1).log() / delta, delta / (degree.clamp(min=1) + 1).log()
    return torch.cat([found, found * up, found * down], 1)


class _Aggregate(Function):
    @staticmethod
    def forward(ctx: Any, message: Tensor, edges: Incidence, delta: Tensor) -> Tensor:
        from smpgnn.ops.aggregate import kernel

        out: Tensor = kernel.aggregate(message, *edges.arriving_order, delta, LEAST_VARIANCE)
        ctx.save_for_backward(message, out, delta)
        ctx.edges = edges
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        message, out, delta = ctx.saved_tensors
        edges: Incidence = ctx.edges
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda given: aggregate_reference(given, edges, delta), (message,), [grad]
            )
            return *again, None, None
        from smpgnn.ops.aggregate import kernel

        dx = kernel.aggregate_backward(grad, message, out, *edges.arriving_order, delta)
        return dx, None, None
