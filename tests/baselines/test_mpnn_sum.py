"""MPNN (sum) against loops over the edges."""

from __future__ import annotations

import pytest
import torch
from node_layers import arriving, both, call_convolution, call_layer, edge_feature
from strategies import assert_same, randomize
from torch import Tensor

from smpgnn.baselines.mpnn_sum import MPNNSumLayer


@pytest.mark.parametrize("edge_channels", [0, 2])
def test_equals_loops_over_the_edges(edge_channels: int) -> None:
    case = both(edge_channels)
    layer = randomize(MPNNSumLayer(3, 4, edge_channels))
    conv, x = layer.conv, case.x
    pre, post = conv.pre_nns[0], conv.post_nns[0]
    rows: list[Tensor] = []
    for i in range(case.num_nodes):
        total = torch.zeros_like(x[i])
        for edge, j in arriving(case, i):
            parts = [x[i], x[j]]
            if edge_channels:
                encoder = conv.edge_encoder
                parts.append(encoder.weight @ edge_feature(case, edge) + encoder.bias)
            hidden = torch.relu(pre[0].weight @ torch.cat(parts) + pre[0].bias)
            total = total + pre[2].weight @ hidden + pre[2].bias
        hidden = torch.relu(post[0].weight @ torch.cat([x[i], total]) + post[0].bias)
        hidden = post[2].weight @ hidden + post[2].bias
        rows.append(torch.relu(conv.lin.weight @ hidden + conv.lin.bias))
    assert_same(call_layer(layer, case), torch.stack(rows), layer, case.leaves())


@pytest.mark.parametrize("edge_channels", [0, 2])
def test_equals_pyg(edge_channels: int) -> None:
    case = both(edge_channels)
    layer = randomize(MPNNSumLayer(3, 4, edge_channels))
    expected = call_convolution(layer, case).relu()
    assert_same(call_layer(layer, case), expected, layer, case.leaves())
