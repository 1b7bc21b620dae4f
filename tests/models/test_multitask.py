"""The multi-task network and its ablation: equal to the dense oracle."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import oracle
import pytest
import torch
from hypothesis import given
from small_networks import with_schemes
from strategies import (
    EXACT,
    ODD,
    SCHEMES,
    Structure,
    assert_same,
    batches,
    cycle,
    make_case,
    path,
    randomize,
    seeds,
)

from smpgnn import MultiTaskMPNN, MultiTaskSMP
from smpgnn.testing import Graph, assert_batch_invariant, assert_equivariant

OPTIONS: list[dict[str, Any]] = [
    {},
    {"layer": "fast"},
    {"norm": None, "residual": True},
    {"edge_channels": 2, "norm": "layer", "towers": 2},
]


def make(
    options: dict[str, Any], network: type[MultiTaskSMP] = MultiTaskSMP, seed: int = 0, **more: Any
) -> MultiTaskSMP:
    arguments = {
        "in_channels": 2,
        "node_channels": 3,
        "graph_channels": 2,
        "hidden_channels": 4,
        "num_layers": 3,
        "extractor_channels": 5,
        "state_channels": 3,
    }
    return randomize(network(**{**arguments, **options, **more}), seed)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_equals_the_oracle(
    options: dict[str, Any], training: bool, graphs: list[Structure], seed: int
) -> None:
    model = make(options, seed=seed).train(training)
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    expected = oracle.multitask(model, case.graphs)
    assert_same(case.call(model), expected, model, case.leaves())


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_mpnn_equals_the_oracle(
    options: dict[str, Any], training: bool, graphs: list[Structure], seed: int
) -> None:
    model = make(options, MultiTaskMPNN, seed).train(training)
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed).of_nodes()
    expected = oracle.multitask(model, case.graphs)
    assert_same(case.call(model), expected, model, case.leaves())


@pytest.mark.parametrize("identifiers", ["onehot", "neighborhood"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("network", [MultiTaskSMP, MultiTaskMPNN])
def test_is_equivariant(
    network: type[MultiTaskSMP], options: dict[str, Any], identifiers: str
) -> None:
    model = make(options, network, identifiers=identifiers)
    case = make_case(list(ODD.values()), 2, options.get("edge_channels", 0))
    assert_equivariant(model, case.x, case.edge_index, case.edge_attr, case.batch)


@pytest.mark.parametrize(
    ("network", "options", "identifiers"), with_schemes(MultiTaskSMP, MultiTaskMPNN, OPTIONS)
)
def test_batch_mates_change_nothing(
    network: type[MultiTaskSMP], options: dict[str, Any], identifiers: str
) -> None:
    model = make(options, network, identifiers=identifiers).train()
    edge_channels = options.get("edge_channels", 0)
    for seed in range(3):
        make_case([path(4), cycle(3)], 2, edge_channels, seed).call(model)
    structures = [s for s in ODD.values() if s[0] > 1]
    cases = [make_case([s], 2, edge_channels, k) for k, s in enumerate(structures)]
    assert_batch_invariant(model, [Graph(c.x, c.edge_index, c.edge_attr) for c in cases])


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("network", [MultiTaskSMP, MultiTaskMPNN])
def test_odd_graphs_give_finite_outputs_and_gradients(
    network: type[MultiTaskSMP], identifiers: str, training: bool
) -> None:
    model = make({}, network, identifiers=identifiers).train(training)
    sets = [[structure] for structure in ODD.values()]
    sets += [
        [ODD["empty"], path(3)],
        [path(3), ODD["empty"], ODD["single"]],
        [path(3), ODD["empty"]],
        [ODD["empty"], ODD["empty"]],
        list(ODD.values()),
    ]
    for structures in sets:
        case = make_case(structures)
        model.zero_grad()
        nodes, graphs = case.call(model)
        assert nodes.shape == (case.num_nodes, 3)
        assert graphs.shape == (case.num_graphs, 2)
        assert nodes.isfinite().all()
        assert graphs.isfinite().all()
        (nodes.sum() + graphs.sum()).backward()
        for leaf in [*model.parameters(), *case.leaves()]:
            assert leaf.grad is None or leaf.grad.isfinite().all()


@pytest.mark.parametrize(
    ("network", "options", "identifiers"), with_schemes(MultiTaskSMP, MultiTaskMPNN, OPTIONS)
)
def test_bfloat16_autocast_is_near_float32(
    network: type[MultiTaskSMP], options: dict[str, Any], identifiers: str
) -> None:
    model = make(options, network, identifiers=identifiers).float()
    case = make_case(
        [path(8), cycle(5), ODD["single"]], 2, options.get("edge_channels", 0), dtype=torch.float32
    )
    expected = case.call(deepcopy(model))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = case.call(model)
    sum(out.float().sum() for out in actual).backward()
    for leaf in [*model.parameters(), *case.leaves()]:
        assert leaf.grad is None or leaf.grad.isfinite().all()
    for near, exact in zip(actual, expected, strict=True):
        assert (near.float() - exact).abs().max() < 0.15 * max(1.0, exact.abs().max().item())


@pytest.mark.parametrize("network", [MultiTaskSMP, MultiTaskMPNN])
def test_weights_load_under_any_scheme(network: type[MultiTaskSMP]) -> None:
    model = make({}, network, seed=3).eval()
    case = make_case([path(4), cycle(5)])
    for identifiers in EXACT:
        other = make({}, network, seed=9, identifiers=identifiers).eval()
        other.load_state_dict(model.state_dict())
        assert_same(case.call(other), case.call(model))
