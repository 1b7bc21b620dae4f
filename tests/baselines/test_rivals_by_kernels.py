"""Rivals on padded batches by the kernels: equal to the plain way without padding."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from strategies import ODD, assert_same, cycle, gradients, make_case, path, randomize
from torch import Tensor

from smpgnn import MPNN
from smpgnn.baselines.dgn import DGN
from smpgnn.baselines.gat import GAT
from smpgnn.baselines.gated_gcn import GatedGCN
from smpgnn.baselines.gine import GINE
from smpgnn.baselines.junction_tree import JunctionTreeMPNN
from smpgnn.baselines.mpnn_sum import MPNNSum
from smpgnn.baselines.pna import PNA
from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.capture.steps import row_axes, structures
from smpgnn.contexts.topology import pointer
from smpgnn.data.store import GraphStore
from smpgnn.ops import backend
from smpgnn.training.network import run_network

pytestmark = [
    pytest.mark.skipif(not backend.has_kernels(), reason="needs triton"),
    pytest.mark.skipif(torch.cuda.is_available(), reason="test_recorded.py does it on the GPU"),
]

GRAPHS = [path(5), cycle(5), ODD["edgeless"], ODD["pair"], path(9)]
RIVALS = [GINE, GAT, MPNNSum, PNA, GatedGCN, DGN, JunctionTreeMPNN, MPNN]


def make_store(edge_channels: int) -> GraphStore:
    case = make_case(GRAPHS, 2, edge_channels)
    ptr = pointer(torch.tensor([n for n, _ in GRAPHS]))
    edges = case.edge_index - ptr[case.batch[case.edge_index[0]]]
    counts = pointer(torch.tensor([len(edges) for _, edges in GRAPHS]))
    assert case.x is not None
    features = None if case.edge_attr is None else case.edge_attr.detach()
    return GraphStore(ptr, counts, edges, case.x.detach(), features)


def result(model: Any, out: Tensor) -> list[Tensor]:
    """Output, gradients and running statistics."""
    found = gradients([out], list(model.parameters()))
    return [out.detach(), *found, *(buffer.double() for buffer in model.buffers())]


@pytest.mark.parametrize("edge_channels", [0, 3])
@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.__name__)
def test_padding_and_kernels_do_not_show(
    rival: Any, edge_channels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = rival(2, 2, 4, 2, edge_channels=edge_channels, norm="batch", residual=True)
    model = randomize(model)
    other, store, chosen = deepcopy(model), make_store(edge_channels), [1, 2, 0]
    batch = store.batch(chosen)
    y = None if batch.edge_attr is None else batch.edge_attr.double()
    arguments = (batch.x.double(), batch.edge_index, y, batch.batch)
    expected = result(model, model(*arguments, batch_size=3))
    monkeypatch.setattr(backend, "INTERPRETED", True)
    whole = deepcopy(other)
    assert_same(result(whole, whole(*arguments, batch_size=3)), expected, tolerance=1e-9)
    room = Capacity(4, {"node": 17, "edge": 30, "row": 17, "message": 30})
    padded = PaddedStore(store, room, row_axes(other, store), structures(other))
    padded.x = padded.x.double()
    padded.edge_attr = None if y is None else padded.edge_attr.double()
    out = run_network(other, *padded.batch(torch.tensor([*chosen, -1])))
    assert_same(result(other, out[:3]), expected, tolerance=1e-9)
