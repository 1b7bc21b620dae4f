"""Sums over neighbours, plain and of relus, and their gradients; no message is ever written.

A program takes the rows of one context at a time.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.kernels.tiles import (
    acc_type,
    accumulator,
    clear_tail,
    context_tiling,
    load_matrix,
    load_rows,
    load_vector,
    precision,
    product,
    store_rows,
    width,
)


@triton.jit
def source_rows(r, live, first, begin, t, neighbor, lift_ptr, source, UNIFORM: tl.constexpr):
    """The rows of the t-th neighbour that correspond to the rows r of a context.

    Where all contexts of a graph have the same rows they lie at the same places; else see `source`.
    """
    if UNIFORM:
        return tl.load(neighbor + t) + (r - first)
    else:
        at = tl.load(lift_ptr + r, mask=live, other=0) + (t - begin)
        return tl.load(source + at, mask=live, other=0)


@triton.jit
def _gather(
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
            total = _gather(
                x, r, live, first, node, edge_ptr, neighbor, lift_ptr, source, c, C,
                UNIFORM, BLOCK, BC, ACC,
            )  # fmt: skip
        if SCALE:
            total = total * tl.load(scale + node).to(ACC)
        if BASE:
            total += load_rows(base, r, live, c, C).to(ACC)
        store_rows(out, total, r, live, c, C)


@triton.jit
def _fast(
    u, w4, w5, sums, out, scale, ptr, edge_ptr, neighbor, lift_ptr, source, N, ROWS, C,
    BLOCK: tl.constexpr, BC: tl.constexpr, UNIFORM: tl.constexpr, PADDED: tl.constexpr,
    PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    c = tl.arange(0, BC)
    if PADDED:
        clear_tail(out, ptr, N, ROWS, c, C, BLOCK)
        clear_tail(sums, ptr, N, ROWS, c, C, BLOCK)
    m4, m5 = load_matrix(w4, c, c, C, C), load_matrix(w5, c, c, C, C)
    for node in range(tl.program_id(0), N, tl.num_programs(0)):
        first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
        factor = tl.load(scale + node).to(ACC)
        for start in range(first, last, BLOCK):
            r = start + tl.arange(0, BLOCK)
            live = r < last
            mine = load_rows(u, r, live, c, C)
            s = factor * _gather(
                u, r, live, first, node, edge_ptr, neighbor, lift_ptr, source, c, C,
                UNIFORM, BLOCK, BC, ACC,
            )  # fmt: skip
            store_rows(sums, s, r, live, c, C)
            value = mine.to(ACC) + s
            value += product(mine, m4, PRECISION) * product(s, m5, PRECISION)
            store_rows(out, value, r, live, c, C)


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
                if start > first:  # a context of several tiles adds them up one by one
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
        if PASS:  # both ends of an edge are of one graph and have the same scale
            passed *= tl.load(scale + node).to(ACC)
            store_rows(d_terms + 2 * C, passed, r * TERMS, live, c, C)


def neighbor_sum(
    rows: Tensor,
    routes: list[Tensor],
    back: bool,
    padded: bool,
    scaled: bool = True,
    base: Tensor | None = None,
) -> Tensor:
    """The sum over neighbours, or (`back`) its transpose; `base` is added. See `Routes.tensors`."""
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


def fast(
    u: Tensor, w4: Tensor, w5: Tensor, routes: list[Tensor], padded: bool
) -> tuple[Tensor, Tensor]:
    """The new rows of the fast layer and the sums over neighbours."""
    ptr, own, scale, edge_ptr, neighbor, _, lift_ptr, source, _ = routes[:9]
    contexts, channels = own.numel(), u.size(1)
    sums, out = torch.empty_like(u), torch.empty_like(u)
    layout = context_tiling("fast", u, contexts, channels)
    if contexts:
        _fast[(min(contexts, layout.programs(u)),)](
            u, w4, w5, sums, out, scale, ptr, edge_ptr, neighbor, lift_ptr, source, contexts,
            u.size(0), channels, layout.block, width(channels), source.numel() == 0, padded,
            precision(u), acc_type(u), **layout.launch,
        )  # fmt: skip
    return out, sums


def message_sums(
    u: Tensor,
    ab: Tensor,
    edge_term: Tensor | None,
    routes: list[Tensor],
    passes: bool,
    padded: bool,
) -> tuple[Tensor, Tensor | None]:
    """Σ_k relu(a_i + b_k + e_ik) / d_avg and, where `passes`, Σ_k u_k / d_avg.

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
    """The gradient of the edge term; those of the other terms complete `d_terms`.

    `back` is the gradient of the sums of relus before they are divided by d_avg. The last columns
    of `d_terms` hold that of u W_u; those of a, b and (where there are four) of u W_m are written.
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
