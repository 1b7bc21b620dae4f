"""Messages on edges by the kernels: equal to the plain way, in any order of the edges."""

from __future__ import annotations

import pytest
import torch
from strategies import ODD, assert_same, make_case, path
from torch import Tensor

from smpgnn.incidence import Incidence
from smpgnn.ops import backend
from smpgnn.ops.aggregate import LEAST_VARIANCE, aggregate, aggregate_reference
from smpgnn.ops.gates import gated_sum, gated_sum_reference

pytestmark = pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STAR = (20, tuple((k, 0) for k in range(1, 20)))
GRAPHS = [path(4), STAR, ODD["empty"], ODD["loops"], ODD["double edge"], ODD["edgeless"]]
DELTA = torch.tensor(0.7, dtype=torch.float64, device=DEVICE)


@pytest.fixture(autouse=True)
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "INTERPRETED", DEVICE == "cpu")


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


def test_operators_say_what_they_return() -> None:
    from smpgnn.ops import cuda

    edges, tests = make_edges(), ("test_schema", "test_faketensor")
    message = draw(edges.topology.num_edges, 3).detach()
    arguments = (message, *edges.arriving_order, DELTA)
    torch.library.opcheck(cuda.aggregate, (*arguments, LEAST_VARIANCE), test_utils=tests)
    out = cuda.aggregate(*arguments, LEAST_VARIANCE)
    back = (out, message, out, *edges.arriving_order, DELTA)
    torch.library.opcheck(cuda.aggregate_backward, back, test_utils=tests)


def test_operators_of_gated_sums_say_what_they_return() -> None:
    from smpgnn.ops import cuda

    edges, tests = make_edges(), ("test_schema", "test_faketensor")
    topology = edges.topology
    table, term = draw(topology.num_nodes, 12).detach(), draw(topology.num_edges, 3).detach()
    arguments = (table, term, topology.sender, *edges.arriving_order, 1e-6)
    torch.library.opcheck(cuda.gated_sum, arguments, test_utils=tests)
    rows, gate, _ = cuda.gated_sum(*arguments)
    ends = topology.sender, topology.receiver, *edges.arriving_order, *topology.edges_by_sender
    back = (rows, gate, table, gate, rows, *ends, 1e-6)
    torch.library.opcheck(cuda.gated_sum_backward, back, test_utils=tests)
