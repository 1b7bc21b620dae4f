"""PNA against loops over aggregators and scalers; the degrees of the training set."""

from __future__ import annotations

import math

import pytest
import torch
from node_layers import arriving, both, call_convolution, call_layer, edge_feature
from strategies import assert_same, make_case, path, randomize
from torch import Tensor

from smpgnn.baselines.pna import PNA, MultiTaskPNA, PNALayer, degree_histogram
from smpgnn.errors import InputError

DEGREES = (1, 3, 5, 2)


def _delta(degrees: tuple[int, ...]) -> float:
    return sum(c * math.log(d + 1) for d, c in enumerate(degrees)) / sum(degrees)


@pytest.mark.parametrize("edge_channels", [0, 2])
def test_equals_loops_over_aggregators_and_scalers(edge_channels: int) -> None:
    case = both(edge_channels)
    layer = randomize(PNALayer(3, 4, edge_channels, degrees=DEGREES))
    layer.set_degrees(DEGREES)  # again, in float64
    conv, x, delta = layer.conv, case.x, _delta(DEGREES)
    pre, post = conv.pre_nns[0][0], conv.post_nns[0][0]
    rows: list[Tensor] = []
    for i in range(case.num_nodes):
        messages: list[Tensor] = []
        for edge, j in arriving(case, i):
            parts = [x[i], x[j]]
            if edge_channels:
                encoder = conv.edge_encoder
                parts.append(encoder.weight @ edge_feature(case, edge) + encoder.bias)
            messages.append(pre.weight @ torch.cat(parts) + pre.bias)
        zero = torch.zeros_like(x[i])
        mean = low = high = std = zero
        if messages:
            m = torch.stack(messages)
            mean, low, high = m.mean(0), m.amin(0), m.amax(0)
            variance = (m - mean).square().mean(0)
            # PyTorch Geometric takes variances below 1e-5 for zero.
            std = torch.where(variance > 1e-5, variance.clamp(min=1e-5).sqrt(), 0.0)
        d = max(1, len(messages))
        aggregated = torch.cat([mean, low, high, std])
        scalers = [1.0, math.log(d + 1) / delta, delta / math.log(d + 1)]
        hidden = torch.cat([x[i], *(s * aggregated for s in scalers)])
        hidden = post.weight @ hidden + post.bias
        rows.append(torch.relu(conv.lin.weight @ hidden + conv.lin.bias))
    assert_same(call_layer(layer, case), torch.stack(rows), layer, case.leaves(), 1e-8)


def test_the_histogram_counts_messages_received() -> None:
    edge_index = torch.tensor([[0, 1, 2, 0], [1, 2, 1, 1]])
    assert degree_histogram(edge_index, 4).tolist() == [2, 1, 0, 1]


@pytest.mark.parametrize("network", [PNA, MultiTaskPNA])
def test_degrees_are_set_and_saved(network: type[PNA] | type[MultiTaskPNA]) -> None:
    arguments = (2, 1, 4, 2) if network is PNA else (2, 1, 1, 4, 2)
    model = network(*arguments, degrees=DEGREES)
    other = network(*arguments)
    for layer in model.backbone.layers:
        assert float(layer.conv.aggr_module.avg_deg_log) == pytest.approx(_delta(DEGREES))
    other.load_state_dict(model.state_dict())
    other.set_degrees([0, 4])
    for layer in other.backbone.layers:
        assert float(layer.conv.aggr_module.avg_deg_log) == pytest.approx(math.log(2))
        assert float(layer.conv.aggr_module.avg_deg_lin) == pytest.approx(1)


@pytest.mark.parametrize("degrees", [(), (5,), (0, 0), (1, -1), ((1, 2), (3, 4))])
def test_refuses_degrees_without_an_edge(degrees: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="degrees must say"):
        PNA(2, 1, 4, 2, degrees=degrees)


def test_variances_are_not_taken_in_bfloat16() -> None:
    case = make_case([path(5)], 3, dtype=torch.float32)
    layer = PNALayer(3, 4)
    expected = call_layer(layer, case)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(call_layer(layer, case), expected)


@pytest.mark.parametrize("edge_channels", [0, 2])
def test_equals_pyg(edge_channels: int) -> None:
    case = both(edge_channels)
    layer = randomize(PNALayer(3, 4, edge_channels, degrees=DEGREES))
    expected = call_convolution(layer, case).relu()
    assert_same(call_layer(layer, case), expected, layer, case.leaves(), 1e-9)
