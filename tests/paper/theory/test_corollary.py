"""Corollary 1: functions of the graph from the context of any node."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from smpgnn.paper.theory.corollary import (
    ask,
    eccentricities,
    equivariant,
    invariant,
    is_connected,
    known_graphs,
    triangles,
)
from smpgnn.paper.theory.graphs import connected_graphs, decalin, renamed


def test_every_node_answers_alike_and_truly() -> None:
    for graph in [*connected_graphs(5, 2), decalin(), nx.petersen_graph()]:
        known = known_graphs(graph)
        truth = [float(nx.eccentricity(graph, i)) for i in range(len(graph))]
        count = sum(nx.triangles(graph).values()) / 3
        for answers in ask(known, eccentricities):
            assert answers.tolist() == truth
        for answers in ask(known, triangles):
            assert answers.tolist() == [count] * len(graph)
        assert equivariant(ask(known, eccentricities)).tolist() == truth
        assert invariant(ask(known, triangles)) == pytest.approx(count)
        assert invariant(ask(known, is_connected)) == 1


def test_renaming_renames_eccentricities_and_keeps_triangles() -> None:
    graph, names = nx.bull_graph(), torch.tensor([4, 2, 0, 3, 1])
    before, after = known_graphs(graph), known_graphs(renamed(graph, names))
    old, new = (equivariant(ask(known, eccentricities)) for known in (before, after))
    assert torch.equal(new[names], old)
    assert not torch.equal(new, old)
    assert invariant(ask(after, triangles)) == invariant(ask(before, triangles)) == 1


@pytest.mark.parametrize(
    "graph",
    [nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4)), nx.empty_graph(3),
     nx.disjoint_union(nx.path_graph(2), nx.path_graph(2)),
     nx.disjoint_union(nx.complete_graph(4), nx.empty_graph(1))],
)  # fmt: skip
def test_connectivity_of_graphs_in_parts(graph: nx.Graph) -> None:
    assert bool((ask(known_graphs(graph), is_connected) == 0).all())


def test_parts_do_not_know_of_each_other() -> None:
    """The corollary is about connected graphs: here nodes disagree."""
    graph = nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4))
    counts = equivariant(ask(known_graphs(graph), triangles))
    assert counts.tolist() == [1, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("graph", "layers"),
    [(nx.complete_graph(3), 1), (nx.complete_graph(5), 1), (nx.bull_graph(), 2)],
)
def test_too_few_layers_give_wrong_answers(graph: nx.Graph, layers: int) -> None:
    """With Δ layers, as the corollary states, K₃ counts no triangle; one more mends it."""
    count = sum(nx.triangles(graph).values()) / 3
    assert invariant(ask(known_graphs(graph, layers), triangles)) != count
    assert invariant(ask(known_graphs(graph), triangles)) == pytest.approx(count)
