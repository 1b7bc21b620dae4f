"""Mean, least, largest and spread of the messages of every node, a node a program."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import acc_type, clear_tail, columns, launcher, listed, load_rows, store_rows

_BLOCK = 16


@triton.jit
def _scalers(first, last, delta, ACC: tl.constexpr):
    """The factors log(d + 1) / δ and δ / log(d + 1) of a node with d messages."""
    d = tl.load(delta).to(ACC)
    n = (last - first).to(ACC)
    return tl.log(n + 1.0) / d, d / tl.log(tl.maximum(n, 1.0) + 1.0)


@triton.jit
def _store(at, mean, low, high, spread, C, there):
    tl.store(at, mean, mask=there)
    tl.store(at + C, low, mask=there)
    tl.store(at + 2 * C, high, mask=there)
    tl.store(at + 3 * C, spread, mask=there)


@triton.jit
def _forward(
    x, order, delta, out, ptr, C, LEAST: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr,
    GATHER: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    n = tl.maximum((last - first).to(ACC), 1.0)
    total, squares = tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    high = tl.full([BC], -float("inf"), ACC)
    low = tl.full([BC], float("inf"), ACC)
    for start in range(first, last, BLOCK):
        r, live = listed(start, last, order, GATHER, BLOCK)
        tile = load_rows(x, r, live, c, C).to(ACC)
        total += tl.sum(tile, axis=0)
        high = tl.maximum(high, tl.max(tl.where(live[:, None], tile, -float("inf")), axis=0))
        low = tl.minimum(low, tl.min(tl.where(live[:, None], tile, float("inf")), axis=0))
    mean = total / n
    for start in range(first, last, BLOCK):
        r, live = listed(start, last, order, GATHER, BLOCK)
        gap = load_rows(x, r, live, c, C).to(ACC) - mean[None, :]
        squares += tl.sum(tl.where(live[:, None], gap * gap, 0.0), axis=0)
    high = tl.where(first < last, high, 0.0)
    low = tl.where(first < last, low, 0.0)
    variance = squares / n
    spread = tl.where(variance > LEAST, tl.sqrt(variance), 0.0)
    up, down = _scalers(first, last, delta, ACC)
    at, there = out + node.to(tl.int64) * 12 * C + c, c < C
    _store(at, mean, low, high, spread, C, there)
    _store(at + 4 * C, mean * up, low * up, high * up, spread * up, C, there)
    _store(at + 8 * C, mean * down, low * down, high * down, spread * down, C, there)


@triton.jit
def _one(grad, which: tl.constexpr, up, down, c, C, ACC: tl.constexpr):
    """The gradient of one aggregator, by way of all three scalers."""
    at, there = grad + which * C + c, c < C
    plain = tl.load(at, mask=there, other=0.0).to(ACC)
    plain += up * tl.load(at + 4 * C, mask=there, other=0.0).to(ACC)
    return plain + down * tl.load(at + 8 * C, mask=there, other=0.0).to(ACC)


@triton.jit
def _backward(
    grad, x, order, delta, out, dx, ptr, C, K, ROWS, BLOCK: tl.constexpr, BC: tl.constexpr,
    GATHER: tl.constexpr, PADDED: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    if PADDED:
        clear_tail(dx, ptr, K, ROWS, c, C, BLOCK)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    n = tl.maximum((last - first).to(ACC), 1.0)
    up, down = _scalers(first, last, delta, ACC)
    at, there = out + node.to(tl.int64) * 12 * C + c, c < C
    mean = tl.load(at, mask=there, other=0.0).to(ACC)
    low = tl.load(at + C, mask=there, other=0.0).to(ACC)
    high = tl.load(at + 2 * C, mask=there, other=0.0).to(ACC)
    spread = tl.load(at + 3 * C, mask=there, other=0.0).to(ACC)
    g = grad + node.to(tl.int64) * 12 * C
    d_mean = _one(g, 0, up, down, c, C, ACC) / n
    d_spread = _one(g, 3, up, down, c, C, ACC)
    d_spread = tl.where(spread > 0.0, d_spread / (n * tl.where(spread > 0.0, spread, 1.0)), 0.0)
    lowest, highest = tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    for start in range(first, last, BLOCK):
        r, live = listed(start, last, order, GATHER, BLOCK)
        tile = load_rows(x, r, live, c, C).to(ACC)
        lowest += tl.sum(tl.where((tile == low[None, :]) & live[:, None], 1.0, 0.0), axis=0)
        highest += tl.sum(tl.where((tile == high[None, :]) & live[:, None], 1.0, 0.0), axis=0)
    d_low = _one(g, 1, up, down, c, C, ACC) / tl.maximum(lowest, 1.0)
    d_high = _one(g, 2, up, down, c, C, ACC) / tl.maximum(highest, 1.0)
    for start in range(first, last, BLOCK):
        r, live = listed(start, last, order, GATHER, BLOCK)
        tile = load_rows(x, r, live, c, C).to(ACC)
        value = d_mean[None, :] + d_spread[None, :] * (tile - mean[None, :])
        value += tl.where(tile == low[None, :], d_low[None, :], 0.0)
        value += tl.where(tile == high[None, :], d_high[None, :], 0.0)
        store_rows(dx, value, r, live, c, C)


@launcher
def aggregate(
    message: Tensor, ptr: Tensor, order: Tensor | None, delta: Tensor, least: float
) -> Tensor:
    """See `smpgnn.ops.aggregate`; without an `order` messages lie by receiver."""
    count, channels = ptr.numel() - 1, message.size(1)
    out, (tile, tiles) = message.new_empty(count, 12 * channels), columns(channels)
    if count:
        _forward[(count, tiles)](
            message, ptr if order is None else order, delta, out, ptr, channels, least, _BLOCK,
            tile, order is not None, acc_type(message), num_warps=1,
        )  # fmt: skip
    return out


@launcher
def aggregate_backward(
    grad: Tensor, message: Tensor, out: Tensor, ptr: Tensor, order: Tensor | None, delta: Tensor
) -> Tensor:
    """The gradient of the messages; where there is no order, those past ptr[K] have none."""
    count, channels = ptr.numel() - 1, message.size(1)
    dx, (tile, tiles) = torch.empty_like(message), columns(channels)
    if count:
        _backward[(count, tiles)](
            grad, message, ptr if order is None else order, delta, out, dx, ptr, channels, count,
            message.size(0), _BLOCK, tile, order is not None, order is None, acc_type(message),
            num_warps=1,
        )  # fmt: skip
    return dx
