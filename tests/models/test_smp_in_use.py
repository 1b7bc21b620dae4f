"""Networks in use: any graphs, dropout, low precision, weights that are saved or copied."""

from __future__ import annotations

import io
from copy import deepcopy
from typing import Any

import pytest
import torch
from small_networks import OPTIONS, make, with_schemes
from strategies import EXACT, ODD, SCHEMES, assert_same, cycle, make_case, path
from sweep import sweep
from torch_geometric.nn import SoftmaxAggregation

from smpgnn import MPNN, SMP
from smpgnn.testing import assert_equivariant


@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("layer", ["default", "fast"])
def test_one_network_runs_on_graphs_of_any_size(layer: str, identifiers: str) -> None:
    model = make({"layer": layer}, in_channels=0, identifiers=identifiers)
    for n in (1, 2, 5, 30):
        n, edges = path(n)
        out = model(None, torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), num_nodes=n)
        assert out.shape == (1, 2)
        assert out.isfinite().all()


@pytest.mark.parametrize(
    ("options", "identifiers", "training"),
    sweep(
        OPTIONS,
        SCHEMES,
        [True, False],
        always=lambda options, identifiers, training: training or identifiers == "local",
    ),
)
def test_odd_graphs_give_finite_outputs_and_gradients(
    options: dict[str, Any], identifiers: str, training: bool
) -> None:
    model = make({**options, "norm": "batch"}, identifiers=identifiers).train(training)
    sets = [[structure] for structure in ODD.values()]
    sets += [
        [ODD["empty"], path(3)],
        [path(3), ODD["empty"], ODD["single"]],
        [path(3), ODD["empty"]],
        [ODD["empty"], ODD["empty"]],
        list(ODD.values()),
    ]
    for structures in sets:
        case = make_case(structures, 2, options.get("edge_channels", 0))
        model.zero_grad()
        out = case.call(model)
        rows = case.num_nodes if options.get("level") == "node" else case.num_graphs
        assert out.shape == (rows, 2)
        assert out.isfinite().all()
        out.sum().backward()
        for leaf in [*model.parameters(), *case.leaves()]:
            assert leaf.grad is None or leaf.grad.isfinite().all()


@pytest.mark.parametrize("network", [SMP, MPNN])
def test_dropout_acts_in_training_only(network: type[SMP]) -> None:
    model = make({"dropout": 0.5}, network)
    plain = make({}, network)
    case = make_case([path(4), cycle(5)])
    assert_same(case.call(model.eval()), case.call(plain))
    assert not torch.allclose(case.call(model.train()), case.call(plain))


def test_an_aggregation_of_pyg_may_be_given_as_an_instance() -> None:
    model = make({"pooling": SoftmaxAggregation(learn=True)})
    case = make_case([path(4), cycle(5)])
    out = case.call(model)
    assert out.shape == (2, 2)
    assert_equivariant(model, case.x, case.edge_index, None, case.batch)


@pytest.mark.parametrize(
    ("options", "identifiers"),
    sweep(OPTIONS, SCHEMES, always=lambda options, scheme: scheme == "local" or not options),
)
def test_float32_is_near_float64(options: dict[str, Any], identifiers: str) -> None:
    wide = make(options, identifiers=identifiers)
    narrow = deepcopy(wide).float()
    structures = [path(8), cycle(5), ODD["empty"]]
    edge_channels = options.get("edge_channels", 0)
    expected = make_case(structures, 2, edge_channels).call(wide)
    actual = make_case(structures, 2, edge_channels, dtype=torch.float32).call(narrow)
    assert actual.dtype == torch.float32
    assert_same(actual.double(), expected, tolerance=1e-4)


@pytest.mark.parametrize(
    ("network", "options", "identifiers"), with_schemes(SMP, MPNN, OPTIONS, usual="local")
)
def test_bfloat16_autocast_is_near_float32(
    network: type[SMP], options: dict[str, Any], identifiers: str
) -> None:
    model = make(options, network, identifiers=identifiers).float()
    case = make_case(
        [path(8), cycle(5), ODD["single"]], 2, options.get("edge_channels", 0), dtype=torch.float32
    )
    expected = case.call(deepcopy(model))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = case.call(model)
    actual.float().sum().backward()
    for leaf in [*model.parameters(), *case.leaves()]:
        assert leaf.grad is None or (
            leaf.grad.isfinite().all() and leaf.grad.dtype == torch.float32
        )
    scale = expected.abs().max().item()
    assert (actual.float() - expected).abs().max() < 0.1 * max(1.0, scale)


@pytest.mark.parametrize("network", [SMP, MPNN])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_weights_load_under_any_scheme_and_from_a_file(
    network: type[SMP], options: dict[str, Any]
) -> None:
    model = make(options, network, seed=3, identifiers="onehot").eval()
    case = make_case([path(4), cycle(5)], 2, options.get("edge_channels", 0))
    expected = case.call(model)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for identifiers in EXACT:
        file.seek(0)
        other = make(options, network, seed=9, identifiers=identifiers).eval()
        other.load_state_dict(torch.load(file, weights_only=True))
        # path(4) and cycle(5) have a diameter of at most 6 = 2 L: colouring gives n colours.
        assert_same(case.call(other), expected)


@pytest.mark.parametrize("network", [SMP, MPNN])
def test_a_deep_copy_is_independent_and_equal(network: type[SMP]) -> None:
    model = make({"norm": "batch"}, network)
    case = make_case([path(4)])
    case.call(model)
    copy = deepcopy(model).eval()
    expected = case.call(model.eval()).clone()
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
    assert_same(case.call(copy), expected)
