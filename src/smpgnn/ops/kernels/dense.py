"""Products of all rows with small matrices, and the gradients of these matrices, in single passes.

A program takes tiles of consecutive rows, whichever contexts they belong to. Gradients of matrices
are sums over all rows: each program keeps its share in registers and writes it once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.kernels.tiles import (
    acc_type,
    accumulator,
    add_up,
    inner,
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
    x, w, both, center, out, owner, ptr, own, K, ROWS, C, D,
    BLOCK: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, PRECISION: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    c, d = tl.arange(0, BC), tl.arange(0, BD)
    matrix = load_matrix(w, c, d, C, D)
    middle = load_vector(center, c, C, ACC)
    last = tl.load(ptr + K)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here, live = r < ROWS, r < last
        node = tl.load(owner + r, mask=here, other=0)
        at = tl.load(own + node, mask=here, other=-1)
        tile = load_rows(x, r, live, c, C).to(ACC) - middle[None, :]
        u = product(tile, matrix, PRECISION) + load_rows(both, node * 2, live, d, D).to(ACC)
        u += load_rows(both + D, node * 2, live & (r == at), d, D).to(ACC)
        store_rows(out, tl.where(live[:, None], u, 0.0), r, here, d, D)


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
def _fast_update_backward(
    grad, u, s, w4, w5, du, ds, slopes, owner, scale, ROWS, C,
    BLOCK: tl.constexpr, BC: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, BC)
    m4, m5 = load_matrix(w4, c, c, C, C), load_matrix(w5, c, c, C, C)
    t4, t5 = load_transposed(w4, c, c, C, C), load_transposed(w5, c, c, C, C)
    slope4, slope5 = tl.zeros([BC, BC], ACC), tl.zeros([BC, BC], ACC)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here = r < ROWS
        mine, sums = load_rows(u, r, here, c, C), load_rows(s, r, here, c, C)
        g = load_rows(grad, r, here, c, C).to(ACC)
        factor = tl.load(scale + tl.load(owner + r, mask=here, other=0), mask=here, other=0.0)
        gp = g * product(sums, m5, PRECISION)
        gq = g * product(mine, m4, PRECISION)
        store_rows(du, g + product(gp, t4, PRECISION), r, here, c, C)
        back = (g + product(gq, t5, PRECISION)) * factor.to(ACC)[:, None]
        store_rows(ds, back, r, here, c, C)
        slope4 += inner(mine, gp, m4, PRECISION)
        slope5 += inner(sums, gq, m4, PRECISION)
    at = slopes + tl.program_id(0) * 2 * C * C
    store_matrix(at, slope4, c, c, C, C)
    store_matrix(at + C * C, slope5, c, c, C, C)


@triton.jit
def _update(
    u, sums, wu, wr, wm, wv, bu, br, bv, arrived, hidden, out, owner, ptr, K, ROWS, C,
    PASS: tl.constexpr, ADD: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr,
    PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, BC)
    mu, mr = load_matrix(wu, c, c, C, C), load_matrix(wr, c, c, C, C)
    mm, mv = load_matrix(wm, c, c, C, C), load_matrix(wv, c, c, C, C)
    last = tl.load(ptr + K)
    PER: tl.constexpr = 2 if PASS else 1
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here, live = r < ROWS, r < last
        came = tl.load(arrived + tl.load(owner + r, mask=here, other=0), mask=live, other=0.0)
        mine = load_rows(u, r, live, c, C)
        total = product(mine, mu, PRECISION) + load_vector(bu, c, C, ACC)[None, :]
        total += came.to(ACC)[:, None] * load_vector(br, c, C, ACC)[None, :]
        total += product(load_rows(sums, r * PER, live, c, C), mr, PRECISION)
        if PASS:
            total += product(load_rows(sums + C, r * 2, live, c, C), mm, PRECISION)
        total = tl.maximum(total, 0.0)
        store_rows(hidden, tl.where(live[:, None], total, 0.0), r, here, c, C)
        value = product(total, mv, PRECISION) + load_vector(bv, c, C, ACC)[None, :]
        if ADD:
            value += mine.to(ACC)
        store_rows(out, tl.where(live[:, None], value, 0.0), r, here, c, C)


@triton.jit
def _update_backward(
    grad, u, sums, hidden, wu, wr, wm, wv, arrived, scale, du, back, slopes, columns, owner,
    ROWS, C,
    PASS: tl.constexpr, ADD: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr,
    PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, BC)
    tu, tr = load_transposed(wu, c, c, C, C), load_transposed(wr, c, c, C, C)
    tm, tv = load_transposed(wm, c, c, C, C), load_transposed(wv, c, c, C, C)
    su, sr = tl.zeros([BC, BC], ACC), tl.zeros([BC, BC], ACC)
    sm, sv = tl.zeros([BC, BC], ACC), tl.zeros([BC, BC], ACC)
    nu, nr, nv = tl.zeros([BC], ACC), tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    PER: tl.constexpr = 2 if PASS else 1
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here = r < ROWS
        node = tl.load(owner + r, mask=here, other=0)
        factor = tl.load(scale + node, mask=here, other=0.0).to(ACC)[:, None]
        came = tl.load(arrived + node, mask=here, other=0.0).to(ACC)[:, None]
        g, h = load_rows(grad, r, here, c, C), load_rows(hidden, r, here, c, C)
        dt = tl.where(h > 0.0, product(g, tv, PRECISION), 0.0)
        sv += inner(h, g, tv, PRECISION)
        nv += tl.sum(g.to(ACC), axis=0)
        nu += tl.sum(dt, axis=0)
        nr += tl.sum(dt * came, axis=0)
        su += inner(load_rows(u, r, here, c, C), dt, tv, PRECISION)
        sr += inner(load_rows(sums, r * PER, here, c, C), dt, tv, PRECISION)
        value = product(dt, tr, PRECISION) * factor
        store_rows(back, value, r * PER, here, c, C)
        if PASS:
            sm += inner(load_rows(sums + C, r * 2, here, c, C), dt, tv, PRECISION)
            value = product(dt, tm, PRECISION) * factor
            store_rows(back + C, value, r * 2, here, c, C)
        value = product(dt, tu, PRECISION)
        if ADD:
            value += g.to(ACC)
        store_rows(du, value, r, here, c, C)
    at = slopes + tl.program_id(0) * 4 * C * C
    store_matrix(at, su, c, c, C, C)
    store_matrix(at + C * C, sr, c, c, C, C)
    store_matrix(at + 2 * C * C, sm, c, c, C, C)
    store_matrix(at + 3 * C * C, sv, c, c, C, C)
    at = columns + tl.program_id(0) * 3 * C + c
    tl.store(at, nu, mask=c < C)
    tl.store(at + C, nr, mask=c < C)
    tl.store(at + 2 * C, nv, mask=c < C)


@triton.jit
def _message_backward(
    dab, u, wa, wb, base, du, slopes, columns, ROWS, C,
    BLOCK: tl.constexpr, BC: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, BC)
    ta, tb = load_transposed(wa, c, c, C, C), load_transposed(wb, c, c, C, C)
    sa, sb = tl.zeros([BC, BC], ACC), tl.zeros([BC, BC], ACC)
    column = tl.zeros([BC], ACC)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here = r < ROWS
        da, db = load_rows(dab, r * 2, here, c, C), load_rows(dab + C, r * 2, here, c, C)
        mine = load_rows(u, r, here, c, C)
        value = load_rows(base, r, here, c, C).to(ACC) + product(da, ta, PRECISION)
        store_rows(du, value + product(db, tb, PRECISION), r, here, c, C)
        sa += inner(mine, da, ta, PRECISION)
        sb += inner(mine, db, ta, PRECISION)
        column += tl.sum(da.to(ACC), axis=0)
    at = slopes + tl.program_id(0) * 2 * C * C
    store_matrix(at, sa, c, c, C, C)
    store_matrix(at + C * C, sb, c, c, C, C)
    tl.store(columns + tl.program_id(0) * C + c, column, mask=c < C)


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
            rows, matrix, both, center, out, owner, ptr, own, own.numel(), size, c, d,
            layout.block, width(c), width(d), precision(rows), acc_type(rows),
            **layout.launch,
        )  # fmt: skip
    return out


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


def fast_update_backward(
    grad: Tensor, u: Tensor, s: Tensor, w4: Tensor, w5: Tensor, owner: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of u by itself, of the unscaled sums, and of the two matrices, [2, C, C]."""
    size, channels = u.shape
    layout = tiling("fast_backward", u, channels)
    du, ds, programs = torch.empty_like(u), torch.empty_like(u), layout.programs(u)
    slopes = u.new_empty(programs, 2, channels, channels, dtype=accumulator(u))
    if size == 0:
        return du, ds, slopes.new_zeros(2, channels, channels)
    _fast_update_backward[(programs,)](
        grad, u, s, w4, w5, du, ds, slopes, owner, scale, size, channels, layout.block,
        width(channels), precision(u), acc_type(u), **layout.launch,
    )  # fmt: skip
    return du, ds, add_up(slopes)


