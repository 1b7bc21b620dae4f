"""Networks under torch.compile: the same numbers and gradients."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from strategies import assert_same, cycle, make_case, path, randomize

from smpgnn import SMP


@pytest.mark.filterwarnings("ignore")  # of the compiler, about its own insides
@pytest.mark.parametrize("layer", ["default", pytest.param("fast", marks=pytest.mark.slow)])
def test_compiled_networks_equal_the_others(layer: str) -> None:
    model = randomize(SMP(2, 1, 4, 2, layer, norm="batch")).train()
    other = deepcopy(model)
    case = make_case([path(4), cycle(5)], 2)
    compiled = torch.compile(other, backend="aot_eager")
    expected = model(case.x, case.edge_index, None, case.batch)
    actual = compiled(case.x, case.edge_index, None, case.batch)
    assert_same(actual.detach(), expected.detach())
    expected.square().sum().backward()
    actual.square().sum().backward()
    assert_same(
        [p.grad for p in other.parameters()], [p.grad for p in model.parameters()], tolerance=1e-10
    )
    torch._dynamo.reset()
