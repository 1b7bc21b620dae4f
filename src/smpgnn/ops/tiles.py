"""Helpers shared by the kernels: tiles of rows, matrices, matmuls, and launch configurations.

Some kernels process one context per program, so that one program does all work for a context or an
edge. The others process consecutive rows in large tiles. Programs that accumulate gradients of
weights process many tiles and keep the sums in registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, wraps
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor


def launcher(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function that launches kernels: select the GPU, make all tensors contiguous."""

    @wraps(function)
    def launched(*arguments: Any) -> Any:
        given = [_contiguous(argument) for argument in arguments]
        with torch.cuda.device_of(next(value for value in given if isinstance(value, Tensor))):
            return function(*given)

    return launched


def _contiguous(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.contiguous()
    return [_contiguous(entry) for entry in value] if isinstance(value, list | tuple) else value


@triton.jit
def product(x, w, PRECISION: tl.constexpr):
    """x · w; 'exact' is for float64 and does not use tensor cores."""
    if PRECISION == "exact":
        return tl.sum(x[:, :, None] * w[None, :, :], axis=1)
    else:
        return tl.dot(x.to(w.dtype), w, input_precision=PRECISION)


@triton.jit
def inner(x, g, like, PRECISION: tl.constexpr):
    """xᵀ · g, the gradient of a matrix, with both rounded to the dtype of `like`."""
    if PRECISION == "exact":
        return tl.sum(x[:, :, None] * g[:, None, :], axis=0)
    else:
        return tl.dot(tl.trans(x.to(like.dtype)), g.to(like.dtype), input_precision=PRECISION)


@triton.jit
def load_matrix(w, c, d, C, D):
    """The matrix w [C, D], padded with zeros."""
    return tl.load(
        w + c[:, None] * D + d[None, :], mask=(c[:, None] < C) & (d[None, :] < D), other=0.0
    )


@triton.jit
def load_transposed(w, c, d, C, D):
    """The transpose of w [C, D], as a tile [D, C]."""
    return tl.load(
        w + c[None, :] * D + d[:, None], mask=(c[None, :] < C) & (d[:, None] < D), other=0.0
    )


@triton.jit
def load_vector(v, c, C, ACC: tl.constexpr):
    return tl.load(v + c, mask=c < C, other=0.0).to(ACC)


@triton.jit
def track(
    running_mean, running_var, middle, variance, n, c, C, MOMENTUM: tl.constexpr, ACC: tl.constexpr
):
    """Update the running statistics of a batch norm with those of n rows."""
    there = c < C
    old = load_vector(running_mean, c, C, ACC)
    new = old + MOMENTUM * (middle - old)
    tl.store(running_mean + c, new.to(running_mean.dtype.element_ty), mask=there)
    old = load_vector(running_var, c, C, ACC)
    new = old + MOMENTUM * (variance * n / tl.maximum(n - 1.0, 1.0) - old)
    tl.store(running_var + c, new.to(running_var.dtype.element_ty), mask=there)


@triton.jit
def listed(start, last, order, GATHER: tl.constexpr, BLOCK: tl.constexpr):
    """A tile of start:last or (`GATHER`) of order[start:last], and its mask."""
    r = start + tl.arange(0, BLOCK)
    live = r < last
    if GATHER:
        r = tl.load(order + r, mask=live, other=0)
    return r, live


@triton.jit
def load_rows(x, r, live, c, C):
    """The rows r of x [*, C], zero where `live` is false."""
    return tl.load(
        x + r.to(tl.int64)[:, None] * C + c[None, :],
        mask=live[:, None] & (c[None, :] < C),
        other=0.0,
    )


@triton.jit
def store_rows(x, value, r, live, c, C):
    tl.store(
        x + r.to(tl.int64)[:, None] * C + c[None, :],
        value.to(x.dtype.element_ty),
        mask=live[:, None] & (c[None, :] < C),
    )


@triton.jit
def store_matrix(w, value, c, d, C, D, COLUMNS=None):
    """Write a matrix [C, D], or (`COLUMNS`) the first columns of a matrix with rows of length D."""
    if COLUMNS is None:
        mask = (c[:, None] < C) & (d[None, :] < D)
    else:
        mask = (c[:, None] < C) & (d[None, :] < COLUMNS)
    tl.store(w + c[:, None] * D + d[None, :], value.to(w.dtype.element_ty), mask=mask)


@triton.jit
def clear_tail(x, ptr, K, ROWS, c, C, BLOCK: tl.constexpr):
    """Set the padding rows, from ptr[K] on, to zero; the programs share this work."""
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.load(ptr + K) + tl.program_id(0) * BLOCK, ROWS, step):
        r = start + tl.arange(0, BLOCK)
        zeros = tl.zeros([BLOCK, 1], tl.float32) + tl.zeros_like(c)[None, :]
        store_rows(x, zeros, r, r < ROWS, c, C)


@triton.jit
def _add_up(parts, out, G, SIZE, ROWS: tl.constexpr, COLUMNS: tl.constexpr, ACC: tl.constexpr):
    j = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros([COLUMNS], ACC)
    for start in range(0, G, ROWS):
        i = start + tl.arange(0, ROWS)
        at = i.to(tl.int64)[:, None] * SIZE + j[None, :]
        here = (i[:, None] < G) & (j[None, :] < SIZE)
        total += tl.sum(tl.load(parts + at, mask=here, other=0.0), axis=0)
    tl.store(out + j, total, mask=j < SIZE)


