"""GAT against a plain transcription of its attention."""

from __future__ import annotations

import pytest
import torch
from node_layers import arriving, both, call_convolution, call_layer, edge_feature
from strategies import assert_same, make_case, path, randomize, undirected
from torch import Tensor
from torch.nn import functional as F

from smpgnn.baselines.gat import GAT, GATLayer
from smpgnn.errors import InputError


@pytest.mark.parametrize("edge_channels", [0, 2])
@pytest.mark.parametrize("heads", [1, 2])
def test_equals_loops_over_heads_and_neighbours(heads: int, edge_channels: int) -> None:
    # The last node has no neighbour: it attends to itself, with edge features of zero.
    structure = undirected(6, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4)])
    case = make_case([structure, path(3)], 3, edge_channels)
    layer = randomize(GATLayer(3, 4, edge_channels, heads=heads))
    conv, x, width = layer.conv, case.x, 4 // heads
    rows: list[Tensor] = []
    for i in range(case.num_nodes):
        parts: list[Tensor] = []
        around = arriving(case, i)
        for h in range(heads):
            w = conv.lin.weight[h * width : (h + 1) * width]
            features = [w @ x[j] for _, j in around] + [w @ x[i]]
            scores = [
                (conv.att_src[0, h] * f).sum() + (conv.att_dst[0, h] * features[-1]).sum()
                for f in features
            ]
            if edge_channels:
                ys = [edge_feature(case, edge) for edge, _ in around]
                ys.append(sum(ys, torch.zeros_like(x[0, :2])) / max(1, len(ys)))
                w_e = conv.lin_edge.weight[h * width : (h + 1) * width]
                scores = [
                    s + (conv.att_edge[0, h] * (w_e @ y)).sum()
                    for s, y in zip(scores, ys, strict=True)
                ]
            alpha = F.leaky_relu(torch.stack(scores), 0.2).softmax(0)
            parts.append((alpha.unsqueeze(1) * torch.stack(features)).sum(0))
        rows.append(F.elu(torch.cat(parts) + conv.bias))
    assert_same(call_layer(layer, case), torch.stack(rows), layer, case.leaves())


def test_refuses_heads_that_do_not_divide_the_width() -> None:
    with pytest.raises(InputError, match="heads=3 must divide"):
        GAT(2, 1, 4, 2, heads=3)


@pytest.mark.parametrize("edge_channels", [0, 2])
@pytest.mark.parametrize("heads", [1, 2])
def test_equals_pyg_with_self_loops_and_repeated_edges(heads: int, edge_channels: int) -> None:
    case = both(edge_channels)
    layer = randomize(GATLayer(3, 4, edge_channels, heads=heads))
    expected = F.elu(call_convolution(layer, case))
    assert_same(call_layer(layer, case), expected, layer, case.leaves())


def test_scores_far_apart_stay_finite() -> None:
    layer = randomize(GATLayer(3, 4, heads=2))
    layer.conv.att_src.data.mul_(1e4)
    case = both()
    expected = F.elu(call_convolution(layer, case))
    assert_same(call_layer(layer, case), expected, layer, case.leaves())
