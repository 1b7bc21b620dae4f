"""Matmuls of rows: added in place, or split over threads."""

from __future__ import annotations

import torch
from torch import Tensor


def add_product(total: Tensor, rows: Tensor, matrix: Tensor) -> Tensor:
    """total + rows · matrix, written into `total`, which must not be used afterwards.

    The matmul runs in the dtype of `total`. Gradients flow to all three.

    Shapes: total [P, D], rows [P, C], matrix [C, D].
    """
    return total.addmm_(rows.to(total.dtype), matrix.to(total.dtype))


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