def update(
    u: Tensor,
    sums: Tensor,
    matrices: list[Tensor],
    biases: list[Tensor],
    arrived: Tensor,
    owner: Tensor,
    ptr: Tensor,
    adds: bool,
) -> tuple[Tensor, Tensor]:
    """The hidden and the new rows of the default layer.

    `sums` are the sums of the messages' relus and, beside them where it is twice as wide, of the
    neighbours' rows; `matrices` W_u, W_r, W_m, W_v and `biases` b_u, b_r, b_v as in
    `smpgnn.ops.default_core`.
    """
    size, channels = u.shape
    hidden, out = torch.empty_like(u), torch.empty_like(u)
    layout = tiling("update", u, channels)
    if size:
        _update[(layout.programs(u),)](
            u, sums, *matrices, *biases, arrived, hidden, out, owner, ptr, ptr.numel() - 1, size,
            channels, sums.size(1) > channels, adds, layout.block, width(channels), precision(u),
            acc_type(u), **layout.launch,
        )  # fmt: skip
    return hidden, out


def update_backward(
    grad: Tensor,
    u: Tensor,
    sums: Tensor,
    hidden: Tensor,
    matrices: list[Tensor],
    arrived: Tensor,
    owner: Tensor,
    scale: Tensor,
    adds: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of u by itself, of the unscaled sums, of W_u, W_r, W_m, W_v, of b_u, b_r, b_v."""
    size, channels = u.shape
    du, back = torch.empty_like(u), torch.empty_like(sums)
    layout = tiling("update_backward", u, channels)
    programs = layout.programs(u)
    slopes = u.new_empty(programs, 4, channels, channels, dtype=accumulator(u))
    columns = slopes.new_empty(programs, 3, channels)
    if size == 0:
        return du, back, slopes.new_zeros(4, channels, channels), columns.new_zeros(3, channels)
    _update_backward[(programs,)](
        grad, u, sums, hidden, *matrices, arrived, scale, du, back, slopes, columns, owner, size,
        channels, sums.size(1) > channels, adds, layout.block, width(channels), precision(u),
        acc_type(u), **layout.launch,
    )  # fmt: skip
    return du, back, add_up(slopes), add_up(columns)


def message_backward(
    dab: Tensor, u: Tensor, wa: Tensor, wb: Tensor, base: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of u (`base` and what comes by a and b), of W_a and W_b, and of b_a."""
    size, channels = u.shape
    du = torch.empty_like(u)
    layout = tiling("message_backward", u, channels)
    programs = layout.programs(u)
    slopes = u.new_empty(programs, 2, channels, channels, dtype=accumulator(u))
    columns = slopes.new_empty(programs, channels)
    if size == 0:
        return du, slopes.new_zeros(2, channels, channels), columns.new_zeros(channels)
    _message_backward[(programs,)](
        dab, u, wa, wb, base, du, slopes, columns, size, channels, layout.block, width(channels),
        precision(u), acc_type(u), **layout.launch,
    )  # fmt: skip
    return du, add_up(slopes), add_up(columns)
