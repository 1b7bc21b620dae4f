"""Relevant cycles: against their definition, and against the minimum cycle basis of networkx."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smpgnn.baselines.rings import relevant_cycles

Pairs = list[tuple[int, int]]


def _sorted_pairs(graph: nx.Graph) -> Pairs:
    return sorted((min(a, b), max(a, b)) for a, b in graph.edges)


def _span(cycles: list[frozenset]) -> set[frozenset]:
    """All sums (symmetric differences) of these cycles."""
    sums = {frozenset()}
    for cycle in cycles:
        if cycle not in sums:
            sums |= {total ^ cycle for total in sums}
    return sums


@given(st.sets(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=11))
def test_are_the_cycles_that_are_no_sum_of_shorter_ones(edges: set[tuple[int, int]]) -> None:
    pairs = sorted({(min(a, b), max(a, b)) for a, b in edges if a != b})
    graph = nx.Graph(pairs)
    simple = [
        frozenset((min(a, b), max(a, b)) for a, b in pairwise([*nodes, nodes[0]]))
        for nodes in nx.simple_cycles(graph)
    ]
    expected = {
        cycle for cycle in simple if cycle not in _span([c for c in simple if len(c) < len(cycle)])
    }
    found = relevant_cycles(pairs)
    assert len(found) == len(set(found))
    assert set(found) == expected


@pytest.mark.parametrize(
    ("graph", "lengths"),
    [
        (nx.path_graph(5), []),
        (nx.cycle_graph(9), [9]),
        (nx.hypercube_graph(3), [4] * 6),  # one more than a basis has
        (nx.complete_graph(4), [3] * 4),
        (nx.ladder_graph(4), [4] * 3),
        (nx.grid_2d_graph(4, 5), [4] * 12),
        (nx.petersen_graph(), [5] * 12),
        (nx.complete_bipartite_graph(2, 3), [4] * 3),
        (nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(5)), [3, 5]),
        (nx.dodecahedral_graph(), [5] * 12),
    ],
    ids=str,
)
def test_of_known_graphs(graph: nx.Graph, lengths: list[int]) -> None:
    graph = nx.convert_node_labels_to_integers(graph)
    found = relevant_cycles(_sorted_pairs(graph))
    assert [len(cycle) for cycle in found] == lengths
    basis = [len(cycle) for cycle in nx.minimum_cycle_basis(graph)]
    assert set(basis) == set(lengths)
    assert len(basis) <= len(lengths)
