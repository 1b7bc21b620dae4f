"""Perceptrons on rows: the kernels, by Triton's interpreter, and the plain form."""

from __future__ import annotations

import pytest
import torch
from strategies import ODD, assert_same, cycle, make_case, path
from torch import Tensor

from smpgnn.contexts.layout import RowLayout
from smpgnn.ops import backend
from smpgnn.ops.perceptron import Maps, perceptron, perceptron_reference

pytestmark = [
    pytest.mark.skipif(not backend.has_kernels(), reason="needs triton"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="test_recorded.py does it on the GPU"),
]


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def padded_layout(spare: int) -> RowLayout:
    layout = make_case([path(5), cycle(4), ODD["single"]], 0).index("onehot").layout
    rows = layout.owner.numel()
    owner = torch.cat([layout.owner, layout.owner[-1:].expand(spare)])
    assert owner.numel() == rows + spare
    return RowLayout(
        ptr=layout.ptr,
        own=layout.own,
        num_rows=rows + spare,
        padded=spare > 0,
        given={"owner": owner},
    )


@pytest.mark.parametrize("spare", [0, 7])
@pytest.mark.parametrize("centered", [False, True])
@pytest.mark.parametrize("two", [False, True])
def test_the_kernels_equal_the_plain_form(
    two: bool, centered: bool, spare: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = padded_layout(spare)
    rows = layout.owner.numel()
    x, y = draw(rows, 3), draw(rows, 5, seed=1) if two else None
    wx, wy, b1 = draw(20, 3, seed=2), draw(20, 5, seed=3) if two else None, draw(20, seed=4)
    w2, b2, center = draw(6, 20, seed=5), draw(6, seed=6), draw(3, seed=7) if centered else None
    wanted = [v for v in (x, y, wx, wy, b1, w2, b2, center) if v is not None]
    grad = draw(rows, 6, seed=8).detach()
    grad[rows - spare :] = 0.0  # nobody reads what is not there
    maps = Maps(wx, wy, b1, w2, b2)
    expected = perceptron_reference(x, y, maps, layout, center)
    back = torch.autograd.grad([expected], wanted, [grad])
    monkeypatch.setattr(backend, "INTERPRETED", True)
    actual = perceptron(x, y, maps, layout, center)
    assert_same(actual.detach(), expected.detach())
    assert not actual[rows - spare :].any()
    assert_same(list(torch.autograd.grad([actual], wanted, [grad])), list(back))


def test_a_wide_perceptron_takes_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = padded_layout(0)
    x = draw(layout.owner.numel(), 3)
    maps = Maps(draw(40, 3, seed=1), None, draw(40, seed=2), draw(2, 40, seed=3), draw(2, seed=4))
    monkeypatch.setattr(backend, "INTERPRETED", True)
    out = perceptron(x, None, maps, layout)
    assert "Perceptron" not in type(out.grad_fn).__name__
    assert_same(out, perceptron_reference(x, None, maps, layout))
