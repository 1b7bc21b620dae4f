"""Batch norm and the means of contexts as weights of the set map, in a few small launches.

The set map of normalised contexts (U − μ) ⊙ s + β is (U − μ) · (s ⊙ W1) + 1 ⊗ b_i + 𝟙_i ⊗ m_i, with
[b_i, m_i] = ((mean_i − μ) ⊙ s + β) · [W2, W3] + [c + β W1, 0] and s = γ / √(variance + ε). With own
terms there is a second matmul of this kind, with the own row instead of the mean: the `values`
[K, S, C] of contexts enter S matmuls, 1 or 2, with the matrices `terms` [S, C, 2 D].
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
    inner,
    launcher,
    load_matrix,
    load_rows,
    load_vector,
    precision,
    product,
    store_matrix,
    store_rows,
    track,
    width,
)

_TILE = 64


@triton.jit
def _prepare(
    squares, total, middle, gamma, beta, w1, bias, running_mean, running_var, batches, matrix,
    offset, scale, C, D, EPS: tl.constexpr, MOMENTUM: tl.constexpr, BC: tl.constexpr,
    BD: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    c, d = tl.arange(0, BC), tl.arange(0, BD)
    n = tl.load(total)
    variance = load_vector(squares, c, C, ACC) / n
    s = load_vector(gamma, c, C, ACC) / tl.sqrt(variance + EPS)
    whole = load_matrix(w1, c, d, C, D).to(ACC)
    store_matrix(matrix, s[:, None] * whole, c, d, C, D)
    shifted = tl.sum(load_vector(beta, c, C, ACC)[:, None] * whole, axis=0)
    tl.store(offset + d, load_vector(bias, d, D, ACC) + shifted, mask=d < D)
    tl.store(scale + c, s, mask=c < C)
    center = load_vector(middle, c, C, ACC)
    track(running_mean, running_var, center, variance, n, c, C, MOMENTUM, ACC)
    tl.store(batches, tl.load(batches) + 1)


@triton.jit
def _gap(values, row, live, middle, c, C, ACC: tl.constexpr):
    """Rows of the values minus the mean of all rows."""
    gap = load_rows(values, row, live, c, C).to(ACC) - load_vector(middle, c, C, ACC)[None, :]
    return tl.where(live[:, None], gap, 0.0)


@triton.jit
def _half(terms, c, d, C, D):
    """The first D columns of a matrix [C, 2 D]."""
    inside = (c < C)[:, None] & (d < D)[None, :]
    return tl.load(terms + c[:, None] * 2 * D + d[None, :], mask=inside, other=0.0)


@triton.jit
def _half_transposed(terms, c, d, C, D):
    inside = (c < C)[None, :] & (d < D)[:, None]
    return tl.load(terms + c[None, :] * 2 * D + d[:, None], mask=inside, other=0.0)


@triton.jit
def _contexts(
    values, middle, scale, beta, terms, offset, both, K, C, D, S: tl.constexpr,
    TILE: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, PRECISION: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    c, d = tl.arange(0, BC), tl.arange(0, BD)
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    live = i < K
    base = tl.zeros([TILE, BD], ACC) + load_vector(offset, d, D, ACC)[None, :]
    mine = tl.zeros([TILE, BD], ACC)
    for s in tl.static_range(S):
        normal = _gap(values, i * S + s, live, middle, c, C, ACC)
        normal = normal * load_vector(scale, c, C, ACC)[None, :]
        normal += load_vector(beta, c, C, ACC)[None, :]
        at = terms + s * 2 * C * D
        base += product(normal, _half(at, c, d, C, D), PRECISION)
        mine += product(normal, _half(at + D, c, d, C, D), PRECISION)
    store_rows(both, base, i * 2, live, d, D)
    store_rows(both + D, mine, i * 2, live, d, D)


@triton.jit
def _contexts_backward(
    d_both, values, middle, scale, beta, terms, d_normal, parts, K, C, D, S: tl.constexpr,
    TILE: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr, PRECISION: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    c, d = tl.arange(0, BC), tl.arange(0, BD)
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    live = i < K
    g2, g3 = load_rows(d_both, i * 2, live, d, D), load_rows(d_both + D, i * 2, live, d, D)
    arrived, spread = tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    mine = parts + tl.program_id(0) * (S * 2 * C * D + 2 * C + D)
    for s in tl.static_range(S):
        gap = _gap(values, i * S + s, live, middle, c, C, ACC)
        normal = gap * load_vector(scale, c, C, ACC)[None, :]
        normal += load_vector(beta, c, C, ACC)[None, :]
        at = terms + s * 2 * C * D
        t2, t3 = _half_transposed(at, c, d, C, D), _half_transposed(at + D, c, d, C, D)
        value = product(g2, t2, PRECISION) + product(g3, t3, PRECISION)
        store_rows(d_normal, value, i * S + s, live, c, C)
        into = mine + s * 2 * C * D
        store_matrix(into, inner(normal, g2, t2, PRECISION), c, d, C, 2 * D, D)
        store_matrix(into + D, inner(normal, g3, t2, PRECISION), c, d, C, 2 * D, D)
        arrived += tl.sum(value, axis=0)
        spread += tl.sum(value * gap, axis=0)
    at = mine + S * 2 * C * D
    tl.store(at + c, arrived, mask=c < C)
    tl.store(at + C + c, spread, mask=c < C)
    tl.store(at + 2 * C + d, tl.sum(g2.to(ACC), axis=0), mask=d < D)


@triton.jit
def _weights_backward(
    columns, d_matrix, squares, total, gamma, beta, scale, w1, d_w1, d_gamma, d_beta, d_bias,
    d_middle, d_squares, C, D, EPS: tl.constexpr, BC: tl.constexpr, BD: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    c, d = tl.arange(0, BC), tl.arange(0, BD)
    there = c < C
    n = tl.load(total)
    arrived, spread = load_vector(columns, c, C, ACC), load_vector(columns + C, c, C, ACC)
    common = load_vector(columns + 2 * C, d, D, ACC)
    s, whole = load_vector(scale, c, C, ACC), load_matrix(w1, c, d, C, D).to(ACC)
    slope = load_matrix(d_matrix, c, d, C, D).to(ACC)
    shift = load_vector(beta, c, C, ACC)
    store_matrix(d_w1, s[:, None] * slope + shift[:, None] * common[None, :], c, d, C, D)
    through = tl.sum(whole * common[None, :], axis=1)
    tl.store(d_beta + c, arrived + through, mask=there)
    tl.store(d_bias + d, common, mask=d < D)
    ds = spread + tl.sum(slope * whole, axis=1)
    root = 1.0 / tl.sqrt(load_vector(squares, c, C, ACC) / n + EPS)
    tl.store(d_gamma + c, ds * root, mask=there)
    dv = -0.5 * ds * load_vector(gamma, c, C, ACC) * root * root * root
    tl.store(d_squares + c, dv / n, mask=there)
    tl.store(d_middle + c, -s * (arrived + through) / n, mask=there)


@triton.jit
def _values_backward(
    d_normal, scale, d_middle, count, d_values, K, C, S: tl.constexpr,
    TILE: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of the means, including that through the mean of all rows, and of own rows."""
    c = tl.arange(0, BC)
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    live = i < K
    n = tl.load(count + i, mask=live, other=0).to(ACC)[:, None]
    for s in tl.static_range(S):
        row = i * S + s
        value = load_rows(d_normal, row, live, c, C).to(ACC)
        value = value * load_vector(scale, c, C, ACC)[None, :]
        if s == 0:
            value += n * load_vector(d_middle, c, C, ACC)[None, :]
        store_rows(d_values, value, row, live, c, C)


