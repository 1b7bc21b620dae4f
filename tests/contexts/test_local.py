"""Local contexts: rows for the nodes within r hops and a far row, against a plain transcription."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from local_oracle import local_smp
from strategies import (
    ODD,
    Structure,
    assert_same,
    batches,
    cycle,
    make_case,
    path,
    randomize,
    seeds,
    to_dense,
)
from torch import nn

from smpgnn import SMP, ContextIndex, InputError, MultiTaskSMP
from smpgnn.contexts.rows import LocalRows

OPTIONS: list[dict[str, Any]] = [
    {},
    {"layer": "fast"},
    {"layer": "fast", "norm": "batch", "residual": True},
    {"edge_channels": 2, "norm": "batch", "message_residual": True, "update_residual": True},
    {"norm": "layer", "norm_place": "after", "towers": 2},
    {"own_terms": True, "level": "node"},
    {"layer": "fast", "level": "node", "own_terms": True},
    {"layer": "fast", "readout": "sum"},
    {"set_terms": False, "shared_extractor": True},
    {"features": "context", "norm": "batch"},
    {"features": "row", "norm": "batch", "edge_channels": 2},
]


def make(options: dict[str, Any], radius: int = 1, seed: int = 0, depth: int = 3) -> SMP:
    model = SMP(2, 2, 4, depth, identifiers="local", context_radius=radius, **options)
    return randomize(model, seed)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(max_nodes=7), radius=st.integers(1, 3), seed=seeds())
def test_networks_equal_the_transcription(
    options: dict[str, Any], training: bool, graphs: list[Structure], radius: int, seed: int
) -> None:
    model = make(options, radius, seed).train(training)
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    expected = local_smp(model, case.graphs, radius)
    assert_same(case.call(model), expected, model, case.leaves())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_networks_equal_the_transcription_where_most_is_far(options: dict[str, Any]) -> None:
    model = make(options, radius=2, depth=5)
    graphs = [path(9), ODD["directed cycle"], cycle(8), ODD["single"], ODD["two parts"]]
    case = make_case(graphs, 2, options.get("edge_channels", 0))
    expected = local_smp(model, case.graphs, 2)
    assert_same(case.call(model), expected, model, case.leaves(), tolerance=1e-9)


def test_a_context_has_the_nodes_near_and_one_far_row() -> None:
    index = make_case([path(4), ODD["single"]]).index("local", 1)
    table = index.table
    assert isinstance(table, LocalRows)
    far = 5
    assert table.described.tolist() == [
        *(0, 1, far), *(0, 1, 2, far), *(1, 2, 3, far), *(2, 3, far), *(4, far)
    ]  # fmt: skip
    assert table.own.tolist() == [0, 4, 8, 12, 14]
    assert index.layout.count.tolist() == [3, 4, 4, 3, 2]
    assert table.multiplicity is None
    assert table.radius is None
    assert table.context_radius == 1


def test_the_far_row_is_there_where_nothing_is_far() -> None:
    index = ContextIndex.build(make_case([cycle(5)]).topology, "local", 1, 9)
    assert index.layout.count.tolist() == [6] * 5


@pytest.mark.parametrize("norm", [None, "layer"])
@pytest.mark.parametrize("layer", ["default", "fast"])
@given(graphs=batches(max_nodes=6), seed=seeds())
def test_with_all_in_sight_the_rows_are_the_one_hot_ones(
    layer: str, norm: str | None, graphs: list[Structure], seed: int
) -> None:
    """Set terms apart, by which a context sees its far row as well."""
    options = {"layer": layer, "norm": norm, "set_terms": False}
    backbone = make(options, radius=6, seed=seed).backbone
    case = make_case(graphs, 2, 0, seed)
    near = ContextIndex.build(case.topology, "local", 1, 6)
    onehot = case.index("onehot")
    for one, two in zip(backbone(case.x, None, near), backbone(case.x, None, onehot), strict=True):
        assert_same(to_dense(one, near), to_dense(two, onehot), None, case.leaves())


def test_it_is_another_network_than_the_exact_ones() -> None:
    case, model = make_case([path(9)]), make({"layer": "fast"}).eval()
    near = case.call(model)
    model.backbone.identifiers = "onehot"
    assert (near - case.call(model)).abs().max() > 1e-3


def test_an_index_of_another_radius_or_kind_is_refused() -> None:
    case = make_case([path(6)])
    model = make({}, radius=2)
    assert_same(case.call(model, index=case.index("local", 2)), case.call(model))
    with pytest.raises(InputError, match="within 1 hops, but this network needs 2 hops"):
        case.call(model, index=case.index("local", 1))
    with pytest.raises(InputError, match="as many hops as layers, but this network needs 2 hops"):
        case.call(model, index=case.index("onehot"))
    with pytest.raises(InputError, match="within 2 hops, but this network needs as many"):
        case.call(randomize(SMP(2, 1, 4, 2)), index=case.index("local", 2))


@pytest.mark.parametrize("radius", [0, -1, 1.5, True])
@pytest.mark.parametrize("network", [SMP, MultiTaskSMP])
def test_a_context_radius_below_one_is_refused(network: type[nn.Module], radius: Any) -> None:
    with pytest.raises(InputError, match=r"context_radius must be (a whole number|at least 1)"):
        network(2, 2, 2, 4, 2, context_radius=radius) if network is MultiTaskSMP else network(
            2, 2, 4, 2, identifiers="local", context_radius=radius
        )
    with pytest.raises(InputError, match=r"context_radius must be (a whole number|at least 1)"):
        ContextIndex.build(make_case([path(3)]).topology, "local", 2, radius)
