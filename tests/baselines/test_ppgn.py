"""PPGN: equal to a dense transcription, graph by graph, without any padding."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
import torch
from hypothesis import given
from oracle import DenseGraph
from rival_checks import (
    OPTIONS,
    assert_finite,
    convolution,
    different_graphs,
    make,
    overfit,
    sequential,
    width,
)
from strategies import ODD, Structure, assert_same, batches, cycle, make_case, path, seeds
from torch import Tensor

from smpgnn import InputError
from smpgnn.baselines.ppgn import PPGN, PPGNLayer
from smpgnn.testing import assert_batch_invariant, assert_equivariant

plain_initial = oracle.initial


def dense_input(
    graph: DenseGraph, dtype: torch.dtype = torch.float64, announced: int = 0
) -> Tensor:
    return torch.cat([plain_initial(graph), graph.adjacency().unsqueeze(2)], dim=2).to(dtype)


def dense_block(layer: PPGNLayer, t: Tensor, graph: DenseGraph) -> Tensor:
    """m4([m1(T) @ m2(T) / √n, T]); t [n, n, C]."""
    a, b = sequential(layer.m1, t), sequential(layer.m2, t)
    product = torch.einsum("ikc,kjc->ijc", a, b) / graph.num_nodes**0.5
    return sequential(layer.m4, torch.cat([product, t], dim=2))


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_equals_the_dense_transcription(
    options: dict[str, Any], training: bool, graphs: list[Structure], seed: int
) -> None:
    model = make(PPGN, options, seed).train(training)
    case = make_case(graphs, width(options), 0, seed)
    with convolution(dense_block, dense_input):
        expected = oracle.smp(model, case.graphs)
    assert_same(case.call(model), expected, model, case.leaves())
    assert_same(case.call(model.eval(), index=case.index("onehot")), case.call(model))


@pytest.mark.parametrize("options", [*OPTIONS, {"pooling": "sum"}], ids=str)
def test_is_invariant(options: dict[str, Any]) -> None:
    model = make(PPGN, options)
    case = make_case(list(ODD.values()), width(options))
    assert_equivariant(model, case.x, case.edge_index, None, case.batch)
    assert_batch_invariant(model, different_graphs(width(options)))


def test_the_layer_is_equivariant() -> None:
    layer = PPGNLayer(3, 4).double()
    case = make_case([path(5), ODD["empty"], cycle(4)])
    assert_equivariant(layer, None, case.edge_index, batch=case.batch)


def test_gradients_match_finite_differences() -> None:
    model = make(PPGN, {"norm": "batch", "num_layers": 2}).train()
    case = make_case([path(3), ODD["single"], cycle(4)])
    assert torch.autograd.gradcheck(lambda x: model(x, case.edge_index, None, case.batch), [case.x])


def test_odd_graphs() -> None:
    assert_finite(make(PPGN, {"norm": "batch"}))


def test_bfloat16_autocast_is_near_float32() -> None:
    model = make(PPGN, {"norm": "batch"}).float().eval()
    case = make_case([path(8), cycle(5), ODD["single"]], dtype=torch.float32)
    expected = case.call(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = case.call(model)
    assert (actual.float() - expected).abs().max() < 0.1 * max(1.0, expected.abs().max().item())


def test_refuses_edge_features_and_unknown_options() -> None:
    with pytest.raises(InputError, match="edge"):
        PPGN(2, 1, 4, 2, edge_channels=3)
    with pytest.raises(TypeError, match="towers"):
        PPGN(2, 1, 4, 2, towers=2)


def test_learns_a_few_graphs() -> None:
    assert overfit(PPGN) == 1.0
