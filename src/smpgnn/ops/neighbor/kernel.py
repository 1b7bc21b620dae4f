"""Sums over neighbours, shared by the kernels of both layers; messages are never written.

A program processes the rows of one context.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import acc_type, clear_tail, context_tiling, load_rows, store_rows, width


@triton.jit
def source_rows(r, live, first, begin, t, neighbor, lift_ptr, source, UNIFORM: tl.constexpr):
    """The rows of the t-th neighbour that correspond to the rows r of a context.

    They have the same positions if all contexts of a graph have the same rows, else see `source`.
    """
    if UNIFORM:
        return tl.load(neighbor + t) + (r - first)
    else:
        at = tl.load(lift_ptr + r, mask=live, other=0) + (t - begin)
        return tl.load(source + at, mask=live, other=0)


@triton.jit
def gather(
    x, r, live, first, node, edge_ptr, neighbor, lift_ptr, source, c, C,
    UNIFORM: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Σ_k x(k, j) over the neighbours k of a node, for the rows r of its context."""
    total = tl.zeros([BLOCK, BC], ACC)
    begin, end = tl.load(edge_ptr + node), tl.load(edge_ptr + node + 1)
    for t in range(begin, end):
        at = source_rows(r, live, first, begin, t, neighbor, lift_ptr, source, UNIFORM)
        total += load_rows(x, at, live, c, C).to(ACC)
    return total


@triton.jit
def _neighbor_sum(
    x, base, out, scale, ptr, edge_ptr, neighbor, lift_ptr, source, C, K, ROWS,
    BLOCK: tl.constexpr, BC: tl.constexpr, UNIFORM: tl.constexpr, BACK: tl.constexpr,
    BASE: tl.constexpr, SCALE: tl.constexpr, PADDED: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.arange(0, BC)
    if PADDED:
        clear_tail(out, ptr, K, ROWS, c, C, BLOCK)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        if BACK and not UNIFORM:
            total = tl.zeros([BLOCK, BC], ACC)
            begin = tl.load(lift_ptr + r, mask=live, other=0)
            count = tl.load(lift_ptr + r + 1, mask=live, other=0) - begin
            for t in range(tl.max(count)):
                here = live & (t < count)
                at = tl.load(source + begin + t, mask=here, other=0)
                total += load_rows(x, at, here, c, C).to(ACC)
        else:
            total = gather(
                x, r, live, first, node, edge_ptr, neighbor, lift_ptr, source, c, C,
                UNIFORM, BLOCK, BC, ACC,
            )  # fmt: skip
        if SCALE:
            total = total * tl.load(scale + node).to(ACC)
        if BASE:
            total += load_rows(base, r, live, c, C).to(ACC)
        store_rows(out, total, r, live, c, C)


def neighbor_sum(
    rows: Tensor,
    routes: list[Tensor],
    back: bool,
    padded: bool,
    scaled: bool = True,
    base: Tensor | None = None,
) -> Tensor:
    """The sum over neighbours or (`back`) its transpose, plus `base`. See `Routes.tensors`."""
    ptr, own, scale = routes[:3]
    edge_ptr, neighbor, _, lift_ptr, source, _ = routes[9:15] if back else routes[3:9]
    contexts, channels = own.numel(), rows.size(1)
    out = torch.empty_like(rows)
    layout = context_tiling("neighbor_sum", rows, contexts, channels)
    if contexts:
        _neighbor_sum[(contexts,)](
            rows, rows if base is None else base, out, scale, ptr, edge_ptr, neighbor, lift_ptr,
            source, channels, contexts, rows.size(0), layout.block, width(channels),
            source.numel() == 0, back, base is not None, scaled, padded, acc_type(rows),
            **layout.launch,
        )  # fmt: skip
    return out
