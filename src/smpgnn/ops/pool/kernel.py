"""Own row, mean and maximum of contexts after several layers, one program per context and layer."""

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
    load_rows,
    store_rows,
)


@triton.jit
def _forward(
    x, multiplicity, out, ptr, own, C, ROWS,
    BLOCK: tl.constexpr, BC: tl.constexpr, WEIGHTED: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node, layer = tl.program_id(0), tl.program_id(1)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    x += layer.to(tl.int64) * ROWS * C
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    total, top = tl.zeros([BC], ACC), tl.full([BC], -float("inf"), ACC)
    count = tl.zeros([1], ACC)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        tile = load_rows(x, r, live, c, C).to(ACC)
        if WEIGHTED:
            m = tl.load(multiplicity + r, mask=live, other=0).to(ACC)
            total += tl.sum(tile * m[:, None], axis=0)
            count += tl.sum(m)
            live = live & (m > 0)
        else:
            total += tl.sum(tile, axis=0)
        top = tl.maximum(top, tl.max(tl.where(live[:, None], tile, -float("inf")), axis=0))
    if not WEIGHTED:
        count += (last - first).to(ACC)
    at = tl.load(own + node).to(tl.int64)
    there = c < C
    line = out + (layer.to(tl.int64) * tl.num_programs(0) + node) * 3 * C + c
    tl.store(line, tl.load(x + at * C + c, mask=there), mask=there)
    mean = total / tl.maximum(count, 1.0)
    tl.store(line + C, mean.to(out.dtype.element_ty), mask=there)
    top = tl.where(first < last, top, 0.0)
    tl.store(line + 2 * C, top.to(out.dtype.element_ty), mask=there)


@triton.jit
def _backward(
    grad, x, out, multiplicity, dx, ptr, own, C, K, ROWS,
    BLOCK: tl.constexpr, BC: tl.constexpr, WEIGHTED: tl.constexpr, PADDED: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    node, layer = tl.program_id(0), tl.program_id(1)
    c = tl.program_id(2) * BC + tl.arange(0, BC)
    there = c < C
    shift = layer.to(tl.int64) * ROWS * C
    x += shift
    dx += shift
    if PADDED:
        clear_tail(dx, ptr, K, ROWS, c, C, BLOCK)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    line = (layer.to(tl.int64) * K + node) * 3 * C + c
    best = tl.load(out + line + 2 * C, mask=there, other=0.0).to(ACC)
    count, hits = tl.zeros([1], ACC), tl.zeros([BC], ACC)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        hit = (load_rows(x, r, live, c, C).to(ACC) == best[None, :]) & live[:, None]
        share = tl.where(hit, 1.0, 0.0).to(ACC)
        if WEIGHTED:
            m = tl.load(multiplicity + r, mask=live, other=0).to(ACC)
            share = share * m[:, None]
            count += tl.sum(m)
        hits += tl.sum(share, axis=0)
    if not WEIGHTED:
        count += (last - first).to(ACC)
    at = tl.load(own + node)
    mine = tl.load(grad + line, mask=there, other=0.0).to(ACC)
    everyone = tl.load(grad + line + C, mask=there, other=0.0).to(ACC) / tl.maximum(count, 1.0)
    part = tl.load(grad + line + 2 * C, mask=there, other=0.0).to(ACC) / tl.maximum(hits, 1.0)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        hit = (load_rows(x, r, live, c, C).to(ACC) == best[None, :]) & live[:, None]
        value = everyone[None, :] + tl.where(hit, part[None, :], 0.0)
        if WEIGHTED:
            value = value * tl.load(multiplicity + r, mask=live, other=0).to(ACC)[:, None]
        value += tl.where((r == at)[:, None], mine[None, :], 0.0)
        store_rows(dx, value, r, live, c, C)


@launcher
def pool(rows: Tensor, ptr: Tensor, own: Tensor, multiplicity: Tensor | None) -> Tensor:
    """Own rows, means and maxima side by side, [L, P, C] to [L, K, 3 C]."""
    (layers, size, channels), contexts = rows.shape, own.numel()
    out = rows.new_empty(layers, contexts, 3 * channels)
    layout = context_tiling("moments", rows[0], contexts, channels)
    tile, tiles = columns(channels)
    if out.numel():
        _forward[(contexts, layers, tiles)](
            rows, ptr if multiplicity is None else multiplicity, out, ptr, own, channels, size,
            layout.block, tile, multiplicity is not None, acc_type(rows), **layout.launch,
        )  # fmt: skip
    return out


@launcher
def pool_backward(
    grad: Tensor,
    rows: Tensor,
    out: Tensor,
    ptr: Tensor,
    own: Tensor,
    multiplicity: Tensor | None,
    padded: bool,
) -> Tensor:
    """The gradient of the rows; ties share that of the maximum."""
    (layers, size, channels), contexts = rows.shape, own.numel()
    dx = torch.empty_like(rows)
    layout = context_tiling("moments_backward", rows[0], contexts, channels)
    tile, tiles = columns(channels)
    if out.numel():
        _backward[(contexts, layers, tiles)](
            grad, rows, out, ptr if multiplicity is None else multiplicity, dx, ptr, own, channels,
            contexts, size, layout.block, tile, multiplicity is not None, padded, acc_type(rows),
            **layout.launch,
        )  # fmt: skip
    return dx
