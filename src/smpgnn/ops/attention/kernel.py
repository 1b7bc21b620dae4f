"""Attention over neighbours, a node and a head a program: one launch, and two for the gradients."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import acc_type, clear_tail, launcher, listed, load_vector, width

_BLOCK = 16


@triton.jit
def _leaky(value, SLOPE: tl.constexpr):
    return tl.where(value > 0.0, value, value * SLOPE)


@triton.jit
def _edges(
    start, last, order, sender, part, node, head, HEADS, EDGES: tl.constexpr,
    GATHER: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Edges of a tile, which are there, which count (no loops), their senders and their part."""
    e, here = listed(start, last, order, GATHER, BLOCK)
    e = e.to(tl.int64)
    j = tl.load(sender + e, mask=here, other=0).to(tl.int64)
    live = here & (j != node)
    extra = tl.zeros([BLOCK], ACC)
    if EDGES:
        extra += tl.load(part + e * HEADS + head, mask=live, other=0.0).to(ACC)
    return e, here, live, j, extra


@triton.jit
def _values(x, j, live, head, h, C, HEADS, ACC: tl.constexpr):
    """The channels h of a head at these nodes."""
    at = x + (j[:, None] * HEADS + head) * C + h[None, :]
    return tl.load(at, mask=live[:, None] & (h[None, :] < C), other=0.0).to(ACC)


