"""Matmuls over very many rows."""

from __future__ import annotations

import pytest
import torch
from strategies import assert_same
from torch import Tensor

from smpgnn.ops import affine
from smpgnn.ops.affine import inner_product, times, times_into

SIZES = [0, 5, 512, 1024, 5003]


def tensors(size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Rows, a matrix, a bias and an output."""
    torch.manual_seed(size)
    shapes = [(size, 24), (24, 40), (40,), (size, 40)]
    rows, matrix, bias, out = (torch.randn(shape, dtype=dtype) for shape in shapes)
    return rows, matrix, bias, out


@pytest.mark.parametrize("size", SIZES)
def test_inner_product_equals_the_product(size: int) -> None:
    rows, *_, grad = tensors(size, torch.float64)
    assert_same(inner_product(rows, grad), rows.t() @ grad)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", SIZES)
def test_matmuls_of_any_size(
    monkeypatch: pytest.MonkeyPatch, size: int, dtype: torch.dtype, transposed: bool
) -> None:
    """In float32 by oneDNN, where it is used: as close to float64 as rounding allows."""
    monkeypatch.setattr(affine, "_MANY", 0)
    rows, matrix, bias, out = tensors(size, dtype)
    if transposed:
        matrix = matrix.t().contiguous().t()
    exact = rows.double() @ matrix.double()

    def check(found: Tensor, wanted: Tensor) -> None:
        bound = 1e-12 if dtype == torch.float64 else 1e-5
        torch.testing.assert_close(found.double(), wanted, rtol=bound, atol=40 * bound)

    check(times(rows, matrix), exact)
    check(times(rows, matrix, bias), exact + bias.double())
    check(times_into(out.clone(), rows, matrix, add=True), exact + out.double())
    check(times_into(out.clone(), rows, matrix, bias), exact + bias.double())
    total = rows.double().t() @ out.double()
    torch.testing.assert_close(inner_product(rows, out).double(), total, rtol=1e-4, atol=1e-3)


def test_a_part_of_a_matrix() -> None:
    """oneDNN would need seconds for a matrix with gaps between its rows."""
    rows, matrix, *_ = tensors(5003, torch.float32)
    part = matrix[:, 3:30]
    torch.testing.assert_close(times(rows, part), rows @ part, rtol=1e-4, atol=1e-4)
