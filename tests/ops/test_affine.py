"""Products added into one tensor: values, gradients and precision."""

from __future__ import annotations

import pytest
import torch
from strategies import assert_same
from torch.autograd import gradcheck

from smpgnn.ops import add_product
from smpgnn.ops.affine import inner_product


def test_adds_the_product_and_has_all_three_gradients() -> None:
    shapes = ((4, 3), (4, 2), (2, 3))
    total, rows, matrix = (torch.randn(s, dtype=torch.float64, requires_grad=True) for s in shapes)
    assert torch.allclose(add_product(total * 1, rows, matrix), total + rows @ matrix)
    assert gradcheck(lambda t, r, m: add_product(t * 1, r, m), [total, rows, matrix])


def test_keeps_the_precision_of_the_total() -> None:
    total, rows, matrix = torch.zeros(4, 3), torch.ones(4, 2).bfloat16(), torch.ones(2, 3)
    assert add_product(total, rows, matrix).dtype == torch.float32


@pytest.mark.parametrize("size", [0, 5, 1024, 5003])
def test_inner_product_equals_the_product(size: int) -> None:
    rows, grad = (torch.randn(size, width, dtype=torch.float64) for width in (3, 5))
    assert_same(inner_product(rows, grad), rows.t() @ grad)
