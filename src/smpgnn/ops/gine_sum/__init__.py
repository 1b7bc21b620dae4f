"""Rectified messages of a sender and an edge, summed at the receiver (for GINE)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.ops.backend import fused, opaque, plain_gradients

if TYPE_CHECKING:
    from smpgnn.contexts.incidence import Incidence


@opaque
def gine_sum(x: Tensor, term: Tensor, edges: Incidence) -> Tensor:
    """x_i + Σ_j relu(x_j + term_ij). Shapes: x [N, C], term [E, C], result [N, C]."""
    dtype = torch.promote_types(x.dtype, term.dtype)
    x, term = x.to(dtype), term.to(dtype)
    if not fused(x):
        return gine_sum_reference(x, term, edges)
    result: Tensor = _GineSum.apply(x, term, edges)  # type: ignore[no-untyped-call]
    return result


def gine_sum_reference(x: Tensor, term: Tensor, edges: Incidence) -> Tensor:
    """The same in plain torch."""
    return x + edges.sum((edges.from_senders(x) + term).relu())


class _GineSum(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, term: Tensor, edges: Incidence) -> Tensor:
        from smpgnn.ops.gine_sum import kernel

        ctx.save_for_backward(x, term)
        ctx.edges = edges
        out: Tensor = kernel.gine_sum(x, term, edges.topology.sender, *edges.arriving_order)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, term = ctx.saved_tensors
        edges: Incidence = ctx.edges
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda x, term: gine_sum_reference(x, term, edges), (x, term), [grad]
            )
            return *again, None
        from smpgnn.ops.gine_sum import kernel

        topology, (ptr, order) = edges.topology, edges.arriving_order
        dx, d_term = kernel.gine_sum_backward(
            grad, x, term, topology.receiver, topology.edges_by_sender, ptr, order is None
        )
        return dx, d_term, None
