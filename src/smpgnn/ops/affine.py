"""Matmuls over all rows, split over threads."""

from __future__ import annotations

import torch
from torch import Tensor

#: Number of pieces into which a CPU splits a matmul over all rows, to share it among threads.
PIECES = 16


def inner_product(rows: Tensor, grad: Tensor) -> Tensor:
    """rowsᵀ · grad, the gradient of a matrix: a small sum over very many rows.

    Shapes: rows [P, C], grad [P, D], result [C, D].
    """
    size = rows.size(0) // PIECES
    if rows.is_cuda or size < 64:
        return rows.t() @ grad
    cut = size * PIECES
    left = rows[:cut].view(PIECES, size, rows.size(1)).transpose(1, 2)
    total = torch.bmm(left, grad[:cut].view(PIECES, size, grad.size(1))).sum(0)
    return total.addmm_(rows[cut:].t(), grad[cut:])
