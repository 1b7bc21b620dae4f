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
    u, ab, edge_term, sums, scale, ptr, edge_ptr, neighbor, edge, lift_ptr, source, K, ROWS, C,
    UNIFORM: tl.constexpr, EDGES: tl.constexpr, PASS: tl.constexpr, PADDED: tl.constexpr,
    BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.arange(0, BC)
    PER: tl.constexpr = 2 if PASS else 1
    if PADDED:
        clear_tail(sums, ptr, K, ROWS, tl.arange(0, PER * BC), PER * C, BLOCK)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    begin, end = tl.load(edge_ptr + node), tl.load(edge_ptr + node + 1)
    factor = tl.load(scale + node).to(ACC)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        a = load_rows(ab, r * 2, live, c, C).to(ACC)
        relus, passed = tl.zeros([BLOCK, BC], ACC), tl.zeros([BLOCK, BC], ACC)
        for t in range(begin, end):
            at = source_rows(r, live, first, begin, t, neighbor, lift_ptr, source, UNIFORM)
            z = a + load_rows(ab + C, at * 2, live, c, C).to(ACC)
            if EDGES:
                z += load_vector(edge_term + tl.load(edge + t) * C, c, C, ACC)[None, :]
            relus += tl.maximum(z, 0.0)
            if PASS:
                passed += load_rows(u, at, live, c, C).to(ACC)
        store_rows(sums, relus * factor, r * PER, live, c, C)
        if PASS:
            store_rows(sums + C, passed * factor, r * 2, live, c, C)


