"""Own rows and means of contexts, and the statistics of all rows, in one pass."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import (
    acc_type,
    accumulator,
    clear_tail,
    context_tiling,
    launcher,
    load_rows,
    load_vector,
    store_rows,
    width,
)

_TILE = 64
_STATISTICS = 64


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
def _statistics(
    mean, within, count, parts, K, C, TILE: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr
):
    """Sums of n (mean − m₀), of squares about m₀, and of n, where m₀ is the first mean."""
    c = tl.arange(0, BC)
    origin = load_vector(mean, c, C, ACC)
    first, second = tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    total = tl.zeros([BC], ACC)
    for start in range(tl.program_id(0) * TILE, K, tl.num_programs(0) * TILE):
        i = start + tl.arange(0, TILE)
        live = i < K
        n = tl.load(count + i, mask=live, other=0).to(ACC)[:, None]
        gap = load_rows(mean, i, live, c, C).to(ACC) - origin[None, :]
        first += tl.sum(n * gap, axis=0)
        second += tl.sum(n * gap * gap + load_rows(within, i, live, c, C).to(ACC), axis=0)
        total += tl.sum(n + tl.zeros([TILE, BC], ACC), axis=0)
    at = parts + tl.program_id(0) * 3 * C + c
    tl.store(at, first, mask=c < C)
    tl.store(at + C, second, mask=c < C)
    tl.store(at + 2 * C, total, mask=c < C)


@triton.jit
def _finish(
    parts, mean, middle, squares, total, G, C, ROWS: tl.constexpr, BC: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, BC)
    g = tl.arange(0, ROWS)
    first = tl.sum(load_rows(parts, g * 3, g < G, c, C), axis=0)
    second = tl.sum(load_rows(parts + C, g * 3, g < G, c, C), axis=0)
    n = tl.sum(load_rows(parts + 2 * C, g * 3, g < G, c, C), axis=0)
    n = tl.maximum(n, 1.0)
    tl.store(middle + c, load_vector(mean, c, C, ACC) + first / n, mask=c < C)
    tl.store(squares + c, tl.maximum(second - first * first / n, 0.0), mask=c < C)
    tl.store(total + tl.zeros_like(c), n, mask=c < 1)


@launcher
def measure(
    rows: Tensor,
    ptr: Tensor,
    own: Tensor,
    count: Tensor,
    multiplicity: Tensor | None,
    squares: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Own row and mean of each context; mean, centred squares and number of all rows."""
    own_rows, mean, within = moments(rows, ptr, own, multiplicity)
    if not squares:
        middle, spread, total = (mean.new_empty(size) for size in (rows.size(1), rows.size(1), 1))
        return own_rows, mean, middle, spread, total  # the last three are not used
    return own_rows, mean, *statistics(mean, within, count)


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


def statistics(mean: Tensor, within: Tensor, count: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The mean of all rows, their centred squares [C] and their number [1].

    From the mean and the centred squares of each context [K, C] and its number of rows [K].
    """
    contexts, channels = mean.shape
    programs = max(1, min(_STATISTICS, triton.cdiv(contexts, _TILE)))
    parts = mean.new_empty(programs, 3, channels)
    middle, squares, total = (
        parts.new_empty(channels),
        parts.new_empty(channels),
        parts.new_empty(1),
    )
    if contexts == 0:
        return middle.zero_(), squares.zero_(), total.fill_(1)
    _statistics[(programs,)](
        mean, within, count, parts, contexts, channels, _TILE, width(channels), acc_type(mean)
    )
    _finish[(1,)](
        parts, mean, middle, squares, total, programs, channels, _STATISTICS, width(channels),
        acc_type(mean),
    )  # fmt: skip
    return middle, squares, total


@launcher
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
    """The gradient of the rows, plus those through own rows, means and squares."""
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
