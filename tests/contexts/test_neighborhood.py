"""Neighbourhood identifiers: the results of one-hot identifiers, with fewer rows."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import oracle
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    ODD,
    Structure,
    assert_same,
    cycle,
    gradients,
    long_structures,
    make_case,
    path,
    randomize,
    seeds,
    structures,
    to_dense,
    undirected,
)

from smpgnn import SMP, ContextIndex, InputError, MultiTaskSMP
from smpgnn.contexts.growing import GrowingIndex
from smpgnn.contexts.neighborhood import distances, neighborhoods
from smpgnn.contexts.traced_neighborhood import traced_distances
from smpgnn.models.backbone import Backbone

OPTIONS: list[dict[str, Any]] = [
    {"norm": "batch"},
    {"norm": "batch", "layer": "fast", "level": "node"},
    {"norm": "batch", "edge_channels": 2, "pooling": "max", "residual": True},
    {"level": "node", "message_residual": True, "update_residual": True},
    {"layer": "fast", "norm": "layer", "pooling": "sum"},
    {"pooling": "mean", "towers": 2},
    {"norm": "batch", "own_terms": True},
]

ANY = st.lists(st.one_of(structures(max_nodes=6), long_structures(10)), min_size=1, max_size=3)


def make(options: dict[str, Any], identifiers: str, depth: int, seed: int) -> SMP:
    model = SMP(2, 2, 4, depth, identifiers=identifiers, **options)
    return randomize(model, seed)


@given(graph=st.one_of(structures(), long_structures()), radius=st.integers(0, 5))
def test_neighborhoods_are_the_nodes_within_so_many_hops(graph: Structure, radius: int) -> None:
    case = make_case([graph])
    hops = case.graphs[0].hops()
    expected = [[i, j] for i in range(graph[0]) for j in range(graph[0]) if hops[i][j] <= radius]
    assert neighborhoods(case.topology, radius).t().tolist() == expected


@given(graphs=ANY, radius=st.integers(0, 4))
def test_the_form_for_tracing_is_equal(graphs: list[Structure], radius: int) -> None:
    topology = make_case(graphs).topology
    for found, expected in zip(
        traced_distances(topology, radius), distances(topology, radius), strict=True
    ):
        assert torch.equal(found, expected)


def test_neighborhoods_follow_the_direction_of_the_edges() -> None:
    """0 → 1 → 2: what 0 sends reaches 2 after two layers; nothing reaches 0."""
    topology = make_case([(3, ((0, 1), (1, 2)))]).topology
    assert neighborhoods(topology, 2).t().tolist() == [
        [0, 0],
        [1, 0],
        [1, 1],
        [2, 0],
        [2, 1],
        [2, 2],
    ]


def test_neighborhoods_refuse_a_negative_radius() -> None:
    with pytest.raises(InputError, match="radius"):
        neighborhoods(make_case([path(3)]).topology, -1)


def test_the_counts_of_rows_that_the_conventions_state() -> None:
    """Every context has an unseen row as soon as one node of the graph fails to see another."""
    page = Path(__file__).parents[2] / "docs" / "concepts" / "conventions.md"
    text = page.read_text(encoding="utf-8")
    assert "(18 instead of 16 for a path of 4 nodes with L = 2)" in " ".join(text.split())
    topology = make_case([path(4)]).topology
    rows = ContextIndex.build(topology, "neighborhood", 2).table
    assert rows.num_rows == 18
    assert ContextIndex.build(topology, "onehot", 2).table.num_rows == 16
    assert rows.ptr.diff().tolist() == [4, 5, 5, 4]
    assert rows.multiplicity is not None
    last = rows.ptr[1:] - 1
    assert rows.multiplicity[last].tolist() == [1, 0, 0, 1]
    everything = ContextIndex.build(topology, "neighborhood", 3).table  # all see all
    assert (everything.num_rows, everything.multiplicity) == (16, None)
    both = make_case([path(4), path(2)]).topology  # the second graph has no unseen rows
    assert ContextIndex.build(both, "neighborhood", 2).table.num_rows == 18 + 4


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=ANY, depth=st.integers(1, 4), seed=seeds())
def test_networks_equal_those_with_onehot_identifiers(
    options: dict[str, Any], training: bool, graphs: list[Structure], depth: int, seed: int
) -> None:
    expected_model = make(options, "onehot", depth, seed).train(training)
    model = make(options, "neighborhood", depth, seed).train(training)
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    actual, expected = case.call(model), case.call(expected_model)
    assert_same(actual, expected)
    assert_same(
        gradients([actual], [*model.parameters(), *case.leaves()]),
        gradients([expected], [*expected_model.parameters(), *case.leaves()]),
    )
    for one, other in zip(model.buffers(), expected_model.buffers(), strict=True):
        assert_same(one.double(), other.double())


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("layer", ["default", "fast"])
@given(graphs=ANY, depth=st.integers(1, 4), seed=seeds())
def test_multitask_networks_equal_those_with_onehot_identifiers(
    layer: str, training: bool, graphs: list[Structure], depth: int, seed: int
) -> None:
    expected = randomize(
        MultiTaskSMP(2, 3, 2, 4, depth, layer, extractor_channels=4, state_channels=3), seed
    ).train(training)
    model = deepcopy(expected)
    model.backbone.identifiers = "neighborhood"
    case = make_case(graphs, 2, 0, seed)
    assert_same(case.call(model), case.call(expected))
    for one, other in zip(model.buffers(), expected.buffers(), strict=True):
        assert_same(one.double(), other.double())


@pytest.mark.parametrize("norm", ["batch", None])
@given(
    graphs=ANY, depth=st.integers(1, 4), layer=st.sampled_from(["default", "fast"]), seed=seeds()
)
def test_every_context_equals_that_of_the_oracle(
    norm: str | None, graphs: list[Structure], depth: int, layer: str, seed: int
) -> None:
    """Row by row, with the unseen row written out for all the nodes that it stands for."""
    backbone: Backbone = randomize(
        SMP(2, 1, 4, depth, layer, "neighborhood", norm=norm), seed
    ).backbone
    case = make_case(graphs, 2, 0, seed)
    index = backbone.index(case.topology)
    assert isinstance(index, GrowingIndex)
    expected = list(oracle.contexts(backbone, case.graphs))
    stages = [index.first, *index.layers]
    for stage, context, us in zip(stages, backbone(case.x, None, index), expected, strict=True):
        for one, other in zip(to_dense(context, stage), us, strict=True):
            assert_same(one, other.reshape(one.shape), tolerance=1e-12)


def test_one_layer_more_than_the_radius_would_be_wrong() -> None:
    """The check of the radius is needed: rows for two hops do not serve three layers."""
    case = make_case([path(9)])
    backbone = make({}, "neighborhood", 3, 0).backbone
    *_, rough = backbone(case.x, None, case.index("neighborhood", 2))
    *_, exact = backbone(case.x, None, case.index("neighborhood", 3))
    assert (rough.mean() - exact.mean()).abs().max() > 1e-6


@pytest.mark.parametrize("structure", list(ODD.values()), ids=list(ODD))
@pytest.mark.parametrize("depth", [1, 2, 8])
def test_odd_graphs_equal_onehot(structure: Structure, depth: int) -> None:
    case = make_case([structure])
    for options in OPTIONS[:2]:
        one, other = make(options, "neighborhood", depth, 1), make(options, "onehot", depth, 1)
        assert_same(case.call(one), case.call(other))


def test_a_long_path_needs_few_rows() -> None:
    """75 nodes, 2 hops: at most 5 nodes and the unseen row, instead of 75 rows a context."""
    case = make_case([path(75)])
    onehot, near = case.index("onehot", 2), case.index("neighborhood", 2)
    assert onehot.num_rows == 75 * 75
    assert near.num_rows == 75 * 6 - 2 * (2 + 1)
    assert near.table.multiplicity.sum() == 75 * 75


def test_a_graph_seen_whole_has_no_unseen_row() -> None:
    index = make_case([cycle(5), path(7)]).index("neighborhood", 2)
    rows = index.table.ptr.diff().tolist()
    assert rows[:5] == [5] * 5
    assert rows[5:] == [4, 5, 6, 6, 6, 5, 4]
    assert index.table.multiplicity.tolist()[:25] == [1] * 25


def test_unseen_rows_may_stand_for_no_node() -> None:
    """A star with a tail: the centre sees everything, the others do not."""
    index = make_case([undirected(5, [(0, 1), (0, 2), (0, 3), (3, 4)])]).index("neighborhood", 2)
    table = index.table
    multiplicity = table.multiplicity[table.ptr[1:] - 1]
    assert multiplicity.tolist() == [0, 1, 1, 0, 2]
    assert index.layout.count.tolist() == [5] * 5
