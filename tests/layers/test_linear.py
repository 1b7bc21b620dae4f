"""Linear maps in towers: blocks on the diagonal."""

from __future__ import annotations

import oracle
import pytest
import torch
from strategies import assert_same, randomize

from smpgnn import InputError
from smpgnn.layers import TowerLinear
from smpgnn.layers.linear import joined_maps


@pytest.mark.parametrize("towers", [1, 2, 3])
@pytest.mark.parametrize("bias", [True, False])
def test_equals_the_product_with_the_blocks(towers: int, bias: bool) -> None:
    module = randomize(TowerLinear(6, 12, towers, bias))
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    assert_same(module(x), oracle.linear(module, x), module, [x])


def test_towers_do_not_mix() -> None:
    module = randomize(TowerLinear(4, 4, 2, bias=False))
    x = torch.zeros(1, 4, dtype=torch.float64)
    x[0, :2] = 1
    out = module(x)
    assert (out[0, :2] != 0).all()
    assert (out[0, 2:] == 0).all()


def test_matrix_is_written_row_by_row() -> None:
    module = TowerLinear(2, 4, 2, bias=False)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]))
    assert module.matrix().tolist() == [[1, 2, 0, 0], [0, 0, 3, 4]]


def test_two_maps_as_one() -> None:
    first, second = (randomize(TowerLinear(4, 4, 2)) for _ in range(2))
    other = randomize(TowerLinear(4, 4), 1)
    modules = torch.nn.ModuleList([first, second, other])
    maps = [first.matrix(), second.matrix()], [first.offset(), second.offset()]
    matrices, biases = joined_maps(*maps, torch.stack([other.matrix(), second.matrix()]))
    x = torch.randn(3, 4, dtype=torch.float64)
    expected = [other(first(x)) - other.bias, second(second(x)) - second.bias]
    actual = [x @ matrix + bias for matrix, bias in zip(matrices, biases, strict=True)]
    assert_same(actual, expected, modules)


def test_towers_need_fewer_weights() -> None:
    assert TowerLinear(8, 8, 4, bias=False).weight.numel() == 8 * 8 // 4


@pytest.mark.parametrize(("sizes", "towers"), [((4, 4), 3), ((3, 4), 2), ((4, 4), 0), ((4, 4), -1)])
def test_refuses_towers_that_do_not_divide(sizes: tuple[int, int], towers: int) -> None:
    with pytest.raises(InputError, match="towers"):
        TowerLinear(*sizes, towers)
