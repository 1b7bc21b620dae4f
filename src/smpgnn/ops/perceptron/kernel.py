"""A two-layer perceptron on all rows, in one pass: what lies between its maps is never written."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import (
    acc_type,
    accumulator,
    add_up,
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
def _forward(
    x, center, y, wx, wy, b1, w2, b2, out, ptr, K, ROWS, C, D, H, N,
    TWO: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, BH: tl.constexpr,
    BN: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    c, d, h, n = tl.arange(0, BC), tl.arange(0, BD), tl.arange(0, BH), tl.arange(0, BN)
    mx, my = load_transposed(wx, h, c, H, C), load_transposed(wy, h, d, H, D)
    m2 = load_transposed(w2, n, h, N, H)
    middle = load_vector(center, c, C, ACC)
    first, second = load_vector(b1, h, H, ACC), load_vector(b2, n, N, ACC)
    last = tl.load(ptr + K)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here, live = r < ROWS, r < last
        tile = load_rows(x, r, live, c, C).to(ACC) - middle[None, :]
        hidden = product(tile, mx, PRECISION) + first[None, :]
        if TWO:
            hidden += product(load_rows(y, r, live, d, D), my, PRECISION)
        value = product(tl.maximum(hidden, 0.0), m2, PRECISION) + second[None, :]
        store_rows(out, tl.where(live[:, None], value, 0.0), r, here, n, N)


@triton.jit
def _backward(
    grad, x, center, y, wx, wy, b1, w2, dx, dy, parts, ptr, K, ROWS, C, D, H, N, PART,
    TWO: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, BH: tl.constexpr,
    BN: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    c, d, h, n = tl.arange(0, BC), tl.arange(0, BD), tl.arange(0, BH), tl.arange(0, BN)
    mx, tx = load_transposed(wx, h, c, H, C), load_matrix(wx, h, c, H, C)
    my, ty = load_transposed(wy, h, d, H, D), load_matrix(wy, h, d, H, D)
    t2 = load_matrix(w2, n, h, N, H)
    middle, first = load_vector(center, c, C, ACC), load_vector(b1, h, H, ACC)
    sx, sy, s2 = tl.zeros([BH, BC], ACC), tl.zeros([BH, BD], ACC), tl.zeros([BN, BH], ACC)
    n1, n2 = tl.zeros([BH], ACC), tl.zeros([BN], ACC)
    last = tl.load(ptr + K)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here, live = r < ROWS, r < last
        tile = load_rows(x, r, live, c, C).to(ACC) - middle[None, :]
        hidden = product(tile, mx, PRECISION) + first[None, :]
        if TWO:
            other = load_rows(y, r, live, d, D)
            hidden += product(other, my, PRECISION)
        g = load_rows(grad, r, live, n, N)
        dh = tl.where(hidden > 0.0, product(g, t2, PRECISION), 0.0)
        store_rows(dx, product(dh, tx, PRECISION), r, here, c, C)
        sx += inner(dh, tile, mx, PRECISION)
        if TWO:
            store_rows(dy, product(dh, ty, PRECISION), r, here, d, D)
            sy += inner(dh, other, mx, PRECISION)
        s2 += inner(g, tl.maximum(hidden, 0.0), mx, PRECISION)
        n1 += tl.sum(dh, axis=0)
        n2 += tl.sum(g.to(ACC), axis=0)
    at = parts + tl.program_id(0) * PART
    store_matrix(at, sx, h, c, H, C)
    at += C * H
    if TWO:
        store_matrix(at, sy, h, d, H, D)
        at += D * H
    store_matrix(at, s2, n, h, N, H)
    tl.store(at + H * N + h, n1, mask=h < H)
    tl.store(at + H * N + H + n, n2, mask=n < N)


@launcher
def perceptron(
    x: Tensor,
    center: Tensor,
    y: Tensor | None,
    wx: Tensor,
    wy: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    ptr: Tensor,
) -> Tensor:
    """See `smpgnn.ops.perceptron`; rows past ptr[-1] are zero."""
    out = x.new_empty(x.size(0), w2.size(0))
    if out.numel():
        layout = tiling("perceptron", x, max(*wx.shape, w2.size(0)))
        sizes = (wx.size(1), wy.size(1), w2.size(1), w2.size(0))
        _forward[(layout.programs(x),)](
            x, center, x if y is None else y, wx, wy, b1, w2, b2, out, ptr, ptr.numel() - 1,
            x.size(0), *sizes, y is not None, layout.block, *(width(size) for size in sizes),
            precision(x), acc_type(x), **layout.launch,
        )  # fmt: skip
    return out


@launcher
def perceptron_backward(
    grad: Tensor,
    x: Tensor,
    center: Tensor,
    y: Tensor | None,
    wx: Tensor,
    wy: Tensor,
    b1: Tensor,
    w2: Tensor,
    ptr: Tensor,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """Gradients of x and y, and those of W_x, W_y (with y), W_2, b_1, b_2 one after another."""
    dx, dy = torch.empty_like(x), None if y is None else torch.empty_like(y)
    matrices = [wx, w2] if y is None else [wx, wy, w2]
    total = sum(matrix.numel() for matrix in matrices) + b1.numel() + w2.size(0)
    kernel = "perceptron_backward" if y is None else "perceptron_pair_backward"
    layout = tiling(kernel, x, max(*wx.shape, w2.size(0)))
    programs = layout.programs(x)
    parts = x.new_empty(programs, total, dtype=accumulator(x))
    if x.size(0) == 0:
        return dx, dy, parts.new_zeros(total)
    sizes = (wx.size(1), wy.size(1), w2.size(1), w2.size(0))
    _backward[(programs,)](
        grad, x, center, x if y is None else y, wx, wy, b1, w2, dx, dx if dy is None else dy, parts,
        ptr, ptr.numel() - 1, x.size(0), *sizes, total, y is not None, layout.block,
        *(width(size) for size in sizes), precision(x), acc_type(x), **layout.launch,
    )  # fmt: skip
    return dx, dy, add_up(parts)
