"""GIN: equal to a dense transcription and to PyTorch Geometric's own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from baseline_checks import (
    OPTIONS,
    assert_finite,
    convolution,
    different_graphs,
    make,
    overfit,
    sequential,
    width,
)
from hypothesis import given
from oracle import DenseGraph, smp
from strategies import ODD, Structure, assert_same, batches, cycle, make_case, path, seeds
from torch import Tensor
from torch_geometric.nn import MLP, GINConv, global_mean_pool

from smpgnn import ContextIndex, InputError, LocalContext
from smpgnn.baselines.gin import GIN, GINLayer
from smpgnn.testing import assert_batch_invariant, assert_equivariant


def dense_gin(layer: GINLayer, u: Tensor, graph: DenseGraph) -> Tensor:
    """MLP(h_i + Σ_j h_j); u [n, 1, C]."""
    total = u + torch.einsum("ij,jrc->irc", graph.adjacency().to(u), u)
    return sequential(layer.conv.nn, total)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_equals_the_dense_transcription(
    options: dict[str, Any], training: bool, graphs: list[Structure], seed: int
) -> None:
    model = make(GIN, options, seed).train(training)
    case = make_case(graphs, width(options), 0, seed).of_nodes()
    with convolution(dense_gin):
        expected = smp(model, case.graphs)
    assert_same(case.call(model), expected, model, case.leaves())


def test_equals_a_network_of_pyg() -> None:
    model = make(GIN, {"level": "graph"})
    case = make_case([path(4), cycle(5), ODD["single"]])
    assert case.x is not None
    h = torch.cat([torch.ones(case.num_nodes, 1, dtype=torch.float64), case.x], dim=1)

    def features(extractor: Any, h: Tensor) -> Tensor:
        pooled = global_mean_pool(h, case.batch, case.num_graphs)
        return extractor.out(extractor.hidden(pooled).relu())

    total = features(model.first_extractor, h)
    for layer, extractor in zip(model.backbone.layers, model.extractors, strict=True):
        conv = GINConv(MLP([layer.in_channels, 4, 4], norm=None), eps=0.0).double()
        lins = conv.nn.lins
        lins[0].load_state_dict(layer.conv.nn[0].state_dict())
        lins[1].load_state_dict(layer.conv.nn[2].state_dict())
        h = conv(h, case.edge_index)
        total = total + features(extractor, h) / 3
    assert_same(case.call(model), model.out(total + model.head(total).relu()))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_is_invariant(options: dict[str, Any]) -> None:
    model = make(GIN, options)
    case = make_case(list(ODD.values()), width(options))
    assert_equivariant(model, case.x, case.edge_index, None, case.batch)
    assert_batch_invariant(model, different_graphs(width(options)))


def test_the_layer_refuses_contexts_of_other_graphs() -> None:
    index = ContextIndex.of_nodes(make_case([path(3)]).topology)
    other = ContextIndex.of_nodes(make_case([path(3)]).topology)
    layer = GINLayer(2, 2).double()
    rows = torch.ones(3, 2, dtype=torch.float64)
    assert layer(LocalContext(rows, index.layout), index).rows.shape == (3, 2)
    with pytest.raises(InputError, match="does not belong"):
        layer(LocalContext(rows, other.layout), index)


def test_odd_graphs() -> None:
    assert_finite(make(GIN, {"norm": "batch"}))


def test_refuses_edge_features_and_unknown_options() -> None:
    with pytest.raises(InputError, match="edge"):
        GIN(2, 1, 4, 2, edge_channels=3)
    with pytest.raises(InputError, match="towers"):
        GIN(2, 1, 4, 2, towers=2)


def test_learns_a_few_graphs() -> None:
    assert overfit(GIN) == 1.0
