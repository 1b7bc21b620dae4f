"""A gated recurrent unit, some nodes a program: all steps in one launch, two for the gradients."""

from __future__ import annotations

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
    tanh,
    width,
)

#: Nodes of a program: few, since a batch has few nodes and the time is that of one program.
NODES = 16
#: What is kept of a step: the state before it, the gates r, z and n, and what r was multiplied by.
KEPT = tl.constexpr(5)


@triton.jit
def _forward(
    given, w, b, v, out, kept, N, STEPS, H,
    BLOCK: tl.constexpr, BH: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    live = node < N
    h = tl.arange(0, BH)
    wr = load_transposed(w, h, h, H, H).to(ACC)
    wz = load_transposed(w + H * H, h, h, H, H).to(ACC)
    wn = load_transposed(w + 2 * H * H, h, h, H, H).to(ACC)
    br = (load_vector(b, h, H, ACC) + load_vector(v, h, H, ACC))[None, :]
    bz = (load_vector(b + H, h, H, ACC) + load_vector(v + H, h, H, ACC))[None, :]
    bn, vn = load_vector(b + 2 * H, h, H, ACC)[None, :], load_vector(v + 2 * H, h, H, ACC)[None, :]
    state = tl.zeros([BLOCK, BH], ACC)
    row = node
    for _step in range(STEPS):
        r = tl.sigmoid(load_rows(given, row * 3, live, h, H).to(ACC) + br
                       + product(state, wr, PRECISION))  # fmt: skip
        z = tl.sigmoid(load_rows(given, row * 3 + 1, live, h, H).to(ACC) + bz
                       + product(state, wz, PRECISION))  # fmt: skip
        held = product(state, wn, PRECISION) + vn
        n = tanh(load_rows(given, row * 3 + 2, live, h, H).to(ACC) + bn + r * held)
        store_rows(kept, state, row * KEPT, live, h, H)
        store_rows(kept, r, row * KEPT + 1, live, h, H)
        store_rows(kept, z, row * KEPT + 2, live, h, H)
        store_rows(kept, n, row * KEPT + 3, live, h, H)
        store_rows(kept, held, row * KEPT + 4, live, h, H)
        state = n + z * (state - n)
        row += N
    store_rows(out, state, node, live, h, H)


@triton.jit
def _backward(
    grad, kept, w, d_given, parts, N, STEPS, H, PART,
    BLOCK: tl.constexpr, BH: tl.constexpr, PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of what the input gave; of the weights, those of these nodes."""
    node = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    live = node < N
    h = tl.arange(0, BH)
    wr = load_matrix(w, h, h, H, H).to(ACC)
    wz = load_matrix(w + H * H, h, h, H, H).to(ACC)
    wn = load_matrix(w + 2 * H * H, h, h, H, H).to(ACC)
    sr, sz, sn = tl.zeros([BH, BH], ACC), tl.zeros([BH, BH], ACC), tl.zeros([BH, BH], ACC)
    cr, cz = tl.zeros([BH], ACC), tl.zeros([BH], ACC)
    cn, ch = tl.zeros([BH], ACC), tl.zeros([BH], ACC)
    d_state = load_rows(grad, node, live, h, H).to(ACC)
    row = node + (STEPS - 1) * N
    for _step in range(STEPS):
        state = load_rows(kept, row * KEPT, live, h, H)
        r = load_rows(kept, row * KEPT + 1, live, h, H)
        z = load_rows(kept, row * KEPT + 2, live, h, H)
        n = load_rows(kept, row * KEPT + 3, live, h, H)
        held = load_rows(kept, row * KEPT + 4, live, h, H)
        dz = d_state * (state - n) * z * (1 - z)
        dn = d_state * (1 - z) * (1 - n * n)
        d_held = dn * r
        dr = dn * held * r * (1 - r)
        store_rows(d_given, dr, row * 3, live, h, H)
        store_rows(d_given, dz, row * 3 + 1, live, h, H)
        store_rows(d_given, dn, row * 3 + 2, live, h, H)
        sr += inner(dr, state, wr, PRECISION)
        sz += inner(dz, state, wr, PRECISION)
        sn += inner(d_held, state, wr, PRECISION)
        cr += tl.sum(dr, axis=0)
        cz += tl.sum(dz, axis=0)
        cn += tl.sum(dn, axis=0)
        ch += tl.sum(d_held, axis=0)
        d_state = d_state * z + product(dr, wr, PRECISION)
        d_state += product(dz, wz, PRECISION) + product(d_held, wn, PRECISION)
        row -= N
    at = parts + tl.program_id(0) * PART
    store_matrix(at, sr, h, h, H, H)
    store_matrix(at + H * H, sz, h, h, H, H)
    store_matrix(at + 2 * H * H, sn, h, h, H, H)
    at += 3 * H * H + h
    there = h < H
    tl.store(at, cr, mask=there)
    tl.store(at + H, cz, mask=there)
    tl.store(at + 2 * H, cn, mask=there)
    tl.store(at + 3 * H, cr, mask=there)
    tl.store(at + 4 * H, cz, mask=there)
    tl.store(at + 5 * H, ch, mask=there)


@launcher
def gated_state(
    given: Tensor, of_state: Tensor, bias: Tensor, state_bias: Tensor
) -> tuple[Tensor, Tensor]:
    """The last state, [N, H], and what is kept, [L, N, 5, H]; `given`, [L, N, 3 H], by inputs."""
    steps, nodes, channels = given.size(0), given.size(1), of_state.size(1)
    out = given.new_empty(nodes, channels)
    kept = given.new_empty(steps, nodes, KEPT.value, channels, dtype=accumulator(given))
    if nodes:
        _forward[(triton.cdiv(nodes, NODES),)](
            given, of_state, bias, state_bias, out, kept, nodes, steps, channels, NODES,
            width(channels), precision(given), acc_type(given), num_warps=_warps(channels),
        )  # fmt: skip
    return out, kept


@launcher
def gated_state_backward(grad: Tensor, kept: Tensor, of_state: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of `given`, and those of matrix and biases one after another, [3 H² + 6 H]."""
    steps, nodes, _, channels = kept.shape
    d_given = grad.new_empty(steps, nodes, 3 * channels)
    total = 3 * channels * channels + 6 * channels
    programs = triton.cdiv(nodes, NODES)
    parts = kept.new_empty(programs, total)
    if not nodes:
        return d_given, kept.new_zeros(total)
    _backward[(programs,)](
        grad, kept, of_state, d_given, parts, nodes, steps, channels, total, NODES,
        width(channels), precision(grad), acc_type(grad), num_warps=_warps(channels),
    )  # fmt: skip
    return d_given, parts[0] if programs == 1 else add_up(parts)


def _warps(channels: int) -> int:
    """So many that three matrices and their gradients take at most 96 registers of a thread."""
    return {16: 1, 32: 4}.get(width(channels), 8)
