"""The kernels of `smpgnn.ops.ragged`: one launch for the graphs of a batch, one for each axis."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import launcher, width

#: Graphs that a program sums at a time, and indices that a program fills.
GRAPHS, BLOCK = 256, 64


@triton.jit
def _place(graphs, table, last, slots, spans, B, G, K, BLOCK: tl.constexpr):
    """One program sums the entries of all graphs along one axis."""
    axis = tl.program_id(0)
    before = tl.zeros([BLOCK], tl.int64)
    final = tl.load(last + axis)
    for start in range(0, B + 1, BLOCK):
        g = start + tl.arange(0, BLOCK)
        live = g <= B
        graph = tl.load(graphs + g, mask=g < B, other=-1)
        slot = tl.where(graph < 0, graph + G, graph)
        count = tl.load(table + axis * G + slot, mask=live, other=0)
        first = tl.load(table + (K + axis) * G + slot, mask=live, other=0)
        end = before + tl.cumsum(count, axis=0)
        begin = end - count
        at, step = spans + axis * (B + 1) + g, K * (B + 1)
        tl.store(at, end, mask=live)
        tl.store(at + step, begin, mask=live)
        tl.store(at + 2 * step, first - begin, mask=live)
        tl.store(at + 3 * step, tl.where(g < B, begin, final), mask=live)
        if axis == 0:
            tl.store(slots + g, slot, mask=live)
        before += tl.sum(count, axis=0)


@triton.jit
def _cut(
    spans, table, bases, none, wide, small, axis, B, K, C, D, N,
    STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One program fills some indices of all columns, and finds their graphs by bisection."""
    p = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    live = p < N
    ends = spans + axis * (B + 1)
    graph = tl.zeros_like(p)
    high = graph + B
    for _ in range(STEPS):
        middle = (graph + high) // 2
        apart = graph < high
        past = tl.load(ends + middle, mask=apart, other=0) <= p
        graph = tl.where(apart & past, middle + 1, graph)
        high = tl.where(past, high, middle)
    entry = tl.minimum(p + tl.load(ends + 2 * K * (B + 1) + graph), D - 1)
    tl.store(wide + p, graph, mask=live)
    tl.store(wide + N + p, entry, mask=live)
    for c in range(C):
        base = tl.load(bases + c)
        value = tl.load(table + c * D + entry).to(tl.int64)
        offset = tl.load(spans + tl.maximum(base, 0) * (B + 1) + graph)
        value = tl.where(value < 0, tl.load(none + c), value + tl.where(base < 0, 0, offset))
        tl.store(wide + (2 + c) * N + p, value, mask=live)
        tl.store(small + c * N + p, value.to(tl.int32), mask=live)


@launcher
def place(graphs: Tensor, table: Tensor, last: Tensor) -> tuple[Tensor, Tensor]:
    count, (_, axes, data) = graphs.numel(), table.shape
    slots, spans = table.new_empty(count + 1), table.new_empty(4, axes, count + 1)
    block = min(GRAPHS, width(count + 1))
    _place[(axes,)](graphs, table, last, slots, spans, count, data, axes, block, num_warps=4)
    return slots, spans


@launcher
def cut(
    spans: Tensor, axis: int, table: Tensor, bases: Tensor, none: Tensor, size: int
) -> tuple[Tensor, Tensor]:
    columns, entries = table.shape
    graphs = spans.size(2) - 1
    wide = spans.new_empty(2 + columns, size)
    small = torch.empty(columns, size, dtype=torch.int32, device=spans.device)
    _cut[(triton.cdiv(size, BLOCK),)](
        spans, table, bases, none, wide, small, axis, graphs, spans.size(1), columns, entries, size,
        graphs.bit_length(), BLOCK, num_warps=2,
    )  # fmt: skip
    return wide, small
