"""The default layer after its set map: messages, update, and their gradients.

Messages are never written to memory. Sums over neighbours process one context per program, the
update processes consecutive rows. Gradients of matrices stay in registers and are written once.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.neighbor.kernel import source_rows
from smpgnn.ops.tiles import (
    acc_type,
    accumulator,
    add_up,
    by_library,
    clear_tail,
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
def _message_sums(
    u, ab, edge_term, sums, passed, scale, ptr, edge_ptr, neighbor, edge, lift_ptr, source, K, ROWS,
    C,
    UNIFORM: tl.constexpr, EDGES: tl.constexpr, PASS: tl.constexpr, PADDED: tl.constexpr,
    BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.arange(0, BC)
    if PADDED:
        clear_tail(sums, ptr, K, ROWS, c, C, BLOCK)
        if PASS:
            clear_tail(passed, ptr, K, ROWS, c, C, BLOCK)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    begin, end = tl.load(edge_ptr + node), tl.load(edge_ptr + node + 1)
    factor = tl.load(scale + node).to(ACC)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        a = load_rows(ab, r * 2, live, c, C).to(ACC)
        relus, total = tl.zeros([BLOCK, BC], ACC), tl.zeros([BLOCK, BC], ACC)
        for t in range(begin, end):
            at = source_rows(r, live, first, begin, t, neighbor, lift_ptr, source, UNIFORM)
            z = a + load_rows(ab + C, at * 2, live, c, C).to(ACC)
            if EDGES:
                z += load_vector(edge_term + tl.load(edge + t) * C, c, C, ACC)[None, :]
            relus += tl.maximum(z, 0.0)
            if PASS:
                total += load_rows(u, at, live, c, C).to(ACC)
        store_rows(sums, relus * factor, r, live, c, C)
        if PASS:
            store_rows(passed, total * factor, r, live, c, C)


@triton.jit
def _message_gradients(
    back, ab, edge_term, d_terms, d_edge, scale, ptr, edge_ptr, neighbor, edge, lift_ptr, source,
    out_ptr, out_neighbor, out_edge, back_ptr, back_target, back_edge, K, ROWS, C,
    UNIFORM: tl.constexpr, EDGES: tl.constexpr, SLOPES: tl.constexpr, PASS: tl.constexpr,
    PADDED: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.arange(0, BC)
    TERMS: tl.constexpr = 4 if PASS else 3
    own_term = d_terms + (TERMS - 1) * C
    if PADDED:
        clear_tail(d_terms, ptr, K, ROWS, tl.arange(0, 4 * BC), TERMS * C, BLOCK)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    begin, end = tl.load(edge_ptr + node), tl.load(edge_ptr + node + 1)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        a = load_rows(ab, r * 2, live, c, C).to(ACC)
        g = load_rows(back, r, live, c, C).to(ACC)
        da = tl.zeros([BLOCK, BC], ACC)
        for t in range(begin, end):
            at = source_rows(r, live, first, begin, t, neighbor, lift_ptr, source, UNIFORM)
            z = a + load_rows(ab + C, at * 2, live, c, C).to(ACC)
            if EDGES:
                number = tl.load(edge + t) * C
                z += load_vector(edge_term + number, c, C, ACC)[None, :]
            kept = tl.where(z > 0.0, g, 0.0)
            da += kept
            if SLOPES:
                column = tl.sum(kept, axis=0)
                if start > first:  # a context with several tiles adds them one by one
                    tl.debug_barrier()
                    column += load_vector(d_edge + number, c, C, ACC)
                tl.store(d_edge + number + c, column, mask=c < C)
        store_rows(d_terms, da, r * TERMS, live, c, C)
        b = load_rows(ab + C, r * 2, live, c, C).to(ACC)
        db, passed = tl.zeros([BLOCK, BC], ACC), tl.zeros([BLOCK, BC], ACC)
        if UNIFORM:
            for t in range(tl.load(out_ptr + node), tl.load(out_ptr + node + 1)):
                at = tl.load(out_neighbor + t) + (r - first)
                z = b + load_rows(ab, at * 2, live, c, C).to(ACC)
                if EDGES:
                    z += load_vector(edge_term + tl.load(out_edge + t) * C, c, C, ACC)[None, :]
                db += tl.where(z > 0.0, load_rows(back, at, live, c, C).to(ACC), 0.0)
                if PASS:
                    passed += load_rows(own_term, at * TERMS, live, c, C).to(ACC)
        else:
            from_row = tl.load(back_ptr + r, mask=live, other=0)
            count = tl.load(back_ptr + r + 1, mask=live, other=0) - from_row
            for t in range(tl.max(count)):
                here = live & (t < count)
                at = tl.load(back_target + from_row + t, mask=here, other=0)
                z = b + load_rows(ab, at * 2, here, c, C).to(ACC)
                if EDGES:
                    line = tl.load(back_edge + from_row + t, mask=here, other=0)
                    z += load_rows(edge_term, line, here, c, C).to(ACC)
                db += tl.where(z > 0.0, load_rows(back, at, here, c, C).to(ACC), 0.0)
                if PASS:
                    passed += load_rows(own_term, at * TERMS, here, c, C).to(ACC)
        store_rows(d_terms + C, db, r * TERMS, live, c, C)
        if PASS:  # both ends of an edge belong to one graph and have the same scale
            passed *= tl.load(scale + node).to(ACC)
            store_rows(d_terms + 2 * C, passed, r * TERMS, live, c, C)


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
    """Write a matrix [C, D] as consecutive matrices [C, C]."""
    place = (d // C * C * C + d % C)[None, :] + c[:, None] * C
    tl.store(at + place, value, mask=(c[:, None] < C) & (d[None, :] < D))


@launcher
def default_core(
    u: Tensor,
    ab: Tensor,
    edge_term: Tensor | None,
    matrices: list[Tensor],
    biases: list[Tensor],
    arrived: Tensor,
    routes: list[Tensor],
    owner: Tensor,
    passes: bool,
    adds: bool,
    padded: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The new rows, the sums of the relus, and the hidden rows."""
    relus, passed = message_sums(u, ab, edge_term, routes, passes, padded)
    hidden, out = update(u, relus, passed, matrices, biases, arrived, owner, routes[0], adds)
    return out, relus, hidden


