"""Matrices of node pairs from rows to squares with zeros around, channel by channel, and back."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import acc_type, launcher, load_rows, store_rows, width


@triton.jit
def _move(
    rows, full, ptr, graph_ptr, C, SIZE, REAL,
    BLOCK: tl.constexpr, BC: tl.constexpr, SCALED: tl.constexpr, BACK: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """One program moves the pairs (i, ·) of a graph: rows into the square, or back."""
    graph = (tl.program_id(0) // SIZE).to(tl.int64)
    i = tl.program_id(0) % SIZE
    c = tl.arange(0, BC)
    first = tl.load(graph_ptr + graph)
    nodes = tl.load(graph_ptr + graph + 1) - first
    nodes = tl.where((graph < REAL) & (i < nodes), nodes, 0)
    start = tl.load(ptr + first + i, mask=nodes > 0, other=0)
    factor = 1.0 / tl.sqrt(tl.maximum(nodes, 1).to(ACC))
    for begin in range(0, SIZE, BLOCK):
        j = begin + tl.arange(0, BLOCK)
        place = full + ((graph * C + c[:, None]) * SIZE + i) * SIZE + j[None, :]
        if BACK:
            there = (c[:, None] < C) & (j[None, :] < nodes)
            tile = tl.trans(tl.load(place, mask=there, other=0.0))
        else:
            tile = load_rows(rows, start + j, j < nodes, c, C)
        if SCALED:
            tile = (tile * factor).to(tile.dtype)
        if BACK:
            store_rows(rows, tile, start + j, j < nodes, c, C)
        else:
            tl.store(place, tl.trans(tile), mask=(c[:, None] < C) & (j[None, :] < SIZE))


@triton.jit
def _column_sum(
    rows, out, ptr, graph_ptr, C, PARTS, BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr
):
    """One program sums some columns of the matrix of a graph."""
    graph = tl.program_id(0) // PARTS
    c = tl.arange(0, BC)
    first = tl.load(graph_ptr + graph)
    nodes = tl.load(graph_ptr + graph + 1) - first
    j = (tl.program_id(0) % PARTS) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK, BC], ACC)
    for i in range(nodes):
        start = tl.load(ptr + first + i)
        total += load_rows(rows, start + j, j < nodes, c, C).to(ACC)
    store_rows(out, total, first + j, j < nodes, c, C)


@launcher
def column_sums(
    rows: Tensor, ptr: Tensor, graph_ptr: Tensor, num_nodes: int, size: int, real: int
) -> Tensor:
    """Σ_i of the rows (i, j) for each node j of the first `real` graphs, [P, C] to [N, C]."""
    block, out = 8, rows.new_zeros(num_nodes, rows.size(1))
    parts = triton.cdiv(size, block)
    if real and parts and rows.numel():
        _column_sum[(real * parts,)](
            rows, out, ptr, graph_ptr, rows.size(1), parts,
            BLOCK=block, BC=width(rows.size(1)), ACC=acc_type(rows), num_warps=2,
        )  # fmt: skip
    return out


@launcher
def squares(
    rows: Tensor, ptr: Tensor, graph_ptr: Tensor, size: int, real: int, scaled: bool
) -> Tensor:
    """Rows [P, C] as [B, C, size, size]; those of the first `real` graphs, zeros else.

    Where `scaled`, divided by the root of the number of nodes.
    """
    channels, graphs = rows.size(1), graph_ptr.numel() - 1
    full = rows.new_empty(graphs, channels, size, size)
    _launch(rows, full, ptr, graph_ptr, real, scaled, back=False)
    return full


@launcher
def pairs(
    full: Tensor, ptr: Tensor, graph_ptr: Tensor, num_rows: int, real: int, scaled: bool
) -> Tensor:
    """The rows [P, C] that lie in squares [B, C, size, size]; zeros for those of no graph."""
    rows = full.new_zeros(num_rows, full.size(1))
    _launch(rows, full, ptr, graph_ptr, real, scaled, back=True)
    return rows


def _launch(
    rows: Tensor, full: Tensor, ptr: Tensor, graph_ptr: Tensor, real: int, scaled: bool, back: bool
) -> None:
    graphs, channels, size, _ = full.shape
    if full.numel() == 0 or rows.numel() == 0:
        if not back:
            full.zero_()
        return
    _move[(graphs * size,)](
        rows, full, ptr, graph_ptr, channels, size, real,
        BLOCK=32, BC=width(channels), SCALED=scaled, BACK=back,
        ACC=acc_type(rows), num_warps=2,
    )  # fmt: skip
