"""Sums and maxima over segments of rows, one segment per program."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import (
    acc_type,
    clear_tail,
    columns,
    context_tiling,
    launcher,
    listed,
    load_rows,
    store_rows,
)


@triton.jit
def _sum(
    x, index, out, ptr, C,
    BLOCK: tl.constexpr, BC: tl.constexpr, GATHER: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    total = tl.zeros([BC], ACC)
    last = tl.load(ptr + node + 1)
    for start in range(tl.load(ptr + node), last, BLOCK):
        r, live = listed(start, last, index, GATHER, BLOCK)
        total += tl.sum(load_rows(x, r, live, c, C).to(ACC), axis=0)
    tl.store(out + node * C + c, total, mask=c < C)


@triton.jit
def _max(
    x, counted, out, ptr, C,
    BLOCK: tl.constexpr, BC: tl.constexpr, WEIGHTED: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    top = tl.full([BC], -float("inf"), ACC)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        tile = load_rows(x, r, live, c, C).to(ACC)
        if WEIGHTED:
            live = live & (tl.load(counted + r, mask=live, other=0) > 0)
        top = tl.maximum(top, tl.max(tl.where(live[:, None], tile, -float("inf")), axis=0))
    top = tl.where(first < last, top, 0.0)
    tl.store(out + node * C + c, top.to(out.dtype.element_ty), mask=c < C)


@triton.jit
def _max_backward(
    grad, x, top, counted, dx, ptr, C, K, ROWS,
    BLOCK: tl.constexpr, BC: tl.constexpr, WEIGHTED: tl.constexpr, PADDED: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    there = c < C
    if PADDED:
        clear_tail(dx, ptr, K, ROWS, c, C, BLOCK)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    best = tl.load(top + node * C + c, mask=there, other=0.0).to(ACC)
    g = tl.load(grad + node * C + c, mask=there, other=0.0).to(ACC)
    count = tl.zeros([BC], ACC)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        hit = (load_rows(x, r, live, c, C).to(ACC) == best[None, :]) & live[:, None]
        share = tl.where(hit, 1.0, 0.0).to(ACC)
        if WEIGHTED:
            share = share * tl.load(counted + r, mask=live, other=0).to(ACC)[:, None]
        count += tl.sum(share, axis=0)
    part = g / tl.maximum(count, 1.0)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        hit = (load_rows(x, r, live, c, C).to(ACC) == best[None, :]) & live[:, None]
        share = tl.where(hit, 1.0, 0.0).to(ACC)
        if WEIGHTED:
            share = share * tl.load(counted + r, mask=live, other=0).to(ACC)[:, None]
        store_rows(dx, share * part[None, :], r, live, c, C)


@launcher
def segment_sum(rows: Tensor, ptr: Tensor, index: Tensor | None) -> Tensor:
    """Sums of the rows index[ptr[k]:ptr[k+1]], or rows ptr[k]:ptr[k+1], [P, C] to [K, C]."""
    count, channels = ptr.numel() - 1, rows.size(1)
    out, (tile, tiles) = rows.new_empty(count, channels), columns(channels)
    if count:
        _sum[(count, tiles)](
            rows, ptr if index is None else index, out, ptr, channels, 16, tile,
            index is not None, acc_type(rows),
        )  # fmt: skip
    return out


@launcher
def segment_max(rows: Tensor, ptr: Tensor, counted: Tensor | None) -> Tensor:
    count, channels = ptr.numel() - 1, rows.size(1)
    out, (tile, tiles) = rows.new_empty(count, channels), columns(channels)
    layout = context_tiling("segment_max", rows, count, channels)
    if count:
        _max[(count, tiles)](
            rows, ptr if counted is None else counted, out, ptr, channels, layout.block,
            tile, counted is not None, acc_type(rows), **layout.launch,
        )  # fmt: skip
    return out


@launcher
def segment_max_backward(
    grad: Tensor, rows: Tensor, top: Tensor, ptr: Tensor, counted: Tensor | None, padded: bool
) -> Tensor:
    count, channels = ptr.numel() - 1, rows.size(1)
    dx, (tile, tiles) = torch.empty_like(rows), columns(channels)
    layout = context_tiling("segment_max", rows, count, channels)
    if count:
        _max_backward[(count, tiles)](
            grad, rows, top, ptr if counted is None else counted, dx, ptr, channels, count,
            rows.size(0), layout.block, tile, counted is not None, padded,
            acc_type(rows), **layout.launch,
        )  # fmt: skip
    return dx
