"""Rows of graphs in one dense tensor: against loops, both ways, with derivatives."""

from __future__ import annotations

import torch
from strategies import assert_same
from torch import Tensor

from smpgnn.ops import Dense

#: Three rows in six entries; the last row has no entry, as padding has none.
ROW = torch.tensor([[3, 0, 4], [4, 1, 4]])
ENTRY = torch.tensor([1, 4, 5, 0])


def draw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def test_entries_are_rows_or_zero() -> None:
    dense, rows = Dense(ROW, ENTRY), draw(4, 2)
    zero = torch.zeros(2, dtype=torch.float64)
    expected = torch.stack([rows[3], rows[0], zero, zero, rows[1], zero]).view(2, 3, 2)
    assert_same(dense.spread(rows)[:, :, :], expected)
    weights = draw(2, 3, 2).detach()
    (slope,) = torch.autograd.grad((dense.spread(rows) * weights).sum(), rows)
    (wanted,) = torch.autograd.grad((expected * weights).sum(), rows)
    assert_same(slope[[0, 1, 3]], wanted[[0, 1, 3]])


def test_rows_are_found_again() -> None:
    dense, entries = Dense(ROW, ENTRY), draw(2, 3, 2)
    flat = entries.reshape(6, 2)
    assert_same(dense.collect(entries), torch.stack([flat[1], flat[4], flat[5], flat[0]]))
    weights = draw(4, 2).detach()
    weights[2] = 0.0
    (slope,) = torch.autograd.grad((dense.collect(entries) * weights).sum(), entries)
    expected = torch.zeros(6, 2, dtype=torch.float64).index_add(0, ENTRY, weights)
    assert_same(slope.view(6, 2), expected)


def test_derivatives_match_finite_differences() -> None:
    row = torch.tensor([[2, 0], [3, 1]])  # every row has an entry
    dense = Dense(row, torch.tensor([1, 3, 0]))

    def function(rows: Tensor) -> Tensor:
        full = dense.spread(rows)
        return dense.collect(full @ full.transpose(1, 2) @ full).square()

    assert torch.autograd.gradcheck(function, draw(3, 2))
    assert torch.autograd.gradgradcheck(function, draw(3, 2))
    along = draw(3, 2).detach()
    _, slope = torch.func.jvp(function, (draw(3, 2),), (along,))
    rows = draw(3, 2)
    (found,) = torch.autograd.grad(function(rows).sum(), rows)
    assert_same(slope.sum(), (found * along).sum())


def test_no_rows_and_no_entries() -> None:
    empty = torch.zeros(0, dtype=torch.long)
    assert Dense(empty.view(2, 0), empty).spread(draw(0, 3)).shape == (2, 0, 3)
    assert not Dense(torch.zeros(2, 2, dtype=torch.long), empty).spread(draw(0, 3)).any()
    assert Dense(empty.view(2, 0), empty).collect(draw(2, 0, 3)).shape == (0, 3)
