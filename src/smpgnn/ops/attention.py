"""Attention over the nodes of each graph: the read step of Set2Set."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.ops.backend import differentiable_gradients, fused, opaque


@opaque
def attend(values: Tensor, query: Tensor, ptr: Tensor, owner: Tensor) -> Tensor:
    r"""Σ_i softmax_i(x_i · q_b) x_i over the nodes i of every graph b; zero for an empty graph.

    Shapes: values [N, C], query [B, C], ptr [B + 1], owner [N] (the graph of each node).
    """
    result: Tensor = _Attend.apply(values, query.to(values.dtype), ptr, owner)  # type: ignore[no-untyped-call]
    return result


def attend_reference(values: Tensor, query: Tensor, ptr: Tensor, owner: Tensor) -> Tensor:
    """The same from parts; derivatives of any order through autograd."""
    count = ptr.numel() - 1
    scores = (values * query.index_select(0, owner)).sum(1)
    top = scores.new_full((count,), -torch.inf)
    top.scatter_reduce_(0, owner, scores.detach(), "amax")
    weights = (scores - top.index_select(0, owner)).exp()
    total = weights.new_zeros(count).index_add(0, owner, weights)
    weights = weights / total.index_select(0, owner)
    return torch.zeros_like(query).index_add(0, owner, weights.unsqueeze(1) * values)


class _Attend(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, query: Tensor, ptr: Tensor, owner: Tensor) -> Tensor:
        if fused(values):
            from smpgnn.ops import cuda

            out: Tensor
            out, level = cuda.attend(values, query, ptr)
            ctx.save_for_backward(values, query, ptr, owner, out, level)
            return out
        ctx.save_for_backward(values, query, ptr, owner)
        return attend_reference(values, query, ptr, owner)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        values, query, ptr, owner, *rest = ctx.saved_tensors
        if rest and not torch.is_grad_enabled():
            from smpgnn.ops import cuda

            return *cuda.attend_backward(grad, values, query, *rest, ptr), None, None
        again = torch.is_grad_enabled()
        inputs = (values, query) if again else (values.detach(), query.detach())
        if not again:
            for value in inputs:
                value.requires_grad_()
        found = differentiable_gradients(
            lambda values, query: attend_reference(values, query, ptr, owner), inputs, [grad]
        )
        return *(g if again or g is None else g.detach() for g in found), None, None
