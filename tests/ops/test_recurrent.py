"""The gated recurrent unit over layers: equal to `nn.GRUCell`, step by step and by the kernels."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from strategies import assert_same
from torch import Tensor, nn

from smpgnn.ops import backend, gated_state
from smpgnn.ops.recurrent import gated_state_reference

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

kernels = pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")


def draw(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return scale * torch.randn(*shape, generator=generator, dtype=torch.float64)


def draw_inputs(
    steps: int, nodes: int, width: int, channels: int, dtype: torch.dtype = torch.float64
) -> tuple[Tensor, tuple[Tensor, ...]]:
    gates, scale = 3 * channels, channels**-0.5
    shapes = [(gates, width), (gates, channels), (gates,), (gates,)]
    weights = [draw(*shape, seed=k, scale=scale) for k, shape in enumerate(shapes)]
    x, *leaves = (
        value.to(DEVICE, dtype).requires_grad_()
        for value in (draw(steps, nodes, width, seed=9), *weights)
    )
    return x, tuple(leaves)


def test_step_by_step_equals_the_cell_of_torch() -> None:
    unit = nn.GRUCell(5, 3, dtype=torch.float64, device=DEVICE)
    x, _ = draw_inputs(4, 7, 5, 3)
    state = None
    for features in x.unbind(0):
        state = unit(features, state)
    assert state is not None
    assert_same(gated_state_reference(x, tuple(unit.parameters())), state, unit, [x])


@kernels
@pytest.mark.parametrize("nodes", [1, 16, 35])
@pytest.mark.parametrize("steps", [1, 2, 5])
@pytest.mark.parametrize(("width", "channels"), [(1, 1), (5, 3), (32, 16), (4, 20)])
def test_kernels_equal_the_steps(
    width: int, channels: int, steps: int, nodes: int, fused: Callable[[bool], None]
) -> None:
    x, weights = draw_inputs(steps, nodes, width, channels)
    expected = gated_state_reference(x, weights)
    fused(True)
    actual = gated_state(x, weights)
    assert type(actual.grad_fn).__name__ == "_GatedStateBackward"
    assert_same(actual, expected, inputs=[x, *weights])


@kernels
@pytest.mark.parametrize(("steps", "nodes"), [(0, 4), (3, 0)])
def test_kernels_of_no_step_or_no_node(
    steps: int, nodes: int, fused: Callable[[bool], None]
) -> None:
    x, weights = draw_inputs(steps, nodes, 2, 3)
    fused(True)
    out = gated_state(x, weights)
    assert out.shape == (nodes, 3)
    assert not out.any()
    assert not any(grad.any() for grad in torch.autograd.grad(out.sum(), [x, *weights]))


@kernels
def test_kernels_take_what_does_not_lie_in_order(fused: Callable[[bool], None]) -> None:
    x, weights = draw_inputs(3, 18, 5, 3)
    across = x.detach().transpose(0, 2).contiguous().transpose(0, 2).requires_grad_()
    turned = tuple(w.detach().t().contiguous().t().requires_grad_() for w in weights[:2])
    expected = gated_state_reference(x, weights)
    grad = draw(3, 18).t().to(DEVICE)
    fused(True)
    out = gated_state(across, (*turned, *weights[2:]))
    assert_same(
        torch.autograd.grad(out, [across, *turned, *weights[2:]], grad),
        torch.autograd.grad(expected, [x, *weights], grad),
    )


@pytest.mark.parametrize("on", [False, pytest.param(True, marks=kernels)], ids=["plain", "fused"])
def test_derivatives_match_finite_differences(on: bool, fused: Callable[[bool], None]) -> None:
    fused(on)
    x, weights = draw_inputs(3, 4, 3, 2)

    def function(x: Tensor, *weights: Tensor) -> Tensor:
        return gated_state(x, weights)

    assert torch.autograd.gradcheck(function, (x, *weights), fast_mode=True)
    assert torch.autograd.gradgradcheck(function, (x, *weights), fast_mode=True)


@kernels
def test_large_inputs_stay_finite(fused: Callable[[bool], None]) -> None:
    x, weights = draw_inputs(3, 18, 5, 3)
    x.data *= 50
    expected = gated_state_reference(x, weights)
    fused(True)
    actual = gated_state(x, weights)
    assert actual.isfinite().all()
    assert_same(actual, expected, inputs=[x, *weights], tolerance=1e-8)


@kernels
def test_float32_is_near_float64(fused: Callable[[bool], None]) -> None:
    x, weights = draw_inputs(8, 35, 32, 16)
    single, singles = draw_inputs(8, 35, 32, 16, torch.float32)
    expected = gated_state_reference(x, weights)
    fused(True)
    actual = gated_state(single, singles)
    assert actual.dtype == torch.float32
    back = torch.autograd.grad(expected.sum(), [x, *weights])
    found = torch.autograd.grad(actual.sum(), [single, *singles])
    assert_same([actual.double(), *(g.double() for g in found)], [expected, *back], tolerance=1e-4)


@kernels
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_types_under_autocast_are_those_of_the_steps(
    dtype: torch.dtype, fused: Callable[[bool], None]
) -> None:
    """Features of either type, parameters in float32: the result is of the type of the features."""
    x, weights = draw_inputs(4, 18, 8, 16, torch.float32)
    x = x.detach().to(dtype).requires_grad_()
    found = []
    for on in (False, True):
        fused(on)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            out = gated_state(x, weights)
        assert out.dtype == dtype
        found.append([out, *torch.autograd.grad(out.float().square().sum(), [x, *weights])])
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype
        assert (one - other).abs().max() < 0.1 * max(1.0, one.abs().max().item())


@kernels
def test_wide_states_are_left_to_torch(fused: Callable[[bool], None]) -> None:
    x, weights = draw_inputs(2, 5, 3, 65)
    expected = gated_state_reference(x, weights)
    fused(True)
    assert torch.equal(gated_state(x, weights), expected)
