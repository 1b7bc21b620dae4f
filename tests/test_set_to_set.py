"""Set2Set: equal to the oracle, on graphs of any size."""

from __future__ import annotations

import oracle
import pytest
import torch
from hypothesis import given
from strategies import Case, Structure, assert_same, batches, make_case, path, randomize, seeds
from torch import Tensor, nn

from smpgnn.pooling import SetToSet


def run(module: SetToSet, case: Case) -> tuple[Tensor, Tensor]:
    """The result, and that of the oracle graph by graph."""
    assert case.x is not None
    parts = case.x.split([graph.num_nodes for graph in case.graphs])
    expected = [oracle.set2set(module, part) for part in parts]
    width = 2 * module.channels
    return module(case.x, case.index("onehot")), torch.cat([case.x.new_zeros(0), *expected]).view(
        -1, width
    )


@given(graphs=batches(max_nodes=7), seed=seeds())
def test_equals_the_oracle(graphs: list[Structure], seed: int) -> None:
    case, module = make_case(graphs, 3, seed=seed), randomize(SetToSet(3, 4), seed)
    assert_same(*run(module, case), module, [case.x])


@pytest.mark.parametrize("sizes", [[], [0], [0, 0], [5, 0, 1, 33, 0, 70]], ids=str)
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_graphs_of_no_and_of_many_nodes(steps: int, sizes: list[int]) -> None:
    case, module = make_case([path(n) for n in sizes], 3), randomize(SetToSet(3, steps))
    assert_same(*run(module, case), module, [case.x])


def test_large_scores_stay_finite() -> None:
    """A softmax of scores in the hundreds takes the highest."""
    case, module = make_case([path(5), path(33)], 3), randomize(SetToSet(3, 3))
    assert case.x is not None
    case.x.data *= 50
    assert_same(*run(module, case), module, [case.x], tolerance=1e-8)


def test_second_derivatives_match_finite_differences() -> None:
    case, module = make_case([path(3), (0, ()), path(1)], 2), randomize(SetToSet(2, 3))
    index = case.index("onehot")
    names = [name for name, _ in module.named_parameters()]

    def function(x: Tensor, *weights: Tensor) -> Tensor:
        given = dict(zip(names, weights, strict=True))
        out: Tensor = torch.func.functional_call(module, given, (x, index))
        return out

    inputs = (case.x, *module.parameters())
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


def test_autocast_is_left_out() -> None:
    """Nothing is rounded to bfloat16 between the steps."""
    case, module = make_case([path(5), path(2)], 3, dtype=torch.float32), SetToSet(3, 4)
    expected = module(case.x, case.index("onehot"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(module(case.x, case.index("onehot")), expected)


def test_the_weights_have_the_names_of_the_recurrent_unit() -> None:
    assert list(SetToSet(3, 4).unit.state_dict()) == list(nn.LSTMCell(6, 3).state_dict())
    names = [f"unit.{name}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    assert list(SetToSet(3, 4).state_dict()) == names
