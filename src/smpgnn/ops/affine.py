"""Matmuls over all rows on a CPU."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from smpgnn.ops import backend

#: Columns from which on the matmul with a block of a matrix is fast.
_WIDE = 16
#: Pieces of a sum over all rows, which the threads of a CPU share.
_PIECES = 8


def row_blocks(rows: Tensor) -> Iterator[slice]:
    """Slices of rows that stay in the cache of a processor; on a GPU all rows."""
    size, step = rows.size(0), max(1, backend.CACHED // max(1, rows.size(1)))
    if rows.is_cuda or size <= step:
        yield slice(0, size)
        return
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def groups(matrix: Tensor, towers: int) -> int:
    """The number of blocks on the diagonal of a matrix of towers that a CPU multiplies apart.

    Each has one or several towers and at least 16 columns. On a GPU the matrix stays whole.
    """
    if matrix.is_cuda:
        return 1
    fitting = (n for n in range(1, towers + 1) if towers % n == 0)
    return max(n for n in fitting if n == 1 or min(matrix.shape) >= n * _WIDE)


def multiply(
    rows: Tensor, matrix: Tensor, out: Tensor, count: int = 1, *, add: bool = False
) -> Tensor:
    """Write rows · matrix into `out`, or add it; the matrix has `count` blocks on its diagonal."""
    parts = rows.chunk(count, 1), diagonal(matrix, count), out.chunk(count, 1)
    for some, block, new in zip(*parts, strict=True):
        new.addmm_(some, block) if add else torch.mm(some, block, out=new)
    return out


def add_inner_product(total: Tensor, rows: Tensor, grad: Tensor, count: int = 1) -> None:
    """Add rowsᵀ · grad to `total`, the gradient of a matrix with `count` blocks on its diagonal."""
    parts = diagonal(total, count), rows.chunk(count, 1), grad.chunk(count, 1)
    cut = rows.size(0) // _PIECES * _PIECES
    for block, some, slope in zip(*parts, strict=True):
        if cut and not rows.is_cuda:
            left, right = (value[:cut].view(_PIECES, -1, value.size(1)) for value in (some, slope))
            block += torch.bmm(left.transpose(1, 2), right).sum(0)
            some, slope = some[cut:], slope[cut:]
        block += some.t() @ slope


def diagonal(matrix: Tensor, count: int) -> list[Tensor]:
    """The blocks on the diagonal of a matrix."""
    strips = matrix.chunk(count, 0)
    return [strip.chunk(count, 1)[place] for place, strip in enumerate(strips)]


def sums_like(matrix: Tensor) -> Tensor:
    """Zeros for the gradient of a matrix, at least in float32."""
    return torch.zeros_like(matrix, dtype=torch.promote_types(matrix.dtype, torch.float32))
