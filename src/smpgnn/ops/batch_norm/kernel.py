"""Batch norm of rows with known moments: one launch, and three for the gradients."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import (
    acc_type,
    accumulator,
    add_up,
    columns,
    launcher,
    load_rows,
    load_vector,
    store_rows,
    tiling,
    track,
)

#: Maximum columns per program.
COLUMNS = 64


@triton.jit
def _inverse(squares, total, c, C, EPS: tl.constexpr, ACC: tl.constexpr):
    """1 / √(variance + ε)."""
    return 1.0 / tl.sqrt(load_vector(squares, c, C, ACC) / tl.load(total) + EPS)


@triton.jit
def _forward(
    x, out, ptr, gamma, beta, middle, squares, total, running_mean, running_var, batches, K, ROWS,
    C, EPS: tl.constexpr, MOMENTUM: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    center = load_vector(middle, c, C, ACC)
    scale = load_vector(gamma, c, C, ACC) * _inverse(squares, total, c, C, EPS, ACC)
    shift = load_vector(beta, c, C, ACC)
    last = tl.load(ptr + K)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        tile = load_rows(x, r, live, c, C).to(ACC) - center[None, :]
        value = tile * scale[None, :] + shift[None, :]
        store_rows(out, tl.where(live[:, None], value, 0.0), r, r < ROWS, c, C)
    if tl.program_id(0) == 0:
        n = tl.load(total)
        variance = load_vector(squares, c, C, ACC) / n
        track(running_mean, running_var, center, variance, n, c, C, MOMENTUM, ACC)
        if tl.program_id(1) == 0:
            tl.store(batches, tl.load(batches) + 1)


@triton.jit
def _slopes(
    grad, x, ptr, middle, squares, total, parts, K, ROWS, C,
    EPS: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Sum the gradients of shift and scale over the rows of this program."""
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    center = load_vector(middle, c, C, ACC)
    inverse = _inverse(squares, total, c, C, EPS, ACC)
    first, second = tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    last = tl.load(ptr + K)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        g = load_rows(grad, r, live, c, C).to(ACC)
        tile = load_rows(x, r, live, c, C).to(ACC) - center[None, :]
        first += tl.sum(g, axis=0)
        second += tl.sum(g * tile, axis=0)
    at = parts + tl.program_id(0) * 2 * C + c
    tl.store(at, first, mask=c < C)
    tl.store(at + C, second * inverse, mask=c < C)


@triton.jit
def _backward(
    grad, x, multiplicity, ptr, gamma, middle, squares, total, slopes, dx, K, ROWS, C,
    EPS: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, WEIGHTED: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    center = load_vector(middle, c, C, ACC)
    inverse = _inverse(squares, total, c, C, EPS, ACC)
    scale = load_vector(gamma, c, C, ACC) * inverse
    n = tl.load(total)
    first = load_vector(slopes, c, C, ACC) / n
    second = load_vector(slopes + C, c, C, ACC) / n * inverse
    last = tl.load(ptr + K)
    for start in range(tl.program_id(0) * BLOCK, ROWS, tl.num_programs(0) * BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        g = load_rows(grad, r, live, c, C).to(ACC)
        tile = load_rows(x, r, live, c, C).to(ACC) - center[None, :]
        common = first[None, :] + tile * second[None, :]
        if WEIGHTED:
            common = common * tl.load(multiplicity + r, mask=live, other=0).to(ACC)[:, None]
        value = (g - common) * scale[None, :]
        store_rows(dx, tl.where(live[:, None], value, 0.0), r, r < ROWS, c, C)


@launcher
def batch_norm(
    rows: Tensor,
    ptr: Tensor,
    gamma: Tensor,
    beta: Tensor,
    middle: Tensor,
    squares: Tensor,
    total: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    batches: Tensor,
    eps: float,
    momentum: float,
) -> Tensor:
    """See `smpgnn.ops.batch_norm`; updates the running statistics."""
    (size, channels), out = rows.shape, torch.empty_like(rows)
    layout, (tile, tiles) = tiling("batch_norm", rows, channels), columns(channels, COLUMNS)
    if out.numel():
        _forward[(layout.programs(rows), tiles)](
            rows, out, ptr, gamma, beta, middle, squares, total, running_mean, running_var,
            batches, ptr.numel() - 1, size, channels, eps, momentum, layout.block, tile,
            acc_type(rows), **layout.launch,
        )  # fmt: skip
    return out


@launcher
def batch_norm_backward(
    grad: Tensor,
    rows: Tensor,
    ptr: Tensor,
    multiplicity: Tensor | None,
    gamma: Tensor,
    middle: Tensor,
    squares: Tensor,
    total: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Gradients of the rows, and of shift and scale, [2, C]."""
    (size, channels), dx = rows.shape, torch.empty_like(rows)
    layout, (tile, tiles) = tiling("batch_norm", rows, channels), columns(channels, COLUMNS)
    programs = layout.programs(rows)
    parts = rows.new_empty(programs, 2, channels, dtype=accumulator(rows))
    if not dx.numel():
        return dx, parts.new_zeros(2, channels)
    known, sizes = (middle, squares, total), (ptr.numel() - 1, size, channels)
    _slopes[(programs, tiles)](
        grad, rows, ptr, *known, parts, *sizes, eps, layout.block, tile, acc_type(rows),
        **layout.launch,
    )  # fmt: skip
    slopes = add_up(parts)
    _backward[(programs, tiles)](
        grad, rows, ptr if multiplicity is None else multiplicity, ptr, gamma, *known, slopes, dx,
        *sizes, eps, layout.block, tile, multiplicity is not None, acc_type(rows), **layout.launch,
    )  # fmt: skip
    return dx, slopes
