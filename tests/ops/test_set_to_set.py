"""Set2Set: step by step equal to the oracle; the kernels, by Triton's interpreter, equal to it."""

from __future__ import annotations

from collections.abc import Callable

import oracle
import pytest
import torch
from hypothesis import given
from strategies import Structure, assert_same, batches, make_case, randomize, seeds
from torch import Tensor

from smpgnn.ops import NodeSets, backend, set_to_set
from smpgnn.ops.set_to_set import set_to_set_reference
from smpgnn.pooling import SetToSet

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
#: Nodes of the graphs: none, one, a tile of the kernels, one more, several tiles.
SIZES = [5, 0, 1, 32, 0, 33, 70]

kernels = pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")


def make_sets(sizes: list[int], counted: list[int] | None = None) -> NodeSets:
    size = torch.tensor(sizes, dtype=torch.long, device=DEVICE)
    ptr = torch.cat([size.new_zeros(1), size.cumsum(0)])
    owner = torch.arange(len(sizes), device=DEVICE).repeat_interleave(size)
    return NodeSets(ptr, owner, None if counted is None else torch.tensor(counted, device=DEVICE))


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    value = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return value.to(DEVICE, dtype).requires_grad_()


def draw_inputs(
    sizes: list[int], channels: int, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, tuple[Tensor, ...]]:
    gates, scale = 4 * channels, channels**-0.5
    shapes = [(gates, 2 * channels), (gates, channels), (gates,), (gates,)]
    weights = [scale * draw(*shape, seed=k).detach() for k, shape in enumerate(shapes)]
    leaves = tuple(weight.to(dtype).requires_grad_() for weight in weights)
    return draw(sum(sizes), channels, dtype=dtype), leaves


@given(graphs=batches(max_nodes=7), seed=seeds())
def test_step_by_step_equals_the_oracle(graphs: list[Structure], seed: int) -> None:
    case = make_case(graphs, 3, seed=seed)
    module = randomize(SetToSet(3, 4), seed)
    assert case.x is not None
    parts = case.x.split([n for n, _ in graphs])
    expected = torch.stack([oracle.set2set(module, part) for part in parts])
    assert_same(module(case.x, case.index("onehot")), expected, module, [case.x])


