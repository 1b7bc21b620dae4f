"""Means of contexts and the spread of all rows, in one pass; their gradient in one more."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.kernels.tiles import (
    acc_type,
    accumulator,
    clear_tail,
    context_tiling,
    load_rows,
    store_rows,
    width,
)


@triton.jit
def _moments(
    x, multiplicity, mean, squares, own_rows, ptr, own, C,
    BLOCK: tl.constexpr, BC: tl.constexpr, WEIGHTED: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.arange(0, BC)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    total = tl.zeros([BC], ACC)
    count = tl.zeros([1], ACC)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        tile = load_rows(x, r, r < last, c, C).to(ACC)
        if WEIGHTED:
            m = tl.load(multiplicity + r, mask=r < last, other=0).to(ACC)
            tile = tile * m[:, None]
            count += tl.sum(m)
        total += tl.sum(tile, axis=0)
    if not WEIGHTED:
        count += (last - first).to(ACC)
    middle = total / tl.maximum(count, 1.0)
    spread = tl.zeros([BC], ACC)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        tile = load_rows(x, r, r < last, c, C).to(ACC) - middle[None, :]
        tile = tl.where((r < last)[:, None], tile, 0.0)
        if WEIGHTED:
            m = tl.load(multiplicity + r, mask=r < last, other=0).to(ACC)
            spread += tl.sum(tile * tile * m[:, None], axis=0)
        else:
            spread += tl.sum(tile * tile, axis=0)
    at = tl.load(own + node).to(tl.int64)
    there = c < C
    tl.store(own_rows + node * C + c, tl.load(x + at * C + c, mask=there), mask=there)
    tl.store(mean + node * C + c, middle, mask=there)
    tl.store(squares + node * C + c, spread, mask=there)


@triton.jit
def _moments_backward(
    grad, x, multiplicity, count, d_own, d_mean, d_squares, middle, out, ptr, own, C, K, ROWS,
    BLOCK: tl.constexpr, BC: tl.constexpr, WEIGHTED: tl.constexpr, SQUARES: tl.constexpr,
    GRAD: tl.constexpr, MEAN: tl.constexpr, OWN: tl.constexpr, PADDED: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.arange(0, BC)
    there = c < C
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    if PADDED:
        clear_tail(out, ptr, K, ROWS, c, C, BLOCK)
    at = tl.load(own + node)
    share, mine = tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    if MEAN:
        n = tl.maximum(tl.load(count + node).to(ACC), 1.0)
        share = tl.load(d_mean + node * C + c, mask=there, other=0.0).to(ACC) / n
    if OWN:
        mine = tl.load(d_own + node * C + c, mask=there, other=0.0).to(ACC)
    if SQUARES:
        slope = 2 * tl.load(d_squares + c, mask=there, other=0.0).to(ACC)
        center = tl.load(middle + c, mask=there, other=0.0).to(ACC)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        value = tl.zeros([BLOCK, BC], ACC) + share[None, :]
        if SQUARES:
            value += slope[None, :] * (load_rows(x, r, live, c, C).to(ACC) - center[None, :])
        if WEIGHTED:
            value = value * tl.load(multiplicity + r, mask=live, other=0).to(ACC)[:, None]
        value += tl.where(r == at, 1.0, 0.0).to(ACC)[:, None] * mine[None, :]
        if GRAD:
            value += load_rows(grad, r, live, c, C).to(ACC)
        store_rows(out, value, r, live, c, C)


@triton.jit
def _sums(x, both, ptr, own, C, BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr):
    node = tl.program_id(0)
    c = tl.arange(0, BC)
    there = c < C
    last = tl.load(ptr + node + 1)
    column = tl.zeros([BC], ACC)
    for start in range(tl.load(ptr + node), last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        column += tl.sum(load_rows(x, r, r < last, c, C).to(ACC), axis=0)
    at = tl.load(own + node).to(tl.int64)
    line = both + node * 2 * C + c
    tl.store(line + C, tl.load(x + at * C + c, mask=there).to(ACC), mask=there)
    tl.store(line, column, mask=there)


def sums(rows: Tensor, ptr: Tensor, own: Tensor) -> Tensor:
    """The sum and the own row of each context, side by side, [K, 2 C]."""
    contexts, channels = own.numel(), rows.size(1)
    both = rows.new_empty(contexts, 2 * channels, dtype=accumulator(rows))
    layout = context_tiling("sums", rows, contexts, channels)
    if contexts:
        _sums[(contexts,)](
            rows, both, ptr, own, channels, layout.block, width(channels), acc_type(rows),
            **layout.launch,
        )  # fmt: skip
    return both


def moments(
    rows: Tensor, ptr: Tensor, own: Tensor, multiplicity: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Own row, mean and centred squares of each context, [K, C] each."""
    contexts, channels = own.numel(), rows.size(1)
    acc = accumulator(rows)
    mean = rows.new_empty(contexts, channels, dtype=acc)
    squares, own_rows = torch.empty_like(mean), rows.new_empty(contexts, channels)
    layout = context_tiling("moments", rows, contexts, channels)
    if contexts:
        _moments[(contexts,)](
            rows, ptr if multiplicity is None else multiplicity, mean, squares, own_rows, ptr, own,
            channels, layout.block, width(channels), multiplicity is not None, acc_type(rows),
            **layout.launch,
        )  # fmt: skip
    return own_rows, mean, squares


def moments_backward(
    grad: Tensor | None,
    rows: Tensor,
    d_own: Tensor | None,
    d_mean: Tensor | None,
    d_squares: Tensor | None,
    middle: Tensor,
    ptr: Tensor,
    own: Tensor,
    count: Tensor,
    multiplicity: Tensor | None,
    padded: bool,
) -> Tensor:
    """Gradient of the rows: what arrived, and what own row, mean and squares add to it."""
    contexts, channels = own.numel(), rows.size(1)
    out = torch.empty_like(rows)
    layout = context_tiling("moments_backward", rows, contexts, channels)
    if contexts:
        _moments_backward[(contexts,)](
            rows if grad is None else grad, rows, count if multiplicity is None else multiplicity,
            count, rows if d_own is None else d_own, rows if d_mean is None else d_mean,
            middle if d_squares is None else d_squares, middle, out, ptr, own,
            channels, contexts, rows.size(0), layout.block, width(channels),
            multiplicity is not None, d_squares is not None, grad is not None, d_mean is not None,
            d_own is not None, padded,
            acc_type(rows), **layout.launch,
        )  # fmt: skip
    return out