@launcher
def default_core_backward(
    grad: Tensor,
    u: Tensor,
    ab: Tensor,
    relus: Tensor,
    hidden: Tensor,
    edge_term: Tensor | None,
    terms: list[Tensor],
    wr: Tensor,
    wv: Tensor,
    arrived: Tensor,
    routes: list[Tensor],
    owner: Tensor,
    adds: bool,
    padded: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of u, of the edge term, of the terms' matrices and b_a, and of W_r, W_v, b_r, ….

    `terms` are W_a, W_b, W_m (with `message_residual`) and W_u. See `terms_backward` and
    `update_backward`.
    """
    d_terms = u.new_empty(u.size(0), len(terms) * u.size(1))
    back, others = update_backward(grad, relus, hidden, wr, wv, arrived, owner, routes[2], d_terms)
    d_edge = message_gradients(back, ab, edge_term, d_terms, routes, padded)
    edges = None if edge_term is None else d_edge
    du, first = terms_backward(d_terms, u, torch.cat(terms, 1), grad, adds, edges)
    return du, d_edge, first, others


def message_sums(
    u: Tensor,
    ab: Tensor,
    edge_term: Tensor | None,
    routes: list[Tensor],
    passes: bool,
    padded: bool,
) -> tuple[Tensor, Tensor | None]:
    """Σ_k relu(a_i + b_k + e_ik) / d_avg and, with `passes`, Σ_k u_k / d_avg.

    Shapes: u [P, C], ab [P, 2 C], edge_term [E, C] or None, results [P, C].
    """
    ptr, own, scale, edge_ptr, neighbor, edge, lift_ptr, source, _ = routes[:9]
    contexts, channels = own.numel(), u.size(1)
    sums, passed = torch.empty_like(u), torch.empty_like(u) if passes else None
    layout = context_tiling("message_sums", u, contexts, channels)
    if contexts:
        _message_sums[(contexts,)](
            u, ab, u if edge_term is None else edge_term, sums, sums if passed is None else passed,
            scale, ptr, edge_ptr, neighbor, edge, lift_ptr, source, contexts, u.size(0), channels,
            source.numel() == 0, edge_term is not None, passes, padded, layout.block,
            width(channels), acc_type(u), **layout.launch,
        )  # fmt: skip
    return sums, passed


def message_gradients(
    back: Tensor,
    ab: Tensor,
    edge_term: Tensor | None,
    d_terms: Tensor,
    routes: list[Tensor],
    padded: bool,
) -> Tensor:
    """The gradient of the edge term; the gradients of the other terms are written to `d_terms`.

    `back` is the gradient of the sums of relus before they are divided by d_avg. The last columns
    of `d_terms` already contain that of u W_u; this writes those of a, b and, if there are four, of
    u W_m.
    """
    ptr, own, scale, edge_ptr, neighbor, edge, lift_ptr, source = routes[:8]
    out_ptr, out_neighbor, out_edge, back_ptr, back_target, back_edge = routes[9:15]
    contexts, channels = own.numel(), back.size(1)
    edges = 0 if edge_term is None else edge_term.size(0)
    d_edge = ab.new_zeros(edges, channels, dtype=accumulator(ab))
    layout = context_tiling("message_gradients", back, contexts, channels)
    if contexts:
        _message_gradients[(contexts,)](
            back, ab, ab if edge_term is None else edge_term, d_terms, d_edge, scale, ptr, edge_ptr,
            neighbor, edge, lift_ptr, source, out_ptr, out_neighbor, out_edge, back_ptr,
            back_target, back_edge, contexts, ab.size(0), channels, source.numel() == 0,
            edge_term is not None, edges > 0, d_terms.size(1) > 3 * channels, padded,
            layout.block, width(channels), acc_type(ab), **layout.launch,
        )  # fmt: skip
    return d_edge


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

    `relus` and `passed` are the sums of the messages' relus and of the neighbours' rows. `matrices`
    are W_u, W_r, W_m, W_v, and `biases` are b_u, b_r, b_v as in `smpgnn.ops.default_core`.
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
    """Gradients of the unscaled sums of relus, and of W_r, W_v, b_r, b_v, b_u in one matrix.

    The matrix is one sum over programs, [2 C + 3, C]. The gradient of u W_u + b_u is written into
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
    """Gradients of u, and of the n matrices and the bias of the first term in one matrix.

    The matrix is one sum over programs, [n C + 1, C]. The terms u W_a + b_a, u W_b, … are side by
    side in their gradients [P, n C] and in `matrix` [C, n C]. `grad` is added to the gradient of u
    if the layer `adds` u to its result. `d_edge` is the gradient of edge terms, if any: it has the
    same sum as that of the first term.
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
