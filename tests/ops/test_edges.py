"""Messages on edges by the kernels: equal to the plain way, in any order of the edges."""

from __future__ import annotations

import pytest
import torch
from strategies import ODD, assert_same, make_case, path
from torch import Tensor

from smpgnn.incidence import Incidence
from smpgnn.ops import backend
from smpgnn.ops.aggregate import LEAST_VARIANCE, aggregate, aggregate_reference

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


def test_operators_say_what_they_return() -> None:
    from smpgnn.ops import cuda

    edges, tests = make_edges(), ("test_schema", "test_faketensor")
    message = draw(edges.topology.num_edges, 3).detach()
    arguments = (message, *edges.arriving_order, DELTA)
    torch.library.opcheck(cuda.aggregate, (*arguments, LEAST_VARIANCE), test_utils=tests)
    out = cuda.aggregate(*arguments, LEAST_VARIANCE)
    back = (out, message, out, *edges.arriving_order, DELTA)
    torch.library.opcheck(cuda.aggregate_backward, back, test_utils=tests)
