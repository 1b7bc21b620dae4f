"""Whole networks by the kernels, through Triton's interpreter, equal to the plain way."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from strategies import ODD, SCHEMES, assert_same, make_case, path, randomize
from sweep import sweep
from torch import Tensor, nn

from smpgnn import SMP, MultiTaskMPNN, MultiTaskSMP
from smpgnn.ops import backend

pytestmark = [
    pytest.mark.skipif(not backend.has_kernels(), reason="needs triton"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="tests/test_cuda.py does it on the GPU"),
]

GRAPHS = [path(5), ODD["empty"], ODD["loops"], ODD["directed cycle"], ODD["single"]]
NETWORKS: dict[str, tuple[int, Any]] = {
    "default": (3, lambda s: SMP(2, 2, 4, 2, "default", s, 3, norm="batch", towers=2,
                                 message_residual=True, update_residual=True)),
    "fast": (0, lambda s: SMP(2, 2, 3, 3, "fast", s, norm="batch", residual=True)),
    "own terms": (0, lambda s: SMP(2, 2, 4, 3, "default", s, norm="batch", own_terms=True,
                                   residual=True)),
    "node level": (0, lambda s: SMP(2, 2, 3, 2, "fast", s, level="node", norm="layer")),
    "multi-task": (0, lambda s: MultiTaskSMP(2, 3, 2, 4, 2, "default", s, state_channels=3)),
    "multi-task ablation": (0, lambda s: MultiTaskMPNN(2, 3, 2, 4, 2, "fast", s,
                                                       state_channels=3)),
}  # fmt: skip


def call(model: nn.Module, case: Any) -> tuple[list[Tensor], list[Tensor]]:
    model = deepcopy(model)
    leaves = [None if v is None else v.clone().requires_grad_() for v in (case.x, case.edge_attr)]
    out = model(leaves[0], case.edge_index, leaves[1], case.batch, batch_size=case.num_graphs)
    outputs = [out] if isinstance(out, Tensor) else list(out)
    wanted = [*model.parameters(), *[leaf for leaf in leaves if leaf is not None]]
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(o.shape, generator=generator, dtype=o.dtype) for o in outputs]
    total = sum((o * w).sum() for o, w in zip(outputs, weights, strict=True))
    found = torch.autograd.grad(total, wanted, allow_unused=True)
    grads = [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]
    return [o.detach() for o in outputs], [*grads, *(b.double() for b in model.buffers())]


USUAL = {"default": "neighborhood", "fast": "coloring", "own terms": "local"}


@pytest.mark.parametrize(
    ("network", "identifiers", "training"),
    sweep(
        NETWORKS,
        SCHEMES,
        [True, False],
        always=lambda network, identifiers, training: (
            identifiers == USUAL.get(network, "onehot") and (training or network == "default")
        ),
    ),
)
def test_kernels_equal_the_plain_forms(
    network: str, identifiers: str, training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    edge_channels, make = NETWORKS[network]
    model = randomize(make(identifiers)).train(training)
    case = make_case(GRAPHS, 2, edge_channels)
    expected, rest = call(model, case)
    monkeypatch.setattr(backend, "INTERPRETED", True)
    actual, other = call(model, case)
    assert_same(actual, expected, tolerance=1e-9)
    assert_same(other, rest, tolerance=1e-9)


@pytest.mark.parametrize(
    "network",
    [
        "default",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("fast", "own terms")),
        "multi-task",
    ],
)
def test_second_derivatives_of_networks_by_kernels(
    network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asked for a graph of the gradients, kernels give the plain way's first and second ones."""
    edge_channels, make = NETWORKS[network]
    model = randomize(make("neighborhood" if network == "fast" else "onehot")).train()
    case = make_case([path(4), ODD["loops"], ODD["single"]], 2, edge_channels)
    expected = twice(model, case)
    monkeypatch.setattr(backend, "INTERPRETED", True)
    assert_same(twice(model, case), expected, tolerance=1e-9)


def twice(model: nn.Module, case: Any) -> list[Tensor]:
    """First derivatives of a number that bends with the outputs, and those of their squares."""
    model, leaves = deepcopy(model), case.leaves()
    outputs = case.call(model)
    outputs = [outputs] if isinstance(outputs, Tensor) else outputs
    total = sum(o.square().sum() + o.sum() for o in outputs)
    leaves = [*model.parameters(), *leaves]
    found = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    slopes = [slope for slope in found if slope is not None]
    again = torch.autograd.grad(sum(s.square().sum() for s in slopes), leaves, allow_unused=True)
    return [v.detach() for v in (*slopes, *(value for value in again if value is not None))]
