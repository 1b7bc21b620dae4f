"""An epoch of BREC's protocol as one CUDA graph trains as the epoch itself does.

Without a GPU, CUDA graphs are emulated (`tape`).
"""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from tape import emulate
from torch import Tensor

from smpgnn.ops import backend
from smpgnn.paper.experiments import brec
from smpgnn.paper.experiments.brec_options import BrecOptions

GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if GPU else "cpu")
GRAPHS = [nx.path_graph(3), nx.complete_graph(3)] * 2
pytestmark = pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")


class Distance(torch.nn.Module):
    """A loss that hardly changes, so training does not end and reduces its rate."""

    def forward(self, one: Tensor, other: Tensor, target: Tensor) -> Tensor:
        return 1e6 + (one - other).square().mean()


def trained(options: BrecOptions, calls: list[int]) -> tuple[int, list[Tensor]]:
    torch.manual_seed(0)
    network = brec.fresh_network(options).to(DEVICE, torch.float64)
    batches = brec._indices(network, GRAPHS, np.random.default_rng(0), 2, DEVICE)
    whole, calls[:] = type(network).forward, []

    def counted(self: Any, *args: Any, **given: Any) -> Any:
        calls.append(1)
        return whole(self, *args, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(network), "forward", counted)
        epochs = brec._train(network, batches, options)
    return epochs, [value.detach().cpu() for value in network.parameters()]


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> BrecOptions:
    monkeypatch.setattr(torch.nn, "CosineEmbeddingLoss", lambda margin: Distance())
    return BrecOptions(epochs=4, decay_epochs=1, lr=0.05).changed(hidden_channels=4, num_layers=1)


def capturing(monkeypatch: pytest.MonkeyPatch) -> None:
    if not GPU:
        emulate(monkeypatch)
        monkeypatch.setattr(brec, "can_capture", lambda *_: True)


@pytest.mark.parametrize(
    "settings",
    [
        {"model": "gin"},
        {"model": "ppgn"},
        {"first_rows": ("distance",), "terms": ("inside", "folklore"), "context_radius": 20},
        pytest.param(
            {"identifiers": "pairs", "pair_distance": 1, "context_radius": 20},
            marks=() if GPU else pytest.mark.slow,  # interpreted kernels are slow
        ),
    ],
    ids=["gin", "ppgn", "terms", "pairs"],
)
def test_captured_epochs_equal_the_protocol(
    settings: dict[str, Any], options: BrecOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, calls = options.changed(**settings), list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(brec, "can_capture", lambda *_: False)
        epochs, weights = trained(options, calls)
    assert len(calls) == 2 * epochs
    capturing(monkeypatch)
    again, same = trained(options, calls)
    assert len(calls) == 2 * 2  # one epoch eagerly and one captured
    assert again == epochs == 4
    torch.testing.assert_close(same, weights, rtol=1e-5, atol=1e-7)


def test_what_cannot_be_captured_runs_eagerly(
    options: BrecOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = options.changed(model="gin")

    def refused(*_: Any, **__: Any) -> Any:
        raise RuntimeError("operation not permitted")

    calls = list[int]()
    with monkeypatch.context() as patch:
        patch.setattr(brec, "can_capture", lambda *_: False)
        _, weights = trained(options, calls)
    capturing(monkeypatch)
    monkeypatch.setattr(brec, "capture", refused)
    with pytest.warns(UserWarning, match="runs eagerly: operation not permitted"):
        _, same = trained(options, calls)
    assert len(calls) == 2 * options.epochs
    torch.testing.assert_close(same, weights, rtol=1e-5, atol=1e-7)
