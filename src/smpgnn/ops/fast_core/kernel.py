"""The fast layer after its set map; messages are never written to memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.neighbor.kernel import gather, neighbor_sum
from smpgnn.ops.tiles import (
    acc_type,
    accumulator,
    add_up,
    clear_tail,
    context_tiling,
    inner,
    launcher,
    load_matrix,
    load_rows,
    load_transposed,
    precision,
    product,
    store_matrix,
    store_rows,
    tiling,
    width,
)


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
            s = factor * gather(
                u, r, live, first, node, edge_ptr, neighbor, lift_ptr, source, c, C,
                UNIFORM, BLOCK, BC, ACC,
            )  # fmt: skip
            store_rows(sums, s, r, live, c, C)
            value = mine.to(ACC) + s
            value += product(mine, m4, PRECISION) * product(s, m5, PRECISION)
            store_rows(out, value, r, live, c, C)


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


@launcher
def fast_core(
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


@launcher
def fast_core_backward(
    grad: Tensor,
    u: Tensor,
    s: Tensor,
    w4: Tensor,
    w5: Tensor,
    routes: list[Tensor],
    owner: Tensor,
    padded: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of u and of the two matrices, [2, C, C]."""
    du, ds, slopes = fast_update_backward(grad, u, s, w4, w5, owner, routes[2])
    return neighbor_sum(ds, routes, True, padded, scaled=False, base=du), slopes


def fast_update_backward(
    grad: Tensor, u: Tensor, s: Tensor, w4: Tensor, w5: Tensor, owner: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of u alone, of the unscaled sums, and of the two matrices, [2, C, C]."""
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
