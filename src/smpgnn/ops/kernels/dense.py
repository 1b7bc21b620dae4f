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
    by_library,
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
    u, relus, passed, wu, wr, wm, wv, bu, br, bv, arrived, hidden, out, owner, ptr, K, ROWS, C,
    PASS: tl.constexpr, ADD: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr,
    PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, BC)
    mu, mr = load_matrix(wu, c, c, C, C), load_matrix(wr, c, c, C, C)
    mm, mv = load_matrix(wm, c, c, C, C), load_matrix(wv, c, c, C, C)
    last = tl.load(ptr + K)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here, live = r < ROWS, r < last
        came = tl.load(arrived + tl.load(owner + r, mask=here, other=0), mask=live, other=0.0)
        mine = load_rows(u, r, live, c, C)
        total = product(mine, mu, PRECISION) + load_vector(bu, c, C, ACC)[None, :]
        total += came.to(ACC)[:, None] * load_vector(br, c, C, ACC)[None, :]
        total += product(load_rows(relus, r, live, c, C), mr, PRECISION)
        if PASS:
            total += product(load_rows(passed, r, live, c, C), mm, PRECISION)
        total = tl.maximum(total, 0.0)
        store_rows(hidden, tl.where(live[:, None], total, 0.0), r, here, c, C)
        value = product(total, mv, PRECISION) + load_vector(bv, c, C, ACC)[None, :]
        if ADD:
            value += mine.to(ACC)
        store_rows(out, tl.where(live[:, None], value, 0.0), r, here, c, C)


@triton.jit
def _update_backward(
    grad, relus, hidden, wr, wv, arrived, scale, back, d_terms, parts, owner, ROWS, C,
    TERMS: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, PRECISION: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, BC)
    tr, tv = load_transposed(wr, c, c, C, C), load_transposed(wv, c, c, C, C)
    sr, sv = tl.zeros([BC, BC], ACC), tl.zeros([BC, BC], ACC)
    nr, nv, nu = tl.zeros([BC], ACC), tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here = r < ROWS
        node = tl.load(owner + r, mask=here, other=0)
        g, h = load_rows(grad, r, here, c, C), load_rows(hidden, r, here, c, C)
        dt = tl.where(h > 0.0, product(g, tv, PRECISION), 0.0)
        store_rows(d_terms + (TERMS - 1) * C, dt, r * TERMS, here, c, C)
        factor = tl.load(scale + node, mask=here, other=0.0).to(ACC)[:, None]
        store_rows(back, product(dt, tr, PRECISION) * factor, r, here, c, C)
        came = tl.load(arrived + node, mask=here, other=0.0).to(ACC)[:, None]
        sr += inner(load_rows(relus, r, here, c, C), dt, tv, PRECISION)
        sv += inner(h, g, tv, PRECISION)
        nr += tl.sum(dt * came, axis=0)
        nv += tl.sum(g.to(ACC), axis=0)
        nu += tl.sum(dt, axis=0)
    at = parts + tl.program_id(0) * (2 * C + 3) * C
    store_matrix(at, sr, c, c, C, C)
    store_matrix(at + C * C, sv, c, c, C, C)
    at += 2 * C * C + c
    tl.store(at, nr, mask=c < C)
    tl.store(at + C, nv, mask=c < C)
    tl.store(at + 2 * C, nu, mask=c < C)


