"""Contexts before the first layer: the kernel equals the parts."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from odd_layouts import DEVICE, make_index, make_layout
from strategies import SCHEMES
from sweep import sweep

from smpgnn.ops import backend, initial_rows
from smpgnn.ops.initial import initial_rows_reference

pytestmark = [
    pytest.mark.skipif(not backend.has_kernels(), reason="needs triton"),
    pytest.mark.usefixtures("kernels"),
]

DTYPES, WIDTHS = [torch.float32, torch.float64], [None, 0, 2, 130]


def usual(dtype: torch.dtype, width: int | None, *case: str) -> bool:
    """All types of contexts with two features in float64, and one with all others."""
    return (dtype, width) == (torch.float64, 2) or case[0] == "local"


@pytest.mark.parametrize(
    ("dtype", "width", "identifiers"),
    sweep(DTYPES, WIDTHS, [*SCHEMES, "nodes"], always=usual),
)
def test_the_kernel_equals_the_parts(
    identifiers: str, width: int | None, dtype: torch.dtype
) -> None:
    layout = make_layout(identifiers)
    size = layout.own.numel()
    x = None if width is None else torch.randn(size, width, dtype=dtype, device=DEVICE)
    rows, known = initial_rows(x, dtype, layout)
    expected, moments = initial_rows_reference(x, dtype, layout)
    for one, two in ((rows, expected), (known.own, moments.own), (known.mean, moments.mean)):
        assert one.dtype == two.dtype
        assert torch.equal(one, two)


@pytest.mark.parametrize(
    ("dtype", "width", "case"),
    sweep(
        DTYPES,
        WIDTHS,
        [*((scheme, "context") for scheme in SCHEMES), ("onehot", "row"), ("local", "row")],
        always=lambda dtype, width, case: usual(dtype, width, *case),
    ),
)
def test_the_kernel_equals_the_parts_with_features_in_all_rows(
    dtype: torch.dtype, width: int | None, case: tuple[str, str]
) -> None:
    identifiers, features = case
    index = make_index(identifiers)
    layout = index.layout
    held = layout.owner if features == "context" else index.described
    size = layout.own.numel()
    x = None if width is None else torch.randn(size, width, dtype=dtype, device=DEVICE)
    rows, known = initial_rows(x, dtype, layout, held)
    expected, moments = initial_rows_reference(x, dtype, layout, held)
    assert torch.equal(rows, expected)
    assert torch.equal(known.own, moments.own)
    torch.testing.assert_close(known.mean, moments.mean)


@pytest.mark.parametrize("spread", [False, True])
def test_rows_that_no_context_owns_are_zero(spread: bool) -> None:
    layout = make_layout("onehot")
    count = layout.owner.numel()
    owner = torch.cat([layout.owner, layout.owner[-1:].expand(40)])
    padded = replace(layout, num_rows=owner.numel(), padded=True, given={"owner": owner})
    x = torch.randn(layout.own.numel(), 3, device=DEVICE)
    rows, _ = initial_rows(x, x.dtype, padded, padded.owner if spread else None)
    expected, _ = initial_rows_reference(x, x.dtype, layout, layout.owner if spread else None)
    assert torch.equal(rows[:count], expected)
    assert not rows[count:].any()


def test_features_may_have_gradients() -> None:
    layout = make_layout("onehot")
    x = torch.randn(layout.own.numel(), 3, device=DEVICE, requires_grad=True)
    rows, known = initial_rows(x, x.dtype, layout)
    (rows.sum() + known.own.sum()).backward()
    assert x.grad is not None
    assert (x.grad == 2).all()
    x.grad = None
    initial_rows(x, x.dtype, layout, layout.owner)[0].sum().backward()
    assert torch.equal(x.grad, layout.count.to(x.dtype).unsqueeze(1).expand_as(x))
