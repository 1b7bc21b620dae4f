"""Multi-task networks on padded batches by the kernels: equal to the plain way without padding."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from strategies import ODD, assert_same, cycle, make_case, path, randomize
from sweep import sweep

from smpgnn import MultiTaskMPNN, MultiTaskSMP
from smpgnn.baselines.gine import MultiTaskGINE
from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.capture.steps import row_axes
from smpgnn.contexts.topology import pointer
from smpgnn.data.store import GraphStore
from smpgnn.ops import backend
from smpgnn.training.network import run_network

pytestmark = [
    pytest.mark.skipif(not backend.has_kernels(), reason="needs triton"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="tests/capture does it on the GPU"),
]

GRAPHS = [path(5), cycle(5), ODD["edgeless"], ODD["pair"], path(9)]
NETWORKS: dict[str, tuple[type[MultiTaskSMP], dict[str, Any]]] = {
    "default": (MultiTaskSMP, {"residual": True}),
    "fast": (MultiTaskSMP, {"layer": "fast"}),
    "local": (MultiTaskSMP, {"identifiers": "local", "context_radius": 1}),
    "ablation": (MultiTaskMPNN, {"layer": "fast"}),
    "GIN": (MultiTaskGINE, {}),
}


def make_store() -> GraphStore:
    case = make_case(GRAPHS, 2)
    sizes = torch.tensor([n for n, _ in GRAPHS])
    ptr = pointer(sizes)
    edges = case.edge_index - ptr[case.batch[case.edge_index[0]]]
    counts = torch.tensor([len(edges) for _, edges in GRAPHS])
    assert case.x is not None
    return GraphStore(ptr, pointer(counts), edges, case.x.detach())


@pytest.mark.parametrize(
    ("name", "norm_place"),
    sweep(
        NETWORKS,
        ["before", "after"],
        always=lambda name, norm_place: (name == "default") == (norm_place == "after"),
    ),
)
def test_padding_has_no_effect(name: str, norm_place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, options = NETWORKS[name]
    model = randomize(kind(2, 3, 2, 4, 3, norm_place=norm_place, state_channels=3, **options))
    other, store, chosen = deepcopy(model), make_store(), [2, 0]
    batch = store.batch(chosen)
    expected = model(batch.x.double(), batch.edge_index, None, batch.batch, batch_size=2)
    monkeypatch.setattr(backend, "INTERPRETED", True)
    sizes = {"node": 12, "edge": 16, "row": 64, "message": 160}
    padded = PaddedStore(store, Capacity(3, sizes), row_axes(other, store))
    padded.x = padded.x.double()
    nodes, graphs = run_network(other, *padded.batch(torch.tensor([*chosen, -1])))
    actual = nodes[: batch.num_nodes], graphs[:2]
    assert_same(actual, expected, tolerance=1e-10)
    for outputs in (expected, actual):
        weights = [torch.arange(1, 1 + out.numel()).view_as(out) for out in outputs]
        sum((out * w).sum() for out, w in zip(outputs, weights, strict=True)).backward()
    for (place, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        assert (one.grad is None) == (two.grad is None), place
        if one.grad is not None:
            scale = max(1.0, one.grad.abs().max().item())
            assert (one.grad - two.grad).abs().max() <= 1e-9 * scale, place
    for one, two in zip(model.buffers(), other.buffers(), strict=True):
        assert_same(one.double(), two.double(), tolerance=1e-10)