@launcher
def fold(
    values: Tensor,
    middle: Tensor,
    squares: Tensor,
    total: Tensor,
    gamma: Tensor,
    beta: Tensor,
    w1: Tensor,
    terms: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    batches: Tensor,
    eps: float,
    momentum: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The matrix [C, D], the terms b_i and m_i side by side [K, 2 D], and the scale s [C].

    Updates the running statistics and the number of `batches`.
    """
    (contexts, sources, _), (c, d) = values.shape, w1.shape
    matrix, scale = torch.empty_like(w1), middle.new_empty(c)
    offset, both = middle.new_empty(d), w1.new_empty(contexts, 2 * d)
    _prepare[(1,)](
        squares, total, middle, gamma, beta, w1, bias, running_mean, running_var, batches, matrix,
        offset, scale, c, d, eps, momentum, width(c), width(d), acc_type(values),
    )  # fmt: skip
    tile = 16 if values.dtype == torch.float64 else _TILE
    if contexts:
        _contexts[(triton.cdiv(contexts, tile),)](
            values, middle, scale, beta, terms, offset, both, contexts, c, d, sources, tile,
            width(c), width(d), precision(w1), acc_type(values),
        )  # fmt: skip
    return matrix, both, scale


@launcher
def fold_backward(
    d_matrix: Tensor,
    d_both: Tensor,
    values: Tensor,
    middle: Tensor,
    squares: Tensor,
    total: Tensor,
    count: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    w1: Tensor,
    terms: Tensor,
    eps: float,
) -> list[Tensor]:
    """Gradients of values, squares, γ, β, W1, terms and c.

    They include the gradient through the center μ, which the set map subtracts from the rows.
    """
    (contexts, sources, _), (c, d) = values.shape, w1.shape
    tile = 16 if values.dtype == torch.float64 else _TILE
    programs = triton.cdiv(contexts, tile)
    acc = accumulator(values)
    d_normal, d_values = torch.empty_like(values, dtype=acc), torch.empty_like(values)
    parts = values.new_empty(programs, terms.numel() + 2 * c + d, dtype=acc)
    if contexts:
        _contexts_backward[(programs,)](
            d_both, values, middle, scale, beta, terms, d_normal, parts, contexts, c, d, sources,
            tile, width(c), width(d), precision(w1), acc_type(values),
        )  # fmt: skip
    sums = add_up(parts)  # gradients of the terms, then of the columns
    d_w1, d_bias = w1.new_empty(c, d, dtype=acc), w1.new_empty(d, dtype=acc)
    d_gamma, d_beta, d_middle, d_squares = (parts.new_empty(c) for _ in range(4))
    _weights_backward[(1,)](
        sums[terms.numel() :], d_matrix, squares, total, gamma, beta, scale, w1, d_w1, d_gamma,
        d_beta, d_bias, d_middle, d_squares, c, d, eps, width(c), width(d), acc_type(values),
    )  # fmt: skip
    if contexts:
        _values_backward[(programs,)](
            d_normal, scale, d_middle, count, d_values, contexts, c, sources, tile, width(c),
            acc_type(values),
        )  # fmt: skip
    d_terms = sums[: terms.numel()].view(terms.shape)
    return [d_values, d_squares, d_gamma, d_beta, d_w1, d_terms, d_bias]