@triton.jit
def _message_gradients(
    back, ab, edge_term, base, dab, du, ptr, edge_ptr, neighbor, edge, lift_ptr, source,
    out_ptr, out_neighbor, out_edge, back_ptr, back_target, back_edge, K, ROWS, C,
    UNIFORM: tl.constexpr, EDGES: tl.constexpr, PASS: tl.constexpr, PADDED: tl.constexpr,
    BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.arange(0, BC)
    PER: tl.constexpr = 2 if PASS else 1
    if PADDED:
        clear_tail(dab, ptr, K, ROWS, tl.arange(0, 2 * BC), 2 * C, BLOCK)
        if PASS:
            clear_tail(du, ptr, K, ROWS, c, C, BLOCK)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    begin, end = tl.load(edge_ptr + node), tl.load(edge_ptr + node + 1)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        a = load_rows(ab, r * 2, live, c, C).to(ACC)
        g = load_rows(back, r * PER, live, c, C).to(ACC)
        da = tl.zeros([BLOCK, BC], ACC)
        for t in range(begin, end):
            at = source_rows(r, live, first, begin, t, neighbor, lift_ptr, source, UNIFORM)
            z = a + load_rows(ab + C, at * 2, live, c, C).to(ACC)
            if EDGES:
                z += load_vector(edge_term + tl.load(edge + t) * C, c, C, ACC)[None, :]
            da += tl.where(z > 0.0, g, 0.0)
        store_rows(dab, da, r * 2, live, c, C)
        b = load_rows(ab + C, r * 2, live, c, C).to(ACC)
        db, passed = tl.zeros([BLOCK, BC], ACC), tl.zeros([BLOCK, BC], ACC)
        if UNIFORM:
            for t in range(tl.load(out_ptr + node), tl.load(out_ptr + node + 1)):
                at = tl.load(out_neighbor + t) + (r - first)
                z = b + load_rows(ab, at * 2, live, c, C).to(ACC)
                if EDGES:
                    z += load_vector(edge_term + tl.load(out_edge + t) * C, c, C, ACC)[None, :]
                db += tl.where(z > 0.0, load_rows(back, at * PER, live, c, C).to(ACC), 0.0)
                if PASS:
                    passed += load_rows(back + C, at * 2, live, c, C).to(ACC)
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
                db += tl.where(z > 0.0, load_rows(back, at * PER, here, c, C).to(ACC), 0.0)
                if PASS:
                    passed += load_rows(back + C, at * 2, here, c, C).to(ACC)
        store_rows(dab + C, db, r * 2, live, c, C)
        if PASS:
            passed += load_rows(base, r, live, c, C).to(ACC)
            store_rows(du, passed, r, live, c, C)


@triton.jit
def _edge_gradients(
    back, ab, edge_term, d_edge, ptr, edge_ptr, neighbor, edge, receiver, lift_ptr, source, C, PER,
    UNIFORM: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    t = tl.program_id(0)
    c = tl.arange(0, BC)
    node = tl.load(receiver + t)
    begin = tl.load(edge_ptr + node)
    if t < tl.load(edge_ptr + node + 1):
        first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
        number = tl.load(edge + t) * C
        e = load_vector(edge_term + number, c, C, ACC)
        total = tl.zeros([BC], ACC)
        for start in range(first, last, BLOCK):
            r = start + tl.arange(0, BLOCK)
            live = r < last
            at = source_rows(r, live, first, begin, t, neighbor, lift_ptr, source, UNIFORM)
            z = load_rows(ab, r * 2, live, c, C).to(ACC) + e[None, :]
            z += load_rows(ab + C, at * 2, live, c, C).to(ACC)
            g = load_rows(back, r * PER, live, c, C).to(ACC)
            total += tl.sum(tl.where(z > 0.0, g, 0.0), axis=0)
        tl.store(d_edge + number + c, total, mask=c < C)


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
) -> Tensor:
    """Σ_k relu(a_i + b_k + e_ik) / d_avg and, beside it where `passes`, Σ_k u_k / d_avg.

    Shapes: u [P, C], ab [P, 2 C], edge_term [E, C] or None, result [P, C] or [P, 2 C].
    """
    ptr, own, scale, edge_ptr, neighbor, edge, lift_ptr, source, _ = routes[:9]
    contexts, channels = own.numel(), u.size(1)
    sums = u.new_empty(u.size(0), (2 if passes else 1) * channels)
    layout = context_tiling("message_sums", u, contexts, channels)
    if contexts:
        _message_sums[(contexts,)](
            u, ab, u if edge_term is None else edge_term, sums, scale, ptr, edge_ptr, neighbor,
            edge, lift_ptr, source, contexts, u.size(0), channels, source.numel() == 0,
            edge_term is not None, passes, padded, layout.block, width(channels), acc_type(u),
            **layout.launch,
        )  # fmt: skip
    return sums


def message_gradients(
    back: Tensor,
    ab: Tensor,
    edge_term: Tensor | None,
    base: Tensor,
    routes: list[Tensor],
    passes: bool,
    padded: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a and b [P, 2 C], of u (`base` and what passes), and of the edge term.

    `back` is the gradient of the sums before they are divided by d_avg.
    """
    ptr, own, _, edge_ptr, neighbor, edge, lift_ptr, source, receiver = routes[:9]
    out_ptr, out_neighbor, out_edge, back_ptr, back_target, back_edge = routes[9:15]
    contexts, channels = own.numel(), base.size(1)
    dab = torch.empty_like(ab)
    du = torch.empty_like(base) if passes else base.new_empty(0, channels)
    edges = 0 if edge_term is None else edge_term.size(0)
    d_edge = ab.new_zeros(edges, channels, dtype=accumulator(ab))
    layout = context_tiling("message_gradients", base, contexts, channels)
    if contexts:
        _message_gradients[(contexts,)](
            back, ab, ab if edge_term is None else edge_term, base, dab, du, ptr, edge_ptr,
            neighbor, edge, lift_ptr, source, out_ptr, out_neighbor, out_edge, back_ptr,
            back_target, back_edge, contexts, ab.size(0), channels, source.numel() == 0,
            edge_term is not None, passes, padded, layout.block, width(channels), acc_type(ab),
            **layout.launch,
        )  # fmt: skip
    if edge_term is not None and edges and contexts:
        layout = context_tiling("edge_gradients", base, contexts, channels)
        _edge_gradients[(edges,)](
            back, ab, edge_term, d_edge, ptr, edge_ptr, neighbor, edge, receiver, lift_ptr, source,
            channels, 2 if passes else 1, source.numel() == 0, layout.block, width(channels),
            acc_type(ab), **layout.launch,
        )  # fmt: skip
    return dab, du, d_edge
