"""Messages on edges by the kernels: equal to the plain way, in any order of the edges."""

from __future__ import annotations

import pytest
import torch
from strategies import ODD, assert_same, make_case, path
from torch import Tensor

from smpgnn.contexts.incidence import Incidence
from smpgnn.ops import backend
from smpgnn.ops.aggregate import aggregate, aggregate_reference
from smpgnn.ops.attention import attention, attention_reference
from smpgnn.ops.gates import gated_sum, gated_sum_reference
from smpgnn.ops.gine_sum import gine_sum, gine_sum_reference

pytestmark = [
    pytest.mark.skipif(not backend.has_kernels(), reason="needs triton"),
    pytest.mark.usefixtures("kernels"),
]

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STAR = (20, tuple((k, 0) for k in range(1, 20)))
GRAPHS = [path(4), STAR, ODD["empty"], ODD["loops"], ODD["double edge"], ODD["edgeless"]]
DELTA = torch.tensor(0.7, dtype=torch.float64, device=DEVICE)


def make_edges() -> Incidence:
    return Incidence(make_case(GRAPHS).topology.to(DEVICE))


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    value = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return value.to(DEVICE).requires_grad_()


@pytest.mark.parametrize("width", [1, 5, 130])
def test_aggregations_equal_the_plain_way(width: int) -> None:
    edges = make_edges()
    message = draw(edges.topology.num_edges, width)
    message.data[::3] = message.data[:1]  # equal ones share the gradient
    out = aggregate(message, edges, DELTA)
    assert type(out.grad_fn).__name__ == "_AggregateBackward"
    assert_same(out, aggregate_reference(message, edges, DELTA), None, [message], 1e-9)


@pytest.mark.parametrize("width", [1, 5, 130])
def test_gated_sums_equal_the_plain_way(width: int) -> None:
    edges = make_edges()
    table, term = draw(edges.topology.num_nodes, 4 * width), draw(edges.topology.num_edges, width)
    out = gated_sum(table, term, edges)
    assert type(out[0].grad_fn).__name__ == "_GatedSumBackward"
    assert_same(out, gated_sum_reference(table, term, edges), None, [table, term], 1e-9)


def test_derivatives_of_gated_sums_match_finite_differences() -> None:
    edges = Incidence(make_case([path(3), ODD["loops"]]).topology.to(DEVICE))
    inputs = draw(edges.topology.num_nodes, 8), draw(edges.topology.num_edges, 2)
    assert torch.autograd.gradcheck(lambda *a: gated_sum(*a, edges), inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *a: gated_sum(*a, edges), inputs, fast_mode=True)


@pytest.mark.parametrize("width", [1, 5, 130])
def test_sums_of_relus_equal_the_plain_way(width: int) -> None:
    edges = make_edges()
    x, term = draw(edges.topology.num_nodes, width), draw(edges.topology.num_edges, width)
    out = gine_sum(x, term, edges)
    assert type(out.grad_fn).__name__ == "_GineSumBackward"
    assert_same(out, gine_sum_reference(x, term, edges), None, [x, term], 1e-9)


def test_derivatives_of_sums_of_relus_match_finite_differences() -> None:
    edges = Incidence(make_case([path(3), ODD["loops"]]).topology.to(DEVICE))
    inputs = draw(edges.topology.num_nodes, 2), draw(edges.topology.num_edges, 2)
    assert torch.autograd.gradcheck(lambda *a: gine_sum(*a, edges), inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda *a: gine_sum(*a, edges), inputs, fast_mode=True)


def attention_inputs(edges: Incidence, heads: int, channels: int, parts: bool) -> list[Tensor]:
    maps = [draw(heads, channels, seed=k) for k in range(3)]
    found = [draw(edges.topology.num_nodes, heads, channels), *maps]
    return [*found, draw(edges.topology.num_edges, heads)] if parts else found


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
def test_attention_equals_the_plain_way(heads: int, parts: bool) -> None:
    edges = make_edges()
    inputs = attention_inputs(edges, heads, 5, parts)
    arguments = (*inputs, *(None,) * (5 - len(inputs)), edges, 0.2)
    out = attention(*arguments)
    assert type(out.grad_fn).__name__ == "_AttentionBackward"
    assert_same(out, attention_reference(*arguments), None, inputs, 1e-9)


def test_derivatives_of_attention_match_finite_differences() -> None:
    edges = Incidence(make_case([path(3), ODD["loops"]]).topology.to(DEVICE))
    inputs = attention_inputs(edges, 2, 2, True)
    assert torch.autograd.gradcheck(lambda *a: attention(*a, edges, 0.2), inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(
        lambda *a: attention(*a, edges, 0.2), inputs, fast_mode=True
    )