@triton.jit
def _terms_backward(
    d_terms, u, w, base, du, parts, FIRST, ROWS, C, D,
    ADD: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr,
    PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    c, d = tl.arange(0, BC), FIRST + tl.arange(0, BD)
    turned = load_transposed(w, c, d, C, D)
    slope, column = tl.zeros([BC, BD], ACC), tl.zeros([BD], ACC)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        here = r < ROWS
        g = load_rows(d_terms, r, here, d, D)
        value = product(g, turned, PRECISION)
        if ADD:
            value += load_rows(base, r, here, c, C).to(ACC)
        store_rows(du, value, r, here, c, C)
        slope += inner(load_rows(u, r, here, c, C), g, turned, PRECISION)
        column += tl.sum(g.to(ACC), axis=0)
    at = parts + tl.program_id(0) * (D + 1) * C
    _store_blocks(at, slope, c, d, C, D)
    tl.store(at + C * D + d, column, mask=d < C)


@triton.jit
def _store_blocks(at, value, c, d, C, D):
    """A matrix [C, D] as matrices [C, C], one after the other."""
    place = (d // C * C * C + d % C)[None, :] + c[:, None] * C
    tl.store(at + place, value, mask=(c[:, None] < C) & (d[None, :] < D))


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
    relus: Tensor,
    passed: Tensor | None,
    matrices: list[Tensor],
    biases: list[Tensor],
    arrived: Tensor,
    owner: Tensor,
    ptr: Tensor,
    adds: bool,
) -> tuple[Tensor, Tensor]:
    """The hidden and the new rows of the default layer.

    `relus` and `passed` are the sums of the messages' relus and of the neighbours' rows; `matrices`
    W_u, W_r, W_m, W_v and `biases` b_u, b_r, b_v as in `smpgnn.ops.default_core`.
    """
    size, channels = u.shape
    hidden, out = torch.empty_like(u), torch.empty_like(u)
    layout = tiling("update", u, channels)
    if size:
        _update[(layout.programs(u),)](
            u, relus, u if passed is None else passed, *matrices, *biases, arrived, hidden, out,
            owner, ptr, ptr.numel() - 1, size, channels, passed is not None, adds, layout.block,
            width(channels), precision(u), acc_type(u), **layout.launch,
        )  # fmt: skip
    return hidden, out


def update_backward(
    grad: Tensor,
    relus: Tensor,
    hidden: Tensor,
    wr: Tensor,
    wv: Tensor,
    arrived: Tensor,
    owner: Tensor,
    scale: Tensor,
    d_terms: Tensor,
) -> tuple[Tensor, Tensor]:
    """Gradients of the unscaled sums of relus, and of W_r, W_v, b_r, b_v, b_u below one another.

    The latter are one sum over programs, [2 C + 3, C]. The gradient of u W_u + b_u is written into
    the last columns of `d_terms` [P, 3 C] or [P, 4 C].
    """
    size, channels = grad.shape
    back, terms = torch.empty_like(grad), d_terms.size(1) // channels
    layout = tiling("update_backward", grad, channels)
    programs = layout.programs(grad)
    parts = grad.new_empty(programs, 2 * channels + 3, channels, dtype=accumulator(grad))
    if size == 0:
        return back, parts.new_zeros(parts.shape[1:])
    _update_backward[(programs,)](
        grad, relus, hidden, wr, wv, arrived, scale, back, d_terms, parts, owner, size, channels,
        terms, layout.block, width(channels), precision(grad), acc_type(grad),
        **layout.launch,
    )  # fmt: skip
    return back, add_up(parts)


def terms_backward(
    d_terms: Tensor, u: Tensor, matrix: Tensor, grad: Tensor, adds: bool, d_edge: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Gradients of u, and of the n matrices and the bias of the first term below one another.

    The latter are one sum over programs, [n C + 1, C]. The terms u W_a + b_a, u W_b, … lie side by
    side in their gradients [P, n C] and in `matrix` [C, n C]. `grad` comes to that of u where the
    layer `adds` u to its result. `d_edge` is the gradient of edge terms, where there are any: it
    has the same sum as that of the first term.
    """
    size, (channels, wide) = u.size(0), matrix.shape
    terms = wide // channels
    if by_library(u, channels):
        du = torch.addmm(grad, d_terms, matrix.t()) if adds else d_terms @ matrix.t()
        slopes = (u.t() @ d_terms).view(channels, terms, channels).transpose(0, 1)
        summed = d_terms[:, :channels] if d_edge is None else d_edge
        column = summed.sum(0, keepdim=True, dtype=accumulator(u))
        return du, torch.cat([slopes.reshape(-1, channels).to(column.dtype), column])
    du, layout = torch.empty_like(u), tiling("terms_backward", u, channels)
    tile, programs = min(layout.columns, width(wide)), layout.programs(u)
    parts = u.new_empty(programs, wide + 1, channels, dtype=accumulator(u))
    if size == 0:
        return du, parts.new_zeros(parts.shape[1:])
    for first in range(0, wide, tile):
        _terms_backward[(programs,)](
            d_terms, u, matrix, du if first else grad, du, parts, first, size, channels, wide,
            adds or first > 0, layout.block, width(channels), tile, precision(u),
            acc_type(u), **layout.launch,
        )  # fmt: skip
    return du, add_up(parts)
