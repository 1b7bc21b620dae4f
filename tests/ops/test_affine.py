"""Matmuls and blocks over very many rows."""

from __future__ import annotations

import pytest
import torch
from strategies import assert_same

from smpgnn.ops import backend
from smpgnn.ops.affine import inner_product, row_blocks


@pytest.mark.parametrize("size", [0, 5, 512, 1024, 5003])
def test_inner_product_equals_the_product(size: int) -> None:
    torch.manual_seed(size)
    rows, grad = torch.randn(size, 24, dtype=torch.float64), torch.randn(size, 40).double()
    assert_same(inner_product(rows, grad), rows.t() @ grad)


@pytest.mark.parametrize("cached", [1, 20, 100])
@pytest.mark.parametrize("size", [0, 1, 7, 40])
def test_blocks_cover_all_rows_in_order(
    monkeypatch: pytest.MonkeyPatch, size: int, cached: int
) -> None:
    monkeypatch.setattr(backend, "CACHED", cached)
    rows = torch.arange(3.0 * size).view(size, 3)
    parts = [rows[some] for some in row_blocks(rows)]
    assert torch.equal(torch.cat(parts), rows)
    assert all(part.numel() <= max(cached, 3) for part in parts)
