"""Matmuls over all rows on a CPU.

torch computes float32 matmuls with MKL, which uses only half of the vector width of AMD's
processors with AVX-512. oneDNN, which torch contains as well, uses all of it and is twice as fast
there; on other processors both are alike. oneDNN compiles a kernel for each number of rows and
keeps the last thousand. So it gets a multiple of `BLOCK` rows, and the rest goes to MKL.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

#: Number of pieces into which a CPU splits a matmul over all rows, to share it among threads.
#: From 16 on, torch computes convolutions with oneDNN.
PIECES = 16
#: Rows in the unit of oneDNN's matmuls.
BLOCK = 512
#: Multiplications from which oneDNN is faster despite its longer start.
_MANY = 1 << 20


def times(rows: Tensor, matrix: Tensor, bias: Tensor | None = None) -> Tensor:
    """rows · matrix + bias, without autograd. Shapes: [P, C], [C, D], [D] to [P, D]."""
    if not _by_onednn(rows, matrix.size(1)):
        return rows @ matrix if bias is None else torch.addmm(bias, rows, matrix)
    return times_into(rows.new_empty(rows.size(0), matrix.size(1)), rows, matrix, bias)


def times_into(
    out: Tensor, rows: Tensor, matrix: Tensor, bias: Tensor | None = None, *, add: bool = False
) -> Tensor:
    """Write rows · matrix + bias into `out`, or add it, without a bias. Shape: out [P, D]."""
    cut = rows.size(0) - rows.size(0) % BLOCK if _by_onednn(rows, matrix.size(1)) else 0
    if cut:
        weight = matrix.detach().t()
        if not matrix.is_contiguous():  # oneDNN is very slow if neither is
            weight = weight.contiguous()
        first = rows.detach()[:cut]
        done = torch.ops.mkldnn._linear_pointwise(first, weight, bias, "none", [], "")
        (out[:cut].add_ if add else out[:cut].copy_)(done)
    if cut < rows.size(0):
        rest = out[cut:]
        part = rows[cut:]
        if add:
            rest.addmm_(part, matrix)
        elif bias is None:
            torch.mm(part, matrix, out=rest)
        else:
            torch.addmm(bias, part, matrix, out=rest)
    return out


def inner_product(rows: Tensor, grad: Tensor) -> Tensor:
    """rowsᵀ · grad, the gradient of a matrix: a small sum over very many rows.

    Shapes: rows [P, C], grad [P, D], result [C, D].
    """
    size = rows.size(0) // BLOCK * BLOCK // PIECES
    if rows.is_cuda or size < 64:
        return rows.t() @ grad
    cut = size * PIECES
    left, right = (value[:cut].view(PIECES, size, -1) for value in (rows, grad))
    if _by_onednn(rows, grad.size(1)):
        # as the gradient of the weights of a convolution of size 1
        weights = rows.new_empty(1).expand(grad.size(1), rows.size(1), 1, 1)
        images = [part.unsqueeze(2).permute(0, 3, 1, 2) for part in (right, left)]
        total: Tensor = torch.ops.aten.convolution_backward(
            *images, weights, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [False, True, False]
        )[1]
        total = total.view(grad.size(1), rows.size(1)).t().contiguous()
    else:
        total = torch.bmm(left.transpose(1, 2), right).sum(0)
    return total.addmm_(rows[cut:].t(), grad[cut:])


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
    """Whether oneDNN is there and has wider vectors than MKL may use."""
    mkldnn: Any = torch.backends.mkldnn
    return (
        mkldnn.is_available()
        and torch.backends.cpu.get_cpu_capability() == "AVX512"
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
    )
