"""Set2Set as one operation: a recurrent unit that reads the nodes of a graph several times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from smpgnn.ops.backend import fused_product, opaque, plain_gradients, transformed


@dataclass(frozen=True, eq=False)
class NodeSets:
    """Which nodes belong to which graph.

    Args:
        ptr: graph b owns the nodes ptr[b]:ptr[b+1].
        owner: the graph of each node.
        counted: 0 for graphs whose results nobody reads; None: there are none. The kernels take
            them for empty.

    Shapes: ptr [B + 1], owner [N], counted [B] or None.
    """

    ptr: Tensor
    owner: Tensor
    counted: Tensor | None = None


@opaque
def set_to_set(x: Tensor, weights: tuple[Tensor, ...], steps: int, sets: NodeSets) -> Tensor:
    r"""Hidden state and what was read, after the last step; zero before the first.

    .. math:: h_t, c_t = \text{LSTM}([h_{t-1}, r_{t-1}], h_{t-1}, c_{t-1}), \quad
              r_t = \sum_i \text{softmax}_i(x_i \cdot h_t)\, x_i

    Args:
        x: features of the nodes.
        weights: those of `nn.LSTMCell` in its order: two matrices, of input and hidden state, and
            two biases.
        steps: how many times the nodes are read.
        sets: the nodes of each graph.

    Shapes: x [N, C], weights [4 C, 2 C], [4 C, C], [4 C], [4 C], result [B, 2 C] of the type of x.
    """
    if not fused_product(x, weights[1][: x.size(1)]):
        return set_to_set_reference(x, weights, steps, sets)
    result: Tensor = _SetToSet.apply(x, steps, sets, *weights)  # type: ignore[no-untyped-call]
    return result


def set_to_set_reference(
    x: Tensor, weights: tuple[Tensor, ...], steps: int, sets: NodeSets
) -> Tensor:
    """The same step by step, in plain torch."""
    weights = tuple(weight.to(x.dtype) for weight in weights)
    hidden = memory = read = x.new_zeros(sets.ptr.numel() - 1, x.size(1))
    state = torch.cat([hidden, read], dim=1)
    for _ in range(steps):
        hidden, memory = _lstm_cell(state, (hidden, memory), weights)
        read = attend(x, hidden.to(x.dtype), sets.owner)
        state = torch.cat([hidden, read], dim=1)
    return state


def _lstm_cell(
    given: Tensor, state: tuple[Tensor, Tensor], weights: tuple[Tensor, ...]
) -> tuple[Tensor, Tensor]:
    if not transformed():
        hidden, memory = torch.lstm_cell(given, state, *weights)
        return hidden, memory
    # the fused cell of a GPU has no forward-mode derivative
    of_input, of_state, bias, state_bias = weights
    gates = F.linear(given, of_input, bias) + F.linear(state[0], of_state, state_bias)
    write, forget, new, out = gates.chunk(4, dim=1)
    memory = forget.sigmoid() * state[1] + write.sigmoid() * new.tanh()
    return out.sigmoid() * memory.tanh(), memory


def attend(x: Tensor, query: Tensor, owner: Tensor) -> Tensor:
    """Σ_i softmax_i(x_i · q_b) x_i over the nodes i of every graph b; zero for an empty graph.

    Shapes: x [N, C], query [B, C], owner [N], result [B, C].
    """
    if transformed():
        return attend_reference(x, query, owner)
    result: Tensor = _Attend.apply(x, query, owner)  # type: ignore[no-untyped-call]
    return result


def attend_reference(x: Tensor, query: Tensor, owner: Tensor) -> Tensor:
    weights = softmax_weights(x, query, owner)
    read = (weights.unsqueeze(1) * x).to(query.dtype)
    return torch.zeros_like(query).index_add(0, owner, read)


def softmax_weights(x: Tensor, query: Tensor, owner: Tensor) -> Tensor:
    """softmax_i(x_i · q_b) over the nodes i of every graph b, [N]."""
    scores = (x * query.index_select(0, owner)).sum(1)
    top = scores.new_full((query.size(0),), -torch.inf)
    top = top.scatter_reduce(0, owner, scores.detach(), "amax")
    weights = (scores - top.index_select(0, owner)).exp()
    total = weights.new_zeros(query.size(0)).index_add(0, owner, weights)
    return weights / total.index_select(0, owner)


class _Attend(Function):
    """Keeps one number a node; autograd would keep several rows of each."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, query: Tensor, owner: Tensor) -> Tensor:
        weights = softmax_weights(x, query, owner)
        ctx.save_for_backward(x, query, owner, weights)
        read = (weights.unsqueeze(1) * x).to(query.dtype)  # autocast may have made it wider
        return torch.zeros_like(query).index_add_(0, owner, read)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, query, owner, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda x, query: attend_reference(x, query, owner), (x, query), [grad]
            )
            return *again, None
        spread = grad.index_select(0, owner)
        pull = weights * (x * spread).sum(1)
        mean = pull.new_zeros(grad.size(0)).index_add_(0, owner, pull)
        ds = torch.addcmul(pull, weights, mean.index_select(0, owner), value=-1).unsqueeze(1)
        dx = (weights.unsqueeze(1) * spread).addcmul_(ds, query.index_select(0, owner))
        d_query = (ds * x).to(query.dtype)
        return dx.to(x.dtype), torch.zeros_like(query).index_add_(0, owner, d_query), None


class _SetToSet(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, steps: int, sets: NodeSets, *weights: Tensor) -> Tensor:
        from smpgnn.ops.set_to_set import kernel

        ctx.steps, ctx.sets = steps, sets
        out: Tensor
        out, kept = kernel.set_to_set(x, list(weights), steps, sets.ptr, sets.counted)
        ctx.save_for_backward(x, kept, *weights)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, kept, *weights = ctx.saved_tensors
        steps, sets = ctx.steps, ctx.sets
        if torch.is_grad_enabled():
            dx, *slopes = plain_gradients(
                lambda x, *weights: set_to_set_reference(x, weights, steps, sets),
                (x, *weights),
                [grad],
            )
            return dx, None, None, *slopes
        from smpgnn.ops.set_to_set import kernel

        dx, flat = kernel.set_to_set_backward(grad, x, weights, kept, sets.ptr, sets.counted)
        parts = flat.split([weight.numel() for weight in weights])
        pairs = zip(parts, weights, strict=True)
        return dx, None, None, *(part.view(w.shape).to(w.dtype) for part, w in pairs)
