"""PPGN: equal to a dense transcription, graph by graph, without any padding."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
import torch
from baseline_checks import OPTIONS, convolution, make, pair_input, sequential, width
from hypothesis import given
from oracle import DenseGraph
from strategies import Structure, assert_same, batches, make_case, seeds
from torch import Tensor

from smpgnn.baselines.ppgn import PPGN, PPGNLayer


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
    with convolution(dense_block, pair_input):
        expected = oracle.smp(model, case.graphs)
    assert_same(case.call(model), expected, model, case.leaves())
    assert_same(case.call(model.eval(), index=case.index("onehot")), case.call(model))
