"""Own row, mean and maximum of contexts after several layers: the kernels equal the parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from strategies import ODD, SCHEMES, assert_same, cycle, make_case, path, randomize
from sweep import sweep
from torch import Tensor

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.layout import RowLayout
from smpgnn.ops import backend, pool_contexts
from smpgnn.ops.pool import pool_contexts_reference
from smpgnn.pooling import NodeExtractor, RowExtractor

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GRAPHS = [path(18), ODD["empty"], ODD["loops"], ODD["directed cycle"], path(1)]

kernels = pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")


def make_layout(identifiers: str) -> RowLayout:
    topology = make_case(GRAPHS).topology.to(DEVICE)
    if identifiers == "nodes":
        return ContextIndex.of_nodes(topology).layout
    return ContextIndex.build(topology, identifiers, 2).layout


def draw(*shape: int) -> Tensor:
    """Rows among which many are equal, so that several are the largest."""
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64).round(decimals=1)


def leaf(*shape: int) -> Tensor:
    return draw(*shape).to(DEVICE).requires_grad_()


@pytest.mark.parametrize("layers", [1, 3])
def test_the_parts_are_those_of_contexts(layers: int) -> None:
    layout = make_layout("coloring")
    rows = leaf(layers, layout.owner.numel(), 3)
    contexts = [LocalContext(part, layout) for part in rows.unbind(0)]
    expected = [torch.cat([u.own(), u.mean(), u.max()], dim=1) for u in contexts]
    assert_same(pool_contexts_reference(rows, layout), torch.stack(expected), inputs=[rows])


@kernels
@pytest.mark.parametrize(
    ("identifiers", "layers", "width"),
    sweep(
        [*SCHEMES, "nodes"],
        [1, 3],
        [1, 3, 20],
        always=lambda identifiers, layers, width: (
            (layers, width) == (3, 3) or identifiers == "neighborhood"
        ),
    ),
)
def test_kernels_equal_the_parts(
    identifiers: str, layers: int, width: int, fused: Callable[[bool], None]
) -> None:
    layout = make_layout(identifiers)
    rows = leaf(layers, layout.owner.numel(), width)
    fused(False)
    expected = pool_contexts_reference(rows, layout)
    back = torch.autograd.grad(expected, rows, draw(*expected.shape).to(DEVICE))
    fused(True)
    actual = pool_contexts(rows, layout)
    assert type(actual.grad_fn).__name__ == "_PoolBackward"
    assert_same(actual.detach(), expected.detach())
    assert_same(torch.autograd.grad(actual, rows, draw(*actual.shape).to(DEVICE)), back)


@kernels
def test_rows_wider_than_a_program(fused: Callable[[bool], None]) -> None:
    layout = make_case([path(4), path(2)]).topology.to(DEVICE)
    layout = ContextIndex.build(layout, "onehot", 2).layout
    rows = leaf(2, layout.owner.numel(), 300)
    fused(False)
    expected = pool_contexts_reference(rows, layout)
    back = torch.autograd.grad(expected.square().sum(), rows)
    fused(True)
    actual = pool_contexts(rows, layout)
    assert_same(actual.detach(), expected.detach())
    assert_same(torch.autograd.grad(actual.square().sum(), rows), back)


@kernels
@pytest.mark.parametrize("spare", [1, 40])
def test_rows_of_no_context_have_no_effect(spare: int, fused: Callable[[bool], None]) -> None:
    """Between the layers, too: their values do not show and their gradients are zero."""
    layout = make_layout("onehot")
    count = layout.owner.numel()
    owner = torch.cat([layout.owner, layout.owner[-1:].expand(spare)])
    padded = replace(layout, num_rows=owner.numel(), padded=True, given={"owner": owner})
    rows = leaf(3, count + spare, 5)
    rows.data[:, count:] = 1e300
    alone = rows.detach()[:, :count].clone().requires_grad_()
    fused(True)
    found, expected = pool_contexts(rows, padded), pool_contexts(alone, layout)
    assert_same(found.detach(), expected.detach())
    (dx,), (back,) = (
        torch.autograd.grad(out, value, draw(*out.shape).to(DEVICE))
        for out, value in ((found, rows), (expected, alone))
    )
    assert_same(dx[:, :count], back)
    assert not dx[:, count:].any()


@kernels
def test_no_rows_at_all(fused: Callable[[bool], None]) -> None:
    fused(True)
    layout = ContextIndex.build(make_case([ODD["empty"]]).topology.to(DEVICE), "onehot", 2).layout
    rows = leaf(3, 0, 4)
    out = pool_contexts(rows, layout)
    assert out.shape == (3, 0, 12)
    out.sum().backward()
    assert rows.grad is not None


@pytest.mark.parametrize("extractor", [NodeExtractor, RowExtractor])
@pytest.mark.parametrize("on", [False, pytest.param(True, marks=kernels)], ids=["plain", "fused"])
def test_extractors_of_all_layers_at_once(
    extractor: type[NodeExtractor] | type[RowExtractor],
    on: bool,
    fused: Callable[[bool], None],
) -> None:
    case = make_case([path(5), cycle(4), ODD["single"]])
    index = ContextIndex.build(case.topology.to(DEVICE), "onehot", 2)
    module = randomize(extractor(3, 4)).to(DEVICE)
    rows = leaf(3, index.num_rows, 3)
    contexts = [LocalContext(part, index.layout) for part in rows.unbind(0)]
    fused(False)
    expected = torch.stack([module(context, index) for context in contexts])
    fused(on)
    assert_same(module.of_layers(contexts), expected, module, [rows])
