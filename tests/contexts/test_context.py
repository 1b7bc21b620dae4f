"""Contexts: the initial one, its sums, and the message graph on rows."""

from __future__ import annotations

import oracle
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    EXACT,
    ODD,
    SCHEMES,
    Structure,
    assert_same,
    batches,
    make_case,
    path,
    seeds,
    to_dense,
    to_rows,
)

from smpgnn import ContextIndex, InputError, LocalContext


@pytest.mark.parametrize("identifiers", SCHEMES)
@given(graphs=batches(), channels=st.integers(0, 2), seed=seeds())
def test_initial_contexts_hold_one_and_x_in_the_own_row(
    identifiers: str, graphs: list[Structure], channels: int, seed: int
) -> None:
    case = make_case(graphs, channels, seed=seed)
    index = case.index(identifiers, 2)
    if identifiers == "coloring":
        case = case.with_identifiers(index.table.identifier)
    context = index.initial(case.x, torch.float64)
    for one, graph in zip(to_dense(context, index), case.graphs, strict=True):
        assert_same(one, oracle.initial(graph).reshape(one.shape), None, case.leaves())
    again = context.with_rows(context.rows)  # of which nothing is known yet
    found = [context.own(), context.mean()], [again.own(), again.mean()]
    assert_same(*found, None, case.leaves())


@pytest.mark.parametrize("identifiers", EXACT)
@given(graphs=batches(max_nodes=8), seed=seeds())
def test_poolings_of_a_context_are_those_of_its_rows(
    identifiers: str, graphs: list[Structure], seed: int
) -> None:
    """Rows of a neighbourhood scheme count as often as they stand for a node."""
    case = make_case(graphs)
    index = case.index(identifiers)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(index.num_rows, 2, generator=generator, dtype=torch.float64).requires_grad_()
    context = LocalContext(rows, index.layout)
    dense = [u for us in to_dense(context, index) for u in us]
    expected_sum = oracle.stack([u.sum(0) for u in dense], rows, 2)
    expected_mean = oracle.stack([u.sum(0) / u.size(0) for u in dense], rows, 2)
    expected_max = oracle.stack([u.amax(0) for u in dense], rows, 2)
    assert_same(context.sum(), expected_sum, None, [rows])
    assert_same(context.mean(), expected_mean, None, [rows])
    assert_same(context.max(), expected_max, None, [rows])
    assert_same(context.own(), rows[index.table.own], None, [rows])


def test_expand_and_add_own_by_hand() -> None:
    index = make_case([path(2), ODD["single"]]).index("onehot")
    values = torch.tensor([[1.0], [2.0], [3.0]])
    context = LocalContext(torch.zeros(5, 1), index.layout)
    assert context.expand(values).flatten().tolist() == [1, 1, 2, 2, 3]
    assert context.add_own(values).rows.flatten().tolist() == [1, 0, 0, 2, 3]


def test_lift_on_a_path_by_hand() -> None:
    """Row (i, j) receives from (k, j): with rows numbered 3 i + j, b receives from a and c."""
    lift = make_case([path(3)]).index("onehot").lift
    pairs = list(zip(lift.target.tolist(), lift.source.tolist(), strict=True))
    assert sorted(pairs) == sorted(
        [(j, 3 + j) for j in range(3)]
        + [(3 + j, j) for j in range(3)]
        + [(3 + j, 6 + j) for j in range(3)]
        + [(6 + j, 3 + j) for j in range(3)]
    )
    assert lift.scale.tolist() == [0.75] * 9


@given(graphs=batches(), seed=seeds())
def test_lift_and_edges_agree(graphs: list[Structure], seed: int) -> None:
    """The short way and the general way know the same pairs of rows."""
    index = make_case(graphs).index("neighborhood")
    _, receiver, sender = index.by_edge
    one = zip(index.lift.target.tolist(), index.lift.source.tolist(), strict=True)
    other = zip(receiver.tolist(), sender.tolist(), strict=True)
    assert sorted(one) == sorted(other)


@given(graphs=batches(), seed=seeds())
def test_graph_sums_and_means_are_zero_for_empty_graphs(graphs: list[Structure], seed: int) -> None:
    case = make_case(graphs, 2, seed=seed)
    index = case.index("onehot")
    sums = torch.stack([g.x.sum(0) for g in case.graphs])
    means = torch.stack([g.x.sum(0) / max(1, g.num_nodes) for g in case.graphs])
    assert_same(index.graphs.sum(case.x), sums, None, [case.x])
    assert_same(index.graphs.mean(case.x), means, None, [case.x])


def test_contexts_by_edge_have_the_rows_of_the_receiver() -> None:
    index = make_case([path(3)]).index("onehot")
    layout, receiver, sender = index.by_edge
    first = slice(0, 3)  # the edge 0 → 1
    assert receiver[first].tolist() == [3, 4, 5]
    assert sender[first].tolist() == [0, 1, 2]
    assert layout.own[0] == 1  # in which the receiver describes itself


def test_rows_of_another_number_are_refused() -> None:
    index = make_case([path(3)]).index("onehot")
    with pytest.raises(InputError, match="rows"):
        LocalContext(torch.zeros(8, 2), index.layout)
    with pytest.raises(InputError, match="rows"):
        LocalContext(torch.zeros(9), index.layout)


def test_node_rows_are_contexts_of_one_row() -> None:
    case = make_case([path(3)])
    index = ContextIndex.of_nodes(case.topology)
    context = index.initial(case.x, torch.float64)
    ones = torch.ones(3, 1, dtype=torch.float64)
    assert torch.equal(context.rows, torch.cat([ones, case.x], dim=1))
    for pooled in (context.own(), context.sum(), context.mean(), context.max()):
        assert torch.equal(pooled, context.rows)


def test_to_rows_and_to_dense_are_inverse() -> None:
    """Of the test's own helpers: what other tests rely on."""
    index = make_case([path(3), ODD["empty"], path(2)]).index("onehot")
    rows = torch.randn(index.num_rows, 2)
    dense = to_dense(LocalContext(rows, index.layout), index)
    assert torch.equal(to_rows(dense), rows)
