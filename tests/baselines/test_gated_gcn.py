"""Gated-GCN against loops over the edges, whose states pass from layer to layer."""

from __future__ import annotations

import pytest
import torch
from node_layers import arriving, both, edge_feature, of_nodes
from strategies import assert_same, make_case, path, randomize
from torch import Tensor, nn

from smpgnn.baselines.gated_gcn import EdgeContext, GatedGCNLayer
from smpgnn.errors import InputError


def _affine(linear: nn.Linear, value: Tensor) -> Tensor:
    return linear.weight @ value + linear.bias


@pytest.mark.parametrize("edge_channels", [0, 2])
@pytest.mark.parametrize("residual", [False, True], ids=["", "residual"])
def test_two_layers_equal_loops_over_the_edges(residual: bool, edge_channels: int) -> None:
    case = both(edge_channels)
    first = GatedGCNLayer(3, 4, edge_channels, edge_residual=residual)
    second = GatedGCNLayer(4, 4, edge_channels, edge_residual=residual)
    second.follow("layer")
    stack = randomize(nn.ModuleList([first, second]))
    index, context = of_nodes(case)
    actual = second(first(context, index, case.edge_attr), index, case.edge_attr)

    count = case.edge_index.size(1)
    one = torch.ones(1, dtype=torch.float64)
    ys = [edge_feature(case, e) if edge_channels else one for e in range(count)]
    x, edges = list(case.x), [_affine(first.edge_encoder, y) for y in ys]
    for layer in (first, second):
        new_x, new_edges = [], list(edges)
        for i in range(case.num_nodes):
            above = below = torch.zeros(4, dtype=torch.float64)
            for e, j in arriving(case, i):
                state = edges[e]
                if layer is second:
                    norm = second.edge_norm
                    spread = (state.var(unbiased=False) + norm.eps).sqrt()
                    state = (state - state.mean()) / spread * norm.weight + norm.bias
                gate = _affine(layer.gate_edge, state)
                gate = gate + _affine(layer.gate_receiver, x[i]) + _affine(layer.gate_sender, x[j])
                opened = 1 / (1 + (-gate).exp())
                above = above + opened * _affine(layer.value, x[j])
                below = below + opened
                new_edges[e] = torch.relu(gate) + (edges[e] if residual else 0)
            new_x.append(torch.relu(_affine(layer.own, x[i]) + above / (below + 1e-6)))
        x, edges = new_x, new_edges
    expected = [torch.stack(x), torch.stack(edges)]
    assert_same([actual.rows, actual.edges], expected, stack, case.leaves())


def test_a_later_layer_needs_the_edge_states_of_the_one_before() -> None:
    layer = GatedGCNLayer(3, 3).double()
    layer.follow(None)
    case = make_case([path(3)], 3)
    index, context = of_nodes(case)
    with pytest.raises(InputError, match="must follow another"):
        layer(context, index)


def test_edge_states_stay_with_the_rows() -> None:
    case = make_case([path(3)], 3)
    index, context = of_nodes(case)
    states = torch.randn(4, 2, dtype=torch.float64)
    carried = EdgeContext(context.rows, index.layout, states)
    changed = carried.with_rows(2 * context.rows)
    assert isinstance(changed, EdgeContext)
    assert changed.edges is states
    assert torch.equal(changed.rows, 2 * context.rows)