def add_up(parts: Tensor) -> Tensor:
    """Sum the partial results of the programs of a launch, over the first dimension."""
    out = parts.new_empty(parts.shape[1:])
    if out.numel():
        grid = (triton.cdiv(out.numel(), 16),)
        _add_up[grid](parts, out, parts.size(0), out.numel(), 128, 16, acc_type(parts), num_warps=4)
    return out


HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True)
class Tiling:
    """The launch configuration of a kernel.

    Args:
        block: rows per tile.
        warps: warps per program.
        per_processor: programs per multiprocessor, for a launch whose programs loop over the rows.
        stages: pipeline stages of a loop.
        columns: maximum columns per tile, for kernels that can split columns among programs.
    """

    block: int
    warps: int
    per_processor: int = 4
    stages: int = 1
    columns: int = 256

    @property
    def launch(self) -> dict[str, int]:
        return {"num_warps": self.warps, "num_stages": self.stages}

    def programs(self, rows: Tensor) -> int:
        tiles = triton.cdiv(rows.size(0), self.block)
        return max(1, min(int(tiles), self.per_processor * _processors(rows)))


#: Measured on an H200 (benchmarks/NOTES.md), by kernel and tile width.
TILINGS: dict[tuple[str, int], Tiling] = {
    ("set_linear", 32): Tiling(64, 4, 4),
    ("set_linear", 64): Tiling(128, 4, 4),
    ("set_linear_terms", 32): Tiling(64, 4, 4),
    ("set_linear_terms", 64): Tiling(64, 4, 2),
    ("set_linear_backward", 32): Tiling(64, 4, 2),
    ("set_linear_backward", 64): Tiling(64, 4, 2),
    ("sums", 32): Tiling(32, 1),
    ("sums", 64): Tiling(32, 1),
    ("moments", 32): Tiling(32, 1),
    ("moments", 64): Tiling(32, 1),
    ("moments_backward", 32): Tiling(32, 2),
    ("moments_backward", 64): Tiling(32, 2),
    ("fast", 32): Tiling(64, 4, 4),
    ("fast_backward", 32): Tiling(64, 4, 2, 2),
    ("neighbor_sum", 32): Tiling(32, 4),
    ("neighbor_sum", 64): Tiling(32, 4),
    ("message_sums", 32): Tiling(32, 2),
    ("message_sums", 64): Tiling(16, 2),
    ("update", 32): Tiling(64, 4, 4),
    ("update", 64): Tiling(64, 4, 2),
    ("update_backward", 32): Tiling(64, 4, 2),
    ("update_backward", 64): Tiling(32, 4, 2),
    ("message_gradients", 32): Tiling(32, 4),
    ("message_gradients", 64): Tiling(16, 2),
    ("terms_backward", 32): Tiling(64, 4, 2),
    ("terms_backward", 64): Tiling(32, 8, 2, columns=128),
}
#: From this width and number of rows on, cuBLAS is faster than our kernels, which compute several
#: matmuls in one pass: the sums of gradients do not fit into registers.
WIDE, MANY = 64, 2**16


def by_library(rows: Tensor, channels: int) -> bool:
    return rows.size(0) >= MANY and width(channels) >= WIDE and rows.dtype not in HALF


def tiling(kernel: str, rows: Tensor, channels: int) -> Tiling:
    """The configuration of a kernel that processes consecutive rows."""
    wide = width(channels)
    default = Tiling(64 if wide <= 64 else 32, 4 if wide <= 32 else 8)
    chosen = TILINGS.get((kernel, wide), default)
    if rows.dtype == torch.float64:  # matmuls without tensor cores need many registers
        return Tiling(16, 4, columns=min(32, chosen.columns))
    return chosen


def context_tiling(kernel: str, rows: Tensor, contexts: int, channels: int) -> Tiling:
    """The configuration of a kernel with one context per program, by the mean context size."""
    wide = width(channels)
    chosen = TILINGS.get((kernel, wide)) or Tiling(32, 4)
    small = rows.size(0) <= 16 * contexts or wide > 64 or rows.dtype == torch.float64
    return replace(chosen, block=16) if small else chosen


def columns(channels: int, most: int = 128) -> tuple[int, int]:
    """Columns per program, at most `most`, and the number of programs that share a row."""
    tile = min(most, width(channels))
    return tile, triton.cdiv(channels, tile)


def width(channels: int) -> int:
    """The tile width for this many channels: a power of two that matmuls accept."""
    return max(16, int(triton.next_power_of_2(channels)))


@cache
def _multiprocessors(device: torch.device) -> int:
    return torch.cuda.get_device_properties(device).multi_processor_count


def _processors(rows: Tensor) -> int:
    return _multiprocessors(rows.device) if rows.is_cuda else 1


def precision(rows: Tensor) -> str:
    """Matmul precision: 'tf32' if torch allows it, else 'tf32x3' (float32); 'exact' for float64."""
    if rows.dtype == torch.float64:
        return "exact"
    if rows.dtype != torch.float32:
        return "tf32"  # no effect: the operands are not float32
    return "tf32" if torch.get_float32_matmul_precision() != "highest" else "tf32x3"


def accumulator(rows: Tensor) -> torch.dtype:
    """The dtype in which sums over rows of this dtype are accumulated."""
    return torch.float64 if rows.dtype == torch.float64 else torch.float32


def acc_type(rows: Tensor) -> tl.dtype:
    """`accumulator` as a Triton dtype."""
    return tl.float64 if rows.dtype == torch.float64 else tl.float32
