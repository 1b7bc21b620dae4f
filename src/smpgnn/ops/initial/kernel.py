"""The rows of contexts before the first layer, one context per program."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import acc_type, clear_tail, launcher, store_rows, width

#: Maximum columns per program, and rows per tile.
COLUMNS, BLOCK = 128, 16


@triton.jit
def _initial(
    x, rows, own_rows, mean, ptr, own, count, held, C, K, ROWS,
    HELD: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    clear_tail(rows, ptr, K, ROWS, c, C, BLOCK)
    given = (c > 0) & (c < C)
    value = tl.load(x + node.to(tl.int64) * (C - 1) + c - 1, mask=given, other=0.0)
    value = tl.where(c == 0, 1.0, value).to(x.dtype.element_ty)
    size = tl.maximum(tl.load(count + node), 1).to(x.dtype.element_ty)
    mine, first, last = tl.load(own + node), tl.load(ptr + node), tl.load(ptr + node + 1)
    total, at = tl.zeros([BC], ACC), node.to(tl.int64) * C + c
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live, me = r < last, (r == mine)[:, None]
        if HELD:
            j = tl.load(held + r, mask=live, other=K)
            here = (j < K)[:, None] & given[None, :]
            tile = tl.load(x + j[:, None] * (C - 1) + c[None, :] - 1, mask=here, other=0.0)
            tile = tl.where((c == 0)[None, :], tl.where(me, 1.0, 0.0), tile)
            total += tl.sum(tile.to(ACC), axis=0)
        else:
            tile = tl.where(me, value[None, :], 0.0)
        store_rows(rows, tile, r, live, c, C)
    tl.store(own_rows + at, value, mask=c < C)
    if HELD:  # rows with a multiplicity equal the other rows of their context
        share = tl.where(c == 0, total / size.to(ACC), total / tl.maximum(last - first, 1).to(ACC))
    elif value.dtype == tl.float64:
        share = value / size
    else:
        share = tl.div_rn(value.to(ACC), tl.zeros([BC], ACC) + size.to(ACC))
    tl.store(mean + at, share.to(mean.dtype.element_ty), mask=c < C)


@launcher
def initial_rows(
    x: Tensor, ptr: Tensor, own: Tensor, count: Tensor, size: int, held: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows [P, 1 + F], own rows and means [K, 1 + F]."""
    contexts, channels = x.size(0), x.size(1) + 1
    rows, own_rows = x.new_empty(size, channels), x.new_empty(contexts, channels)
    mean, tile = x.new_empty(contexts, channels), min(COLUMNS, width(channels))
    if contexts:
        _initial[(contexts, triton.cdiv(channels, tile))](
            x, rows, own_rows, mean, ptr, own, count, count if held is None else held, channels,
            contexts, size, held is not None, BLOCK, tile, acc_type(x), num_warps=1,
        )  # fmt: skip
    return rows, own_rows, mean
