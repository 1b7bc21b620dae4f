"""Matmuls over all rows on a CPU.

torch computes float32 matmuls with MKL, which uses only half of the vector width of AMD's
processors with AVX-512. oneDNN, which torch contains as well, uses all of it and is twice as fast
there; on other processors both are alike.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

#: Number of pieces into which a CPU splits a matmul over all rows, to share it among threads.
#: From 16 on, torch computes convolutions with oneDNN.
PIECES = 16
#: Multiplications from which oneDNN is faster despite its longer start.
_MANY = 1 << 20


def times(rows: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """rows · matrix + bias, without autograd. Shapes: [P, C], [C, D], [D] to [P, D]."""
    if _by_onednn(rows, matrix.size(1)):
        linear = torch.ops.mkldnn._linear_pointwise
        found: Tensor = linear(rows.detach(), _weight(matrix), bias, "none", [], "")
        return found
    return rows @ matrix if bias is None else torch.addmm(bias, rows, matrix)


def plus_times(total: Tensor, rows: Tensor, matrix: Tensor) -> Tensor:
    """total + rows · matrix, without autograd; overwrites `total`. Shapes: as in `times`."""
    if _by_onednn(rows, matrix.size(1)):
        return total.add_(times(rows, matrix))
    return total.addmm_(rows, matrix)


def inner_product(rows: Tensor, grad: Tensor) -> Tensor:
    """rowsᵀ · grad, the gradient of a matrix: a small sum over very many rows.

    Shapes: rows [P, C], grad [P, D], result [C, D].
    """
    size = rows.size(0) // PIECES
    if rows.is_cuda or size < 64:
        return rows.t() @ grad
    cut = size * PIECES
    left, right = (_pieces(value[:cut], size) for value in (rows, grad))
    if _by_onednn(rows, grad.size(1)):
        # as the gradient of the weights of a convolution of size 1
        weights = rows.new_empty(1).expand(grad.size(1), rows.size(1), 1, 1)
        images = [part.unsqueeze(2).permute(0, 3, 1, 2) for part in (right, left)]
        total = torch.ops.aten.convolution_backward(
            *images, weights, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]
        )[1]
        total = total.view(grad.size(1), rows.size(1)).t().contiguous()
    else:
        total = torch.bmm(left.transpose(1, 2), right).sum(0)
    return total.addmm_(rows[cut:].t(), grad[cut:])


def _pieces(values: Tensor, size: int) -> Tensor:
    return values.view(PIECES, size, values.size(1))


def _weight(matrix: Tensor) -> Tensor:
    """The transposed matrix; oneDNN is very slow if neither it nor the matrix is contiguous."""
    weight = matrix.detach().t()
    return weight if matrix.is_contiguous() else weight.contiguous()


def _by_onednn(rows: Tensor, width: int) -> bool:
    return (
        rows.dtype == torch.float32
        and rows.device.type == "cpu"
        and rows.numel() * width >= _MANY
        and _has_onednn()
        and not torch.compiler.is_compiling()
    )


@cache
def _has_onednn() -> bool:
    """Whether oneDNN is there and has wider vectors than MKL would use."""
    return (
        torch.backends.mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
