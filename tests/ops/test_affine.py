"""Products over very many rows."""

from __future__ import annotations

import pytest
import torch
from strategies import assert_same

from smpgnn.ops.affine import inner_product


@pytest.mark.parametrize("size", [0, 5, 1024, 5003])
def test_inner_product_equals_the_product(size: int) -> None:
    rows, grad = (torch.randn(size, width, dtype=torch.float64) for width in (3, 5))
    assert_same(inner_product(rows, grad), rows.t() @ grad)
