"""Growing rows: each layer has the rows that it needs, and the results stay those of one-hot."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    Case,
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
)

from smpgnn import SMP, InputError, LocalContext
from smpgnn.contexts.growing import GrowingIndex
from smpgnn.contexts.rows import NeighborhoodRows
from smpgnn.ops import RowGather

GRAPHS = st.lists(st.one_of(structures(max_nodes=6), long_structures(10)), min_size=1, max_size=3)
OPTIONS: list[dict[str, Any]] = [
    {"norm": "batch", "edge_channels": 2, "residual": True},
    {"norm": "batch", "layer": "fast", "level": "node"},
    {"norm": "batch", "own_terms": True},
    {"features": "context", "norm": "batch"},
]


def grown(case: Case, num_layers: int) -> GrowingIndex:
    return GrowingIndex.of(case.topology, num_layers)


def near(case: Case, radius: int) -> list[set[int]]:
    """The nodes within so many hops of each node, in the numbers of the batch."""
    found, start = [], 0
    for graph in case.graphs:
        for line in graph.hops():
            found.append({start + j for j, hops in enumerate(line) if hops <= radius})
        start += graph.num_nodes
    return found


@given(graphs=GRAPHS, depth=st.integers(1, 4))
def test_layer_l_has_rows_for_l_hops(graphs: list[Structure], depth: int) -> None:
    case = make_case(graphs)
    index, count = grown(case, depth), case.num_nodes
    size = case.topology.graph_size[case.topology.batch]
    for radius, stage in enumerate([index.first, *index.layers]):
        table = stage.table
        assert isinstance(table, NeighborhoodRows)
        ptr, described = table.ptr.tolist(), table.described.tolist()
        for i, seen in enumerate(near(case, radius)):
            rows = described[ptr[i] : ptr[i + 1]]
            assert rows == sorted(seen) + [count] * (len(rows) - len(seen))
            assert len(rows) - len(seen) <= 1
            assert described[table.own[i]] == i
        assert torch.equal(stage.layout.count, size)


@given(graphs=GRAPHS, depth=st.integers(1, 4))
def test_every_row_hears_once_from_every_neighbour(graphs: list[Structure], depth: int) -> None:
    """From the row of the same node where the neighbour saw it before, else from its unseen row."""
    case = make_case(graphs)
    topology = case.topology
    index = grown(case, depth)
    for number, stage in enumerate(index.layers):
        table, lift, before = stage.table, stage.lift, near(case, number)
        assert isinstance(table, NeighborhoodRows)
        assert torch.equal(lift.target, lift.target.sort().values)
        assert torch.equal(lift.ptr.diff(), topology.degree[table.owner])
        assert torch.equal(table.owner[lift.target], topology.receiver[lift.edge])
        assert torch.equal(table.owner[lift.source], topology.sender[lift.edge])
        pairs = torch.stack([lift.target, lift.edge], dim=1)
        assert torch.unique(pairs, dim=0).size(0) == pairs.size(0)
        described, sender = table.described.tolist(), topology.sender.tolist()
        for target, source, edge in zip(
            lift.target.tolist(), lift.source.tolist(), lift.edge.tolist(), strict=True
        ):
            j = described[target]
            wanted = j if j in before[sender[edge]] else case.num_nodes
            assert described[source] == wanted


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=GRAPHS, depth=st.integers(1, 4), seed=seeds())
def test_growing_fixed_and_onehot_rows_agree(
    options: dict[str, Any], training: bool, graphs: list[Structure], depth: int, seed: int
) -> None:
    """Values, gradients and statistics, to the last digits of float64."""
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    results, slopes, buffers = [], [], []
    for index in (grown(case, depth), case.index("neighborhood", depth), case.index("onehot")):
        model = randomize(SMP(2, 2, 4, depth, identifiers="neighborhood", **options), seed)
        out = case.call(model.train(training), index=index)
        results.append(out)
        slopes.append(gradients([out], [*model.parameters(), *case.leaves()]))
        buffers.append([value.double() for value in model.buffers()])
    for k in (1, 2):
        assert_same(results[0], results[k], tolerance=1e-12)
        assert_same(slopes[0], slopes[k], tolerance=1e-11)
        assert_same(buffers[0], buffers[k], tolerance=1e-12)


@pytest.mark.parametrize("layer", ["default", "fast"])
@given(graphs=GRAPHS, seed=seeds())
def test_layers_edge_by_edge_equal_the_fast_path(
    layer: str, graphs: list[Structure], seed: int
) -> None:
    """`by_edge` of a layer's index pairs the same rows as its `lift`, up to equal ones."""
    case = make_case(graphs, 2, 0, seed)
    backbone = randomize(SMP(2, 1, 4, 3, layer, "neighborhood"), seed).backbone
    index = grown(case, 3)
    context = index.initial(case.x, torch.float64)
    for number, part in enumerate(backbone.layers, start=1):
        context, here = index.enter(context, number), index.of_layer(number)
        new = part(context, here)
        assert_same(part.general_forward(context, here).rows, new.rows)
        context = new


