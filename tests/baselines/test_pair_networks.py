"""What all baselines of order two promise: the same checks for each of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from baseline_checks import OPTIONS, assert_finite, different_graphs, make, overfit, width
from strategies import ODD, cycle, make_case, path, randomize

from smpgnn import InputError, SMPLayer
from smpgnn.baselines.pairs import PairNetwork
from smpgnn.baselines.ppgn import PPGN, PPGNLayer
from smpgnn.baselines.ring_gnn import RingGNN, RingGNNLayer
from smpgnn.testing import assert_batch_invariant, assert_equivariant

NETWORKS: list[type[PairNetwork]] = [PPGN, RingGNN]


@pytest.mark.parametrize("options", [*OPTIONS, {"pooling": "sum"}], ids=str)
@pytest.mark.parametrize("network", NETWORKS)
def test_is_invariant(network: type[PairNetwork], options: dict[str, Any]) -> None:
    model = make(network, options)
    case = make_case(list(ODD.values()), width(options))
    assert_equivariant(model, case.x, case.edge_index, None, case.batch)
    assert_batch_invariant(model, different_graphs(width(options)))


@pytest.mark.parametrize("layer", [PPGNLayer, RingGNNLayer])
def test_the_layer_is_equivariant(layer: type[SMPLayer]) -> None:
    case = make_case([path(5), ODD["empty"], cycle(4)])
    assert_equivariant(randomize(layer(3, 4)), None, case.edge_index, batch=case.batch)


@pytest.mark.parametrize("network", NETWORKS)
def test_gradients_match_finite_differences(network: type[PairNetwork]) -> None:
    model = make(network, {"norm": "batch", "num_layers": 2}).train()
    case = make_case([path(3), ODD["single"], cycle(4)])
    assert torch.autograd.gradcheck(lambda x: model(x, case.edge_index, None, case.batch), [case.x])


@pytest.mark.parametrize("network", NETWORKS)
def test_odd_graphs(network: type[PairNetwork]) -> None:
    assert_finite(make(network, {"norm": "batch"}))


@pytest.mark.parametrize("network", NETWORKS)
def test_bfloat16_autocast_is_near_float32(network: type[PairNetwork]) -> None:
    model = make(network, {"norm": "batch"}).float().eval()
    case = make_case([path(8), cycle(5), ODD["single"]], dtype=torch.float32)
    expected = case.call(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = case.call(model)
    assert (actual.float() - expected).abs().max() < 0.1 * max(1.0, expected.abs().max().item())


@pytest.mark.parametrize("network", NETWORKS)
def test_refuses_edge_features_and_unknown_options(network: type[PairNetwork]) -> None:
    with pytest.raises(InputError, match="edge"):
        network(2, 1, 4, 2, edge_channels=3)
    with pytest.raises(InputError, match="towers"):
        network(2, 1, 4, 2, towers=2)


@pytest.mark.parametrize("network", NETWORKS)
def test_learns_a_few_graphs(network: type[PairNetwork]) -> None:
    assert overfit(network) == 1.0
