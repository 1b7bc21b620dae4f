"""Rectified messages of a sender and an edge, summed: one launch, and one for the gradients."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import (
    acc_type,
    clear_tail,
    columns,
    launcher,
    listed,
    load_rows,
    load_vector,
    store_rows,
)

_BLOCK = 16


@triton.jit
def _forward(
    x, term, sender, order, ptr, out, C,
    BLOCK: tl.constexpr, BC: tl.constexpr, GATHER: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    total = load_vector(x + node * C, c, C, ACC)
    last = tl.load(ptr + node + 1)
    for start in range(tl.load(ptr + node), last, BLOCK):
        e, live = listed(start, last, order, GATHER, BLOCK)
        j = tl.load(sender + e, mask=live, other=0)
        value = load_rows(term, e, live, c, C).to(ACC) + load_rows(x, j, live, c, C).to(ACC)
        total += tl.sum(tl.maximum(value, 0.0), axis=0)
    tl.store(out + node * C + c, total, mask=c < C)


@triton.jit
def _backward(
    grad, x, term, receiver, order, ptr, arriving, dx, d_term, C, K, EDGES,
    BLOCK: tl.constexpr, BC: tl.constexpr, PADDED: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """A program has the edges that leave a node."""
    node = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    if PADDED:
        clear_tail(d_term, arriving, K, EDGES, c, C, BLOCK)
    here = load_vector(x + node * C, c, C, ACC)
    total = load_vector(grad + node * C, c, C, ACC)
    last = tl.load(ptr + node + 1)
    for start in range(tl.load(ptr + node), last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        e = tl.load(order + r, mask=live, other=0)
        i = tl.load(receiver + e, mask=live, other=0)
        value = load_rows(term, e, live, c, C).to(ACC) + here[None, :]
        back = tl.where(value > 0.0, load_rows(grad, i, live, c, C).to(ACC), 0.0)
        store_rows(d_term, back, e, live, c, C)
        total += tl.sum(back, axis=0)
    tl.store(dx + node * C + c, total, mask=c < C)


@launcher
def gine_sum(x: Tensor, term: Tensor, sender: Tensor, ptr: Tensor, order: Tensor | None) -> Tensor:
    """See `smpgnn.ops.gine_sum`; without an `order` edges lie by receiver."""
    (nodes, channels), out = x.shape, torch.empty_like(x)
    tile, tiles = columns(channels)
    if nodes:
        _forward[(nodes, tiles)](
            x, term, sender, ptr if order is None else order, ptr, out, channels, _BLOCK, tile,
            order is not None, acc_type(x), num_warps=1,
        )  # fmt: skip
    return out


@launcher
def gine_sum_backward(
    grad: Tensor,
    x: Tensor,
    term: Tensor,
    receiver: Tensor,
    leaving: tuple[Tensor, Tensor],
    arriving: Tensor,
    padded: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of x and of the term; where `padded`, edges past arriving[N] have none."""
    (nodes, channels), (ptr, order) = x.shape, leaving
    dx, d_term, (tile, tiles) = torch.empty_like(x), torch.empty_like(term), columns(channels)
    if nodes:
        _backward[(nodes, tiles)](
            grad, x, term, receiver, order, ptr, arriving, dx, d_term, channels, nodes,
            term.size(0), _BLOCK, tile, padded, acc_type(x), num_warps=1,
        )  # fmt: skip
    return dx, d_term
