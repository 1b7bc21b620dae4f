"""The ablation: the same layers on one row a node are ordinary message passing."""

from __future__ import annotations

import oracle
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import Structure, assert_same, batches, make_case, path, randomize, seeds, to_rows

from smpgnn import ContextIndex, LocalContext
from smpgnn.layers import FastMPNNLayer, MPNNLayer


@given(graphs=batches(), edge_channels=st.sampled_from([0, 2]), seed=seeds())
def test_mpnn_layer_equals_the_oracle(
    graphs: list[Structure], edge_channels: int, seed: int
) -> None:
    layer = randomize(MPNNLayer(3, 4, edge_channels, towers=2), seed)
    case = make_case(graphs, 3, edge_channels, seed).of_nodes()
    index = ContextIndex.of_nodes(case.topology)
    actual = layer(LocalContext(case.x, index.layout), index, case.edge_attr).rows
    expected = to_rows(
        [oracle.default_layer(layer, graph.x.unsqueeze(1), graph) for graph in case.graphs]
    )
    assert_same(actual, expected, layer, case.leaves())


@given(graphs=batches(), seed=seeds())
def test_fast_mpnn_layer_equals_the_oracle(graphs: list[Structure], seed: int) -> None:
    layer = randomize(FastMPNNLayer(3, 4), seed)
    case = make_case(graphs, 3, 0, seed).of_nodes()
    index = ContextIndex.of_nodes(case.topology)
    actual = layer(LocalContext(case.x, index.layout), index).rows
    expected = to_rows(
        [oracle.fast_layer(layer, graph.x.unsqueeze(1), graph) for graph in case.graphs]
    )
    assert_same(actual, expected, layer, case.leaves())


def test_path_by_hand() -> None:
    """x + (A x + x ⊙ A x) · 3/4 with x = (1, 2, 4)."""
    layer = FastMPNNLayer(1, 1).double()
    with torch.no_grad():
        for name, value in layer.named_parameters():
            value.fill_(0.0 if name.endswith("bias") else 1.0)
    index = ContextIndex.of_nodes(make_case([path(3)]).topology)
    x = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64)
    new = layer(LocalContext(x, index.layout), index).rows
    assert new.flatten().tolist() == [
        1 + 0.75 * (2 + 1 * 2),
        2 + 0.75 * (5 + 2 * 5),
        4 + 0.75 * (2 + 4 * 2),
    ]


@pytest.mark.parametrize("layer", [MPNNLayer, FastMPNNLayer])
def test_nodes_of_a_regular_graph_cannot_be_distinguished(layer: type[MPNNLayer]) -> None:
    """Proposition 1: without identifiers two triangles and a hexagon look the same."""
    module = randomize(layer(1, 4))
    triangles = make_case([(6, tuple((b, a) for t in (0, 3) for a in range(t, t + 3)
                                     for b in range(t, t + 3) if a != b))])  # fmt: skip
    hexagon = make_case([(6, tuple((k, (k + s) % 6) for k in range(6) for s in (1, 5)))])
    ones = torch.ones(6, 1, dtype=torch.float64)
    outputs = []
    for case in (triangles, hexagon):
        index = ContextIndex.of_nodes(case.topology)
        outputs.append(module(LocalContext(ones, index.layout), index).rows)
    assert_same(outputs[0], outputs[1])
