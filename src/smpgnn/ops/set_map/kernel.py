"""The set map of all rows, and its gradients, in one pass each.

A program processes tiles of consecutive rows, regardless of their contexts. Gradients of matrices
are sums over all rows: each program keeps a partial sum in registers and writes it once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import (
    acc_type,
    accumulator,
    add_up,
    context_tiling,
    inner,
    launcher,
    load_matrix,
    load_rows,
    load_transposed,
    load_vector,
    precision,
    product,
    store_matrix,
    store_rows,
    tiling,
    width,
)


@triton.jit
def _set_linear(
    x, w, both, center, out, owner, ptr, own, wa, wb, ba, ab, K, ROWS, C, D,
    TERMS: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr,
    PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    c, d = tl.arange(0, BC), tl.arange(0, BD)
    matrix = load_matrix(w, c, d, C, D)
    middle = load_vector(center, c, C, ACC)
    last = tl.load(ptr + K)
    if TERMS:
        ma, mb = load_matrix(wa, d, d, D, D), load_matrix(wb, d, d, D, D)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here, live = r < ROWS, r < last
        node = tl.load(owner + r, mask=here, other=0)
        at = tl.load(own + node, mask=here, other=-1)
        tile = load_rows(x, r, live, c, C).to(ACC) - middle[None, :]
        u = product(tile, matrix, PRECISION) + load_rows(both, node * 2, live, d, D).to(ACC)
        u += load_rows(both + D, node * 2, live & (r == at), d, D).to(ACC)
        u = tl.where(live[:, None], u, 0.0)
        store_rows(out, u, r, here, d, D)
        if TERMS:
            a = product(u, ma, PRECISION) + load_vector(ba, d, D, ACC)[None, :]
            store_rows(ab, a, r * 2, here, d, D)
            store_rows(ab + D, product(u, mb, PRECISION), r * 2, here, d, D)


@triton.jit
def _set_linear_backward(
    grad, x, w, center, dx, slopes, ROWS, C, D,
    BLOCK: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, PRECISION: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    c, d = tl.arange(0, BC), tl.arange(0, BD)
    turned = load_transposed(w, c, d, C, D)
    middle = load_vector(center, c, C, ACC)
    slope = tl.zeros([BC, BD], ACC)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here = r < ROWS
        g = load_rows(grad, r, here, d, D)
        tile = load_rows(x, r, here, c, C).to(ACC) - middle[None, :]
        store_rows(dx, product(g, turned, PRECISION), r, here, c, C)
        slope += inner(tile, g, turned, PRECISION)
    store_matrix(slopes + tl.program_id(0) * C * D, slope, c, d, C, D)


@triton.jit
def _context_sums(x, both, ptr, own, C, BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr):
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


@launcher
def set_linear(
    rows: Tensor,
    matrix: Tensor,
    both: Tensor,
    center: Tensor,
    owner: Tensor,
    ptr: Tensor,
    own: Tensor,
) -> Tensor:
    """The set map of all rows; see `smpgnn.ops.set_linear`."""
    size, (c, d) = rows.size(0), matrix.shape
    out = rows.new_empty(size, d)
    layout = tiling("set_linear", rows, max(c, d))
    if size:
        _set_linear[(layout.programs(rows),)](
            rows, matrix, both, center, out, owner, ptr, own, matrix, matrix, center, out,
            own.numel(), size, c, d, False, layout.block, width(c), width(d), precision(rows),
            acc_type(rows), **layout.launch,
        )  # fmt: skip
    return out


@launcher
def set_linear_terms(
    rows: Tensor,
    matrix: Tensor,
    both: Tensor,
    center: Tensor,
    owner: Tensor,
    ptr: Tensor,
    own: Tensor,
    wa: Tensor,
    wb: Tensor,
    ba: Tensor,
) -> tuple[Tensor, Tensor]:
    """The set map û of all rows, and the terms û W_a + b_a and û W_b of messages side by side."""
    size, (c, d) = rows.size(0), matrix.shape
    out, ab = rows.new_empty(size, d), rows.new_empty(size, 2 * d)
    layout = tiling("set_linear_terms", rows, max(c, d))
    if size:
        _set_linear[(layout.programs(rows),)](
            rows, matrix, both, center, out, owner, ptr, own, wa, wb, ba, ab, own.numel(), size,
            c, d, True, layout.block, width(c), width(d), precision(rows), acc_type(rows),
            **layout.launch,
        )  # fmt: skip
    return out, ab


@launcher
def set_linear_gradients(
    grad: Tensor, rows: Tensor, matrix: Tensor, center: Tensor, ptr: Tensor, own: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the rows, of the matrix, and of the terms of the contexts."""
    return *set_linear_backward(grad, rows, matrix, center), context_sums(grad, ptr, own)


def set_linear_backward(
    grad: Tensor, rows: Tensor, matrix: Tensor, center: Tensor
) -> tuple[Tensor, Tensor]:
    """Gradients of the rows and of the matrix."""
    size, (c, d) = rows.size(0), matrix.shape
    layout = tiling("set_linear_backward", rows, max(c, d))
    dx, programs = torch.empty_like(rows), layout.programs(rows)
    slopes = rows.new_empty(programs, c, d, dtype=accumulator(rows))
    if size == 0:
        return dx, slopes.new_zeros(c, d)
    _set_linear_backward[(programs,)](
        grad, rows, matrix, center, dx, slopes, size, c, d, layout.block, width(c), width(d),
        precision(rows), acc_type(rows), **layout.launch,
    )  # fmt: skip
    return dx, add_up(slopes)


def context_sums(rows: Tensor, ptr: Tensor, own: Tensor) -> Tensor:
    """The sum and the own row of each context, side by side, [K, 2 C]."""
    contexts, channels = own.numel(), rows.size(1)
    both = rows.new_empty(contexts, 2 * channels, dtype=accumulator(rows))
    layout = context_tiling("sums", rows, contexts, channels)
    if contexts:
        _context_sums[(contexts,)](
            rows, both, ptr, own, channels, layout.block, width(channels), acc_type(rows),
            **layout.launch,
        )  # fmt: skip
    return both