def test_the_weights_have_the_names_of_the_recurrent_unit() -> None:
    names = [f"unit.{name}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
    assert list(SetToSet(3, 4).state_dict()) == names


@kernels
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize("channels", [1, 3, 16, 20])
def test_kernels_equal_the_steps(channels: int, steps: int, fused: Callable[[bool], None]) -> None:
    sets, (x, weights) = make_sets(SIZES), draw_inputs(SIZES, channels)
    expected = set_to_set_reference(x, weights, steps, sets)
    fused(True)
    actual = set_to_set(x, weights, steps, sets)
    assert type(actual.grad_fn).__name__ == "_SetToSetBackward"
    assert_same(actual, expected, inputs=[x, *weights])


@kernels
@pytest.mark.parametrize("most", [2, 32])
def test_gradients_of_weights_are_added_up_from_parts(
    most: int, fused: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from smpgnn.ops.set_to_set import kernel as source

    monkeypatch.setattr(source, "PART", 8)
    monkeypatch.setattr(source, "MOST_PARTS", most)
    sets, (x, weights) = make_sets(SIZES), draw_inputs(SIZES, 3)
    expected = set_to_set_reference(x, weights, 5, sets)
    fused(True)
    assert_same(set_to_set(x, weights, 5, sets), expected, inputs=[x, *weights])


@kernels
def test_kernels_of_no_step_give_zeros(fused: Callable[[bool], None]) -> None:
    fused(True)
    x, weights = draw_inputs(SIZES, 3)
    out = set_to_set(x, weights, 0, make_sets(SIZES))
    assert out.shape == (len(SIZES), 6)
    assert not out.any()
    assert not any(grad.any() for grad in torch.autograd.grad(out.sum(), [x, *weights]))


@kernels
@pytest.mark.parametrize("sizes", [[], [0], [0, 0]])
def test_kernels_of_no_nodes(sizes: list[int], fused: Callable[[bool], None]) -> None:
    sets, (x, weights) = make_sets(sizes), draw_inputs(sizes, 3)
    expected = set_to_set_reference(x, weights, 3, sets)
    fused(True)
    assert_same(set_to_set(x, weights, 3, sets), expected, inputs=[x, *weights])


@kernels
@pytest.mark.parametrize("room", [3, 75])
def test_graphs_that_do_not_count_are_passed_over(room: int, fused: Callable[[bool], None]) -> None:
    """Their nodes, however large, change nothing and have gradients of zero."""
    sizes = [4, 0, 40, room]
    x, weights = draw_inputs(sizes, 3)
    x.data[-room:] = 1e300
    sets = make_sets(sizes, [1, 0, 1, 0])
    graphs, nodes = torch.tensor([0, 2], device=DEVICE), sum(sizes) - room
    alone = x.detach()[:nodes].requires_grad_()
    expected = set_to_set_reference(alone, weights, 4, make_sets(sizes[:3]))[graphs]
    fused(True)
    out = set_to_set(x, weights, 4, sets)
    assert out.isfinite().all()
    grad = torch.randn_like(expected)
    assert_same(out[graphs].detach(), expected.detach())
    back = torch.autograd.grad(expected, [alone, *weights], grad)
    dx, *rest = torch.autograd.grad(out[graphs], [x, *weights], grad)
    assert_same([dx[:nodes], *rest], back)
    assert not dx[nodes:].any()


@kernels
def test_kernels_take_rows_that_do_not_lie_in_order(fused: Callable[[bool], None]) -> None:
    sets, (x, weights) = make_sets(SIZES), draw_inputs(SIZES, 3)
    across = x.detach().t().contiguous().t().requires_grad_()
    turned = tuple(w.detach().t().contiguous().t().requires_grad_() for w in weights[:2])
    expected = set_to_set_reference(x, weights, 2, sets).sum()
    fused(True)
    out = set_to_set(across, (*turned, *weights[2:]), 2, sets).sum()
    assert_same(
        torch.autograd.grad(out, [across, *turned, *weights[2:]]),
        torch.autograd.grad(expected, [x, *weights]),
    )


@kernels
def test_large_scores_stay_finite(fused: Callable[[bool], None]) -> None:
    """A softmax of scores in the hundreds takes the highest."""
    sets, (x, weights) = make_sets(SIZES), draw_inputs(SIZES, 3)
    x.data *= 50
    expected = set_to_set_reference(x, weights, 3, sets)
    fused(True)
    actual = set_to_set(x, weights, 3, sets)
    assert_same(actual, expected, inputs=[x, *weights], tolerance=1e-8)


@pytest.mark.parametrize("on", [False, pytest.param(True, marks=kernels)], ids=["plain", "fused"])
def test_derivatives_match_finite_differences(on: bool, fused: Callable[[bool], None]) -> None:
    fused(on)
    sets, (x, weights) = make_sets([3, 0, 1]), draw_inputs([3, 0, 1], 2)

    def function(x: Tensor, *weights: Tensor) -> Tensor:
        return set_to_set(x, weights, 3, sets)

    assert torch.autograd.gradcheck(function, (x, *weights), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (x, *weights), fast_mode=True)


@kernels
def test_second_derivatives_are_those_of_the_steps(fused: Callable[[bool], None]) -> None:
    sets, (x, weights) = make_sets(SIZES), draw_inputs(SIZES, 3)
    found = []
    for on in (False, True):
        fused(on)
        out = set_to_set(x, weights, 3, sets)
        first = torch.autograd.grad(out.square().sum(), [x, *weights], create_graph=True)
        total = sum(grad.square().sum() for grad in first)
        found.append(torch.autograd.grad(total, [x, *weights]))
    assert_same(found[1], found[0])


@kernels
def test_float32_is_near_float64(fused: Callable[[bool], None]) -> None:
    sets, (x, weights) = make_sets(SIZES), draw_inputs(SIZES, 16)
    single, singles = draw_inputs(SIZES, 16, torch.float32)
    expected = set_to_set_reference(x, weights, 16, sets)
    fused(True)
    actual = set_to_set(single, singles, 16, sets)
    assert actual.dtype == torch.float32
    back = torch.autograd.grad(expected.sum(), [x, *weights])
    found = torch.autograd.grad(actual.sum(), [single, *singles])
    assert_same([actual.double(), *(g.double() for g in found)], [expected, *back], tolerance=1e-4)


@kernels
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_types_under_autocast_are_those_of_the_steps(
    dtype: torch.dtype, fused: Callable[[bool], None]
) -> None:
    """Nodes of either type, parameters in float32: the result is of the type of the nodes."""
    sets, (x, weights) = make_sets(SIZES), draw_inputs(SIZES, 16, torch.float32)
    x = x.detach().to(dtype).requires_grad_()
    found = []
    for on in (False, True):
        fused(on)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            out = set_to_set(x, weights, 4, sets)
        found.append([out, *torch.autograd.grad(out.float().square().sum(), [x, *weights])])
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype
        assert (one - other).abs().max() < 0.1 * max(1.0, one.abs().max().item())


@kernels
def test_wide_nodes_are_left_to_torch(fused: Callable[[bool], None]) -> None:
    sets, (x, weights) = make_sets([3, 2]), draw_inputs([3, 2], 65)
    expected = set_to_set_reference(x, weights, 2, sets)
    fused(True)
    assert torch.equal(set_to_set(x, weights, 2, sets), expected)
