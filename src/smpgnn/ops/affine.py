"""Matmuls over all rows on a CPU."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from smpgnn.ops import backend

#: Number of pieces into which a CPU splits a matmul over all rows, to share it among threads.
PIECES = 16


def row_blocks(rows: Tensor) -> Iterator[slice]:
    """Slices of rows that stay in the cache of a processor; on a GPU all rows."""
    size, step = rows.size(0), max(1, backend.CACHED // max(1, rows.size(1)))
    if rows.is_cuda or size <= step:
        yield slice(0, size)
        return
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))


def inner_product(rows: Tensor, grad: Tensor) -> Tensor:
    """rowsᵀ · grad, the gradient of a matrix: a small sum over very many rows.

    Shapes: rows [P, C], grad [P, D], result [C, D].
    """
    size = rows.size(0) // PIECES
    if rows.is_cuda or size < 64:
        return rows.t() @ grad
    cut = size * PIECES
    left, right = (value[:cut].view(PIECES, size, -1) for value in (rows, grad))
    total = torch.bmm(left.transpose(1, 2), right).sum(0)
    return total.addmm_(rows[cut:].t(), grad[cut:])
