"""Batch norm: the kernels equal the plain form."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from odd_layouts import DEVICE, make_layout
from strategies import ODD, SCHEMES, assert_same, make_case, path, randomize
from sweep import sweep
from torch import Tensor

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.layout import RowLayout
from smpgnn.layers import RowBatchNorm
from smpgnn.ops import backend
from smpgnn.ops.batch_norm import batch_norm_reference

pytestmark = [
    pytest.mark.skipif(not backend.has_kernels(), reason="needs triton"),
    pytest.mark.usefixtures("kernels"),
]


def padded(layout: RowLayout, spare: int) -> RowLayout:
    owner = torch.cat([layout.owner, layout.owner[-1:].expand(spare)])
    return replace(layout, num_rows=owner.numel(), padded=True, given={"owner": owner})


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    value = 3 + 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)
    return value.to(DEVICE).requires_grad_()


def make(channels: int) -> RowBatchNorm:
    return randomize(RowBatchNorm(channels)).to(DEVICE).train()


def plain(norm: RowBatchNorm, rows: Tensor, layout: RowLayout) -> Tensor:
    """The rows by way of center, scale and shift, which tracks the statistics."""
    context, affine = norm.as_affine(LocalContext(rows, layout))
    assert affine is not None
    out = affine(context.rows)
    return out if layout.unowned is None else out.masked_fill(layout.unowned, 0.0)


@pytest.mark.parametrize(
    ("identifiers", "width", "spare"),
    sweep(
        [*SCHEMES, "nodes"],
        [1, 5, 80],
        [0, 40],
        always=lambda identifiers, width, spare: width == 5 or identifiers == "local",
    ),
)
def test_kernels_equal_the_plain_forms(identifiers: str, width: int, spare: int) -> None:
    layout = make_layout(identifiers)
    if spare and layout.multiplicity is not None:
        pytest.skip("padded rows have no multiplicities")
    layout = padded(layout, spare) if spare else layout
    norm, rows = make(width), draw(layout.owner.numel(), width)
    other, again = deepcopy(norm), rows.detach().clone().requires_grad_()
    out = norm(LocalContext(rows, layout)).rows
    assert type(out.grad_fn).__name__ == "_BatchNormBackward"
    expected = plain(other, again, layout)
    assert_same(out.detach(), expected.detach(), tolerance=1e-10)
    grad = draw(*out.shape, seed=1).detach()
    actual = torch.autograd.grad(out, [rows, *norm.parameters()], grad)
    back = torch.autograd.grad(expected, [again, *other.parameters()], grad)
    assert_same(list(actual), list(back), tolerance=1e-9)
    for one, two in zip(norm.buffers(), other.buffers(), strict=True):
        assert_same(one.double(), two.double(), tolerance=1e-10)
    assert int(norm.num_batches_tracked) == int(other.num_batches_tracked)


def test_rows_of_no_context_have_no_effect() -> None:
    layout = padded(make_layout("onehot"), 9)
    rows = draw(layout.owner.numel(), 3)
    rows.data[-9:] = 1e300
    out = make(3)(LocalContext(rows, layout)).rows
    assert out.isfinite().all()
    assert not out[-9:].any()
    (dx,) = torch.autograd.grad(out.square().sum(), rows)
    assert dx.isfinite().all()
    assert not dx[-9:].any()


def test_the_reference_is_the_same() -> None:
    layout, norm = make_layout("coloring"), make(4)
    rows = draw(layout.owner.numel(), 4)
    expected = batch_norm_reference(rows, norm.weight, norm.bias, layout, norm.eps)
    out = norm(LocalContext(rows, layout)).rows
    assert_same(out, expected, norm, [rows], tolerance=1e-9)


def test_derivatives_match_finite_differences() -> None:
    layout = make_case([path(3), ODD["single"]]).topology.to(DEVICE)
    layout = ContextIndex.build(layout, "onehot", 2).layout
    norm = make(2)

    def function(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        maps = {"weight": weight, "bias": bias}
        context = LocalContext(rows, layout)
        scaled: LocalContext = torch.func.functional_call(norm, maps, (context,))
        return scaled.rows

    inputs = (draw(layout.owner.numel(), 2), draw(2), draw(2, seed=1))
    assert torch.autograd.gradcheck(function, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)
