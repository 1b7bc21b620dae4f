"""Identifier schemes and their tables of rows: which row stands for whom."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import SCHEMES, Structure, batches, make_case, path, seeds

from smpgnn import ContextIndex, InputError
from smpgnn.contexts.identifiers import identifier_scheme, onehot_identifiers
from smpgnn.contexts.rows import BallRows, IdentifierRows, NodeRows

Meaning = tuple[int, frozenset[int]]


def meaning(index: ContextIndex) -> list[Meaning]:
    """(owner, the nodes that it stands for) of every row; no node for an unseen row."""
    table, count = index.table, index.topology.num_nodes
    graph, owners = index.topology.batch.tolist(), table.owner.tolist()
    if isinstance(table, BallRows):
        described = table.described.tolist()
        return [
            (i, frozenset([j] if j < count else [])) for i, j in zip(owners, described, strict=True)
        ]
    assert isinstance(table, IdentifierRows)
    identifier = table.identifier.tolist()
    return [
        (
            i,
            frozenset(
                j
                for j in range(count)
                if graph[j] == graph[i] and identifier[j] == row - int(table.ptr[i])
            ),
        )
        for row, i in enumerate(owners)
    ]


def test_onehot_identifiers_are_indices_within_the_graph() -> None:
    topology = make_case([path(3), (0, ()), path(2)]).topology
    assert onehot_identifiers(topology).tolist() == [0, 1, 2, 0, 1]


def test_onehot_contexts_have_a_row_for_every_node() -> None:
    table = make_case([path(3), (0, ()), path(2)]).index("onehot").table
    assert table.ptr.tolist() == [0, 3, 6, 9, 11, 13]
    assert table.own.tolist() == [0, 4, 8, 9, 12]
    assert table.num_rows == 13
    assert table.radius is None


@pytest.mark.parametrize("identifiers", SCHEMES)
@given(graphs=batches(), depth=st.integers(1, 3))
def test_each_node_has_an_own_row_in_its_own_context(
    identifiers: str, graphs: list[Structure], depth: int
) -> None:
    case = make_case(graphs)
    table = case.index(identifiers, depth).table
    assert table.owner[table.own].tolist() == list(range(case.num_nodes))
    assert table.ptr[-1] == table.num_rows == table.owner.numel()


@pytest.mark.parametrize("identifiers", SCHEMES)
@given(graphs=batches(), depth=st.integers(1, 3))
def test_counterparts_stand_for_the_same(
    identifiers: str, graphs: list[Structure], depth: int
) -> None:
    """For every edge: the sender's row of the same node, else the sender's unseen row."""
    case = make_case(graphs)
    index = case.index(identifiers, depth)
    names = meaning(index)
    _, receiver_rows, sender_rows = index.by_edge
    for row, other in zip(receiver_rows.tolist(), sender_rows.tolist(), strict=True):
        sender, nodes = names[other]
        if nodes != names[row][1]:
            assert not nodes
            assert (sender, names[row][1]) not in names


@pytest.mark.parametrize("identifiers", SCHEMES)
@given(graphs=batches(), depth=st.integers(1, 2), seed=seeds())
def test_permute_moves_each_row_with_what_it_stands_for(
    identifiers: str, graphs: list[Structure], depth: int, seed: int
) -> None:
    case = make_case(graphs)
    index = case.index(identifiers, depth)
    generator = torch.Generator().manual_seed(seed)
    start = 0
    parts = []
    for graph in case.graphs:
        parts.append(torch.randperm(graph.num_nodes, generator=generator) + start)
        start += graph.num_nodes
    permutation = torch.cat(parts)
    renamed, place = index.permute(permutation)
    assert sorted(place.tolist()) == list(range(index.num_rows))
    before, after = meaning(index), meaning(renamed)
    for row, (owner, nodes) in enumerate(before):
        moved = frozenset(int(permutation[j]) for j in nodes)
        assert after[place[row]] == (int(permutation[owner]), moved)
    assert torch.equal(renamed.table.own[permutation], place[index.table.own])
    if index.table.multiplicity is not None:
        assert torch.equal(renamed.table.multiplicity[place], index.table.multiplicity)
    assert renamed.table.radius == index.table.radius


def test_node_rows_are_the_nodes() -> None:
    topology = make_case([path(3), path(2)]).topology
    table = NodeRows.build(topology)
    assert table.own.tolist() == [0, 1, 2, 3, 4]
    permutation = torch.tensor([2, 0, 1, 4, 3])
    assert torch.equal(table.permute(permutation, topology)[1], permutation)


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(InputError, match="identifiers must be one of onehot, coloring"):
        identifier_scheme("random")
