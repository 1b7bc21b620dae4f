"""GINE against loops over the edges, and without edge features against the plain GIN."""

from __future__ import annotations

import pytest
import torch
from node_layers import arriving, both, call_convolution, call_layer, edge_feature
from strategies import assert_same, make_case, path, randomize
from torch import Tensor

from smpgnn.baselines.gin import GIN
from smpgnn.baselines.gine import GINE, GINELayer


def test_equals_loops_over_the_edges() -> None:
    case = both(edge_channels=2)
    layer = randomize(GINELayer(3, 4, edge_channels=2))
    mlp, lin, x = layer.conv.nn, layer.conv.lin, case.x
    rows: list[Tensor] = []
    for i in range(case.num_nodes):
        total = x[i].clone()
        for edge, j in arriving(case, i):
            total = total + torch.relu(x[j] + lin.weight @ edge_feature(case, edge) + lin.bias)
        hidden = torch.relu(mlp[0].weight @ total + mlp[0].bias)
        rows.append(mlp[2].weight @ hidden + mlp[2].bias)
    assert_same(call_layer(layer, case), torch.stack(rows), layer, case.leaves())


def test_without_edge_features_it_is_gin() -> None:
    arguments = {"in_channels": 2, "out_channels": 1, "hidden_channels": 4, "num_layers": 3}
    model, plain = randomize(GINE(**arguments)), randomize(GIN(**arguments), seed=1)
    plain.load_state_dict(model.state_dict())
    case = make_case([path(4), path(3)])
    assert torch.equal(case.call(model), case.call(plain))


@pytest.mark.parametrize("edge_channels", [0, 2])
def test_equals_pyg(edge_channels: int) -> None:
    case = both(edge_channels)
    layer = randomize(GINELayer(3, 4, edge_channels))
    assert_same(call_layer(layer, case), call_convolution(layer, case), layer, case.leaves())