def test_rows_of_a_path_by_hand() -> None:
    """Nine nodes: 1, 3 and 5 visible nodes (fewer at the ends) and the unseen row."""
    index = grown(make_case([path(9)]), 2)
    assert [stage.num_rows for stage in (index.first, *index.layers)] == [18, 34, 48]
    table = index.layers[0].table
    assert isinstance(table, NeighborhoodRows)
    assert table.described[:7].tolist() == [0, 1, 9, 0, 1, 2, 9]
    assert table.multiplicity[:7].tolist() == [1, 1, 7, 1, 1, 1, 6]
    assert index.widenings[0] is not None
    # a saw itself and nothing else, so b is read from its unseen row; so for b's a and c.
    assert index.widenings[0].index[:7].tolist() == [0, 1, 1, 3, 2, 3, 3]


def test_what_does_not_grow_is_shared() -> None:
    """A ring of five is seen whole after two layers."""
    index = grown(make_case([cycle(5)]), 6)
    assert [layer.num_rows for layer in index.layers] == [20, 30, 25, 25, 25, 25]
    assert index.layers[3] is index.layers[2]
    assert index.widenings[3] is None


def test_widening_has_derivatives_of_any_order() -> None:
    widening = RowGather(torch.tensor([1, 1, 0, 3, 1]), 4)
    rows = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.equal(widening(rows), rows[[1, 1, 0, 3, 1]])
    assert torch.autograd.gradcheck(lambda r: widening(r.square()), (rows,))
    assert torch.autograd.gradgradcheck(lambda r: widening(r.square()), (rows,))


@given(graphs=GRAPHS, seed=seeds())
def test_what_was_measured_stays_true_when_rows_are_widened(
    graphs: list[Structure], seed: int
) -> None:
    case = make_case(graphs, 2, 0, seed)
    index = grown(case, 2)
    context = index.initial(case.x, torch.float64).measured(squares=True)
    wide = index.enter(context, 1)
    anew = LocalContext(wide.rows, wide.layout).measured(squares=True)
    assert wide.moments is not None
    assert anew.moments is not None
    assert_same(wide.moments.own, anew.moments.own)
    assert_same(wide.moments.mean, anew.moments.mean)
    assert_same(wide.moments.squares, anew.moments.squares)


@given(graphs=GRAPHS, seed=seeds())
def test_permute_moves_rows_with_their_nodes(graphs: list[Structure], seed: int) -> None:
    case = make_case(graphs)
    index = grown(case, 2)
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(case.num_nodes, generator=generator, dtype=torch.float64)
    permutation = torch.argsort(noise + case.batch)
    renamed, place = index.permute(permutation)
    assert sorted(place.tolist()) == list(range(index.num_rows))
    names = torch.cat([permutation, torch.tensor([case.num_nodes])])
    old, new = index.table, renamed.table
    assert isinstance(old, NeighborhoodRows)
    assert isinstance(new, NeighborhoodRows)
    assert torch.equal(new.owner[place], permutation[old.owner])
    assert torch.equal(new.described[place], names[old.described])


def test_an_index_for_more_layers_serves_and_one_for_fewer_does_not() -> None:
    case = make_case([path(9)])
    model = randomize(SMP(2, 1, 4, 2, identifiers="neighborhood", level="node"))
    assert_same(case.call(model, index=grown(case, 4)), case.call(model))
    with pytest.raises(InputError, match="index is for 1 layers"):
        case.call(model, index=grown(case, 1))
    with pytest.raises(InputError, match="num_layers"):
        grown(case, 0)
