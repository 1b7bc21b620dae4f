"""Attention over the neighbours of a node and the node itself (for GAT)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from smpgnn.ops.backend import fused, opaque, plain_gradients

if TYPE_CHECKING:
    from smpgnn.contexts.incidence import Incidence


@opaque
def attention(
    values: Tensor,
    sender: Tensor,
    receiver: Tensor,
    bias: Tensor,
    part: Tensor | None,
    edges: Incidence,
    slope: float,
) -> Tensor:
    r"""The elu of values averaged by attention, in every head.

    .. math:: \text{elu}\Bigl(\sum_{j \in N_i \cup \{i\}} \alpha_{ij} v_j + b\Bigr), \quad
        \alpha_{ij} = \text{softmax}_j\bigl(\text{leakyrelu}(
            a_r^\top v_i + a_s^\top v_j + \text{part}_{ij})\bigr)

    The part of a node with itself is the mean of those that arrive; self loops count once.

    Shapes: values [N, H, C], sender, receiver, bias [H, C], part [E, H] or None, result [N, H, C].
    """
    values = values.to(sender.dtype)
    part = None if part is None else part.to(sender.dtype)
    if not fused(values):
        return attention_reference(values, sender, receiver, bias, part, edges, slope)
    result: Tensor = _Attention.apply(values, sender, receiver, bias, part, edges, slope)  # type: ignore[no-untyped-call]
    return result


def attention_reference(
    values: Tensor,
    sender: Tensor,
    receiver: Tensor,
    bias: Tensor,
    part: Tensor | None,
    edges: Incidence,
    slope: float,
) -> Tensor:
    """The same in plain torch."""
    nodes, heads, channels = values.shape
    sent, own = ((values * map).sum(-1) for map in (sender, receiver))  # [N, H]
    scores, own_scores = _scores(sent, own, part, edges, slope)
    # Relative to the score of the node itself, and no exponent above 0.
    scores = scores - edges.from_receivers(own_scores)
    top = edges.max(scores.detach()).clamp(min=0)
    weights, own_weights = (scores - edges.from_receivers(top)).exp(), (-top).exp()
    arriving = edges.from_senders(values.flatten(1)).view(-1, heads, channels)
    arriving = arriving * weights.unsqueeze(2)
    sums = edges.sum(torch.cat([arriving.flatten(1), weights], 1))
    total = sums[:, :-heads].view(nodes, heads, channels) + values * own_weights.unsqueeze(2)
    norm = sums[:, -heads:] + own_weights
    return F.elu(total / norm.unsqueeze(2) + bias)


def _scores(
    sent: Tensor, own: Tensor, part: Tensor | None, edges: Incidence, slope: float
) -> tuple[Tensor, Tensor]:
    """Scores of the edges [E, H], −∞ for self loops, and of each node with itself [N, H]."""
    loop = (edges.topology.sender == edges.topology.receiver).unsqueeze(1)
    scores, own_scores = edges.from_senders(sent) + edges.from_receivers(own), sent + own
    if part is not None:
        counted = torch.cat([part, torch.ones_like(part[:, :1])], 1).masked_fill(loop, 0.0)
        sums = edges.sum(counted)
        scores = scores + part
        own_scores = own_scores + sums[:, :-1] / sums[:, -1:].clamp(min=1)
    scores = F.leaky_relu(scores, slope).masked_fill(loop, -torch.inf)
    return scores, F.leaky_relu(own_scores, slope)


class _Attention(Function):
    @staticmethod
    def forward(
        ctx: Any, values: Tensor, sender: Tensor, receiver: Tensor, bias: Tensor,
        part: Tensor | None, edges: Incidence, slope: float,
    ) -> Tensor:  # fmt: skip
        from smpgnn.ops.attention import kernel

        ctx.save_for_backward(values, sender, receiver, bias, part)
        ctx.edges, ctx.slope = edges, slope
        out: Tensor = kernel.attention(
            values, (sender, receiver, bias), part, edges.topology.sender, *edges.arriving_order,
            slope,
        )  # fmt: skip
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        values, sender, receiver, bias, part = given = ctx.saved_tensors
        edges: Incidence = ctx.edges
        if torch.is_grad_enabled():
            inputs = given[:4] if part is None else given
            again = plain_gradients(
                lambda v, s, r, b, p=None: attention_reference(v, s, r, b, p, edges, ctx.slope),
                inputs,
                [grad],
            )
            return *again, *(None,) * (7 - len(again))
        from smpgnn.ops.attention import kernel

        topology = edges.topology
        dx, d_scores, back, d_part = kernel.attention_backward(
            grad, values, (sender, receiver, bias), part, (topology.sender, topology.receiver),
            edges.arriving_order, topology.edges_by_sender, ctx.slope,
        )  # fmt: skip
        d_maps = torch.bmm(d_scores.permute(1, 2, 0), values.transpose(0, 1))  # [H, 2, C]
        d_part = None if part is None else d_part
        return dx, d_maps[:, 0], d_maps[:, 1], back.sum(0), d_part, None, None