@triton.jit
def _attend(
    x, src, dst, part, sender, order, first, last, node, head, h, C, HEADS,
    SLOPE: tl.constexpr, EDGES: tl.constexpr, GATHER: tl.constexpr, BLOCK: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """The mean and what it is made of: own values, scores, their top and the sum of the weights."""
    a_src, a_dst = load_vector(src + head * C, h, C, ACC), load_vector(dst + head * C, h, C, ACC)
    v = load_vector(x + (node * HEADS + head) * C, h, C, ACC)
    received = tl.sum(v * a_dst, axis=0)
    extras, count = received * 0.0, received * 0.0
    top = tl.full([1], -float("inf"), ACC)
    for start in range(first, last, BLOCK):
        _e, _here, live, j, extra = _edges(
            start, last, order, sender, part, node, head, HEADS, EDGES, GATHER, BLOCK, ACC
        )
        others = _values(x, j, live, head, h, C, HEADS, ACC)
        score = _leaky(tl.sum(others * a_src[None, :], axis=1) + received + extra, SLOPE)
        top = tl.maximum(top, tl.max(tl.where(live, score, -float("inf")), axis=0))
        extras += tl.sum(extra, axis=0)
        count += tl.sum(tl.where(live, 1.0, 0.0).to(ACC), axis=0)
    count = tl.maximum(count, 1.0)
    own = tl.sum(v * a_src, axis=0) + received + extras / count
    top = tl.max(tl.maximum(top, _leaky(own, SLOPE)), axis=0)
    norm = tl.exp(_leaky(own, SLOPE) - top)
    total = v * norm
    for start in range(first, last, BLOCK):
        _e, _here, live, j, extra = _edges(
            start, last, order, sender, part, node, head, HEADS, EDGES, GATHER, BLOCK, ACC
        )
        others = _values(x, j, live, head, h, C, HEADS, ACC)
        score = _leaky(tl.sum(others * a_src[None, :], axis=1) + received + extra, SLOPE)
        weight = tl.where(live, tl.exp(score - top), 0.0)
        norm += tl.sum(weight, axis=0)
        total += tl.sum(weight[:, None] * others, axis=0)
    return total / norm, v, a_src, received, own, count, top, norm


@triton.jit
def _forward(
    x, src, dst, bias, part, sender, order, ptr, out, C, HEADS,
    SLOPE: tl.constexpr, EDGES: tl.constexpr, GATHER: tl.constexpr, BLOCK: tl.constexpr,
    BH: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node, head, h = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, BH)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    mean, _v, _a, _r, _own, _count, _top, _norm = _attend(
        x, src, dst, part, sender, order, first, last, node, head, h, C, HEADS, SLOPE, EDGES,
        GATHER, BLOCK, ACC,
    )  # fmt: skip
    value = mean + load_vector(bias + head * C, h, C, ACC)
    value = tl.where(value > 0.0, value, tl.exp(tl.minimum(value, 0.0)) - 1.0)
    tl.store(out + (node * HEADS + head) * C + h, value, mask=h < C)


@triton.jit
def _to_receivers(
    grad, x, src, dst, bias, part, sender, order, ptr, back, own_parts, weights, slopes, d_part, C,
    HEADS, K, ROWS, SLOPE: tl.constexpr, EDGES: tl.constexpr, GATHER: tl.constexpr,
    BLOCK: tl.constexpr, BH: tl.constexpr, BHEADS: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradient before the elu, weights, and gradients of the scores of nodes and of edges."""
    node, head, h = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, BH)
    if EDGES and not GATHER:
        clear_tail(d_part, ptr, K, ROWS, tl.arange(0, BHEADS), HEADS, BLOCK)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    mean, v, a_src, received, own, count, top, norm = _attend(
        x, src, dst, part, sender, order, first, last, node, head, h, C, HEADS, SLOPE, EDGES,
        GATHER, BLOCK, ACC,
    )  # fmt: skip
    value = mean + load_vector(bias + head * C, h, C, ACC)
    g = load_vector(grad + (node * HEADS + head) * C, h, C, ACC)
    g = tl.where(value > 0.0, g, g * tl.exp(tl.minimum(value, 0.0)))
    tl.store(back + (node * HEADS + head) * C + h, g, mask=h < C)
    common = tl.sum(g * mean, axis=0)
    own_weight = tl.exp(_leaky(own, SLOPE) - top) / norm
    own_slope = own_weight * (tl.sum(g * v, axis=0) - common)
    own_slope = tl.where(own > 0.0, own_slope, own_slope * SLOPE)
    total = own_slope
    for start in range(first, last, BLOCK):
        e, here, live, j, extra = _edges(
            start, last, order, sender, part, node, head, HEADS, EDGES, GATHER, BLOCK, ACC
        )
        others = _values(x, j, live, head, h, C, HEADS, ACC)
        score = tl.sum(others * a_src[None, :], axis=1) + received + extra
        weight = tl.where(live, tl.exp(_leaky(score, SLOPE) - top) / norm, 0.0)
        slope = weight * (tl.sum(others * g[None, :], axis=1) - common)
        slope = tl.where(score > 0.0, slope, slope * SLOPE)
        total += tl.sum(slope, axis=0)
        tl.store(weights + e * HEADS + head, weight, mask=here)
        tl.store(slopes + e * HEADS + head, slope, mask=here)
        if EDGES:
            both = tl.where(live, slope + own_slope / count, 0.0)
            tl.store(d_part + e * HEADS + head, both, mask=here)
    at = own_parts + (node * HEADS + head) * 3
    tl.store(at, own_weight)
    tl.store(at + 1, own_slope)
    tl.store(at + 2, total)


@triton.jit
def _to_senders(
    back, src, dst, own_parts, weights, slopes, receiver, order, ptr, dx, d_scores, C, HEADS,
    BLOCK: tl.constexpr, BH: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of the values, and of the scores that a node has as sender and as receiver."""
    node, head, h = tl.program_id(0).to(tl.int64), tl.program_id(1), tl.arange(0, BH)
    at = own_parts + (node * HEADS + head) * 3
    sent, received = tl.load(at + 1).to(ACC), tl.load(at + 2).to(ACC)
    total = tl.load(at) * load_vector(back + (node * HEADS + head) * C, h, C, ACC)
    last = tl.load(ptr + node + 1)
    for start in range(tl.load(ptr + node), last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        e = tl.load(order + r, mask=live, other=0).to(tl.int64)
        i = tl.load(receiver + e, mask=live, other=0).to(tl.int64)
        weight = tl.load(weights + e * HEADS + head, mask=live, other=0.0)
        sent += tl.sum(tl.load(slopes + e * HEADS + head, mask=live, other=0.0).to(ACC), axis=0)
        total += tl.sum(weight[:, None] * _values(back, i, live, head, h, C, HEADS, ACC), axis=0)
    total += sent * load_vector(src + head * C, h, C, ACC)
    total += received * load_vector(dst + head * C, h, C, ACC)
    tl.store(dx + (node * HEADS + head) * C + h, total, mask=h < C)
    tl.store(d_scores + (node * HEADS + head) * 2, sent)
    tl.store(d_scores + (node * HEADS + head) * 2 + 1, received)


@launcher
def attention(
    values: Tensor,
    maps: tuple[Tensor, Tensor, Tensor],
    part: Tensor | None,
    sender: Tensor,
    ptr: Tensor,
    order: Tensor | None,
    slope: float,
) -> Tensor:
    """See `smpgnn.ops.attention`; `maps` are those of senders and receivers, and the bias."""
    nodes, heads, channels = values.shape
    out = torch.empty_like(values)
    if nodes:
        _forward[(nodes, heads)](
            values, *maps, values if part is None else part, sender,
            ptr if order is None else order, ptr, out, channels, heads, slope, part is not None,
            order is not None, _BLOCK, width(channels), acc_type(values), num_warps=1,
        )  # fmt: skip
    return out


@launcher
def attention_backward(
    grad: Tensor,
    values: Tensor,
    maps: tuple[Tensor, Tensor, Tensor],
    part: Tensor | None,
    ends: tuple[Tensor, Tensor],
    arriving: tuple[Tensor, Tensor | None],
    leaving: tuple[Tensor, Tensor],
    slope: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of values, of the scores of senders and receivers, before the elu, and of `part`.

    Shapes: [N, H, C], [N, H, 2], [N, H, C] and [E, H].
    """
    (nodes, heads, channels), (sender, receiver) = values.shape, ends
    dx, back = torch.empty_like(values), torch.empty_like(values)
    d_scores, own_parts = (values.new_empty(nodes, heads, size) for size in (2, 3))
    weights, slopes = (values.new_empty(sender.numel(), heads) for _ in range(2))
    d_part = slopes if part is None else torch.empty_like(part)
    ptr, order = arriving
    if nodes:
        _to_receivers[(nodes, heads)](
            grad, values, *maps, values if part is None else part, sender,
            ptr if order is None else order, ptr, back, own_parts, weights, slopes, d_part,
            channels, heads, nodes, sender.numel(), slope, part is not None, order is not None,
            _BLOCK, width(channels), width(heads), acc_type(values), num_warps=1,
        )  # fmt: skip
        ptr, order = leaving
        _to_senders[(nodes, heads)](
            back, *maps[:2], own_parts, weights, slopes, receiver, order, ptr, dx, d_scores,
            channels, heads, _BLOCK, width(channels), acc_type(values), num_warps=1,
        )  # fmt: skip
    return dx, d_scores, back, d_part
