"""Corollary 1: functions of the graph from one node's context, whichever node is asked."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from smpgnn.paper.theory.corollary import (
    CONNECTED,
    ECCENTRICITY,
    PROGRAM,
    TRIANGLES,
    Contexts,
    equivariant,
    hops,
    invariant,
)
from smpgnn.paper.theory.small_graphs import adjacency_matrix, connected_graphs, decalin, renamed
from smpgnn.paper.theory.warm_up import distances


def test_every_node_answers_alike_and_truly() -> None:
    for graph in [*connected_graphs(5, 2), decalin(), nx.petersen_graph()]:
        contexts = Contexts.of(graph)
        truth = [float(nx.eccentricity(graph, i)) for i in range(len(graph))]
        count = sum(nx.triangles(graph).values()) / 3
        for answers in contexts.ask(ECCENTRICITY):
            assert answers.tolist() == truth
        for answers in contexts.ask(TRIANGLES):
            assert answers.tolist() == [count] * len(graph)
        assert equivariant(contexts.ask(ECCENTRICITY)).tolist() == truth
        assert invariant(contexts.ask(TRIANGLES)) == pytest.approx(count)
        assert invariant(contexts.ask(CONNECTED)) == 1


def test_renaming_renames_eccentricities_and_keeps_triangles() -> None:
    graph, names = nx.bull_graph(), torch.tensor([4, 2, 0, 3, 1])
    before, after = Contexts.of(graph), Contexts.of(renamed(graph, names))
    old, new = (equivariant(one.ask(ECCENTRICITY)) for one in (before, after))
    assert torch.equal(new[names], old)
    assert not torch.equal(new, old)
    assert invariant(after.ask(TRIANGLES)) == invariant(before.ask(TRIANGLES)) == 1


@pytest.mark.parametrize(
    "graph",
    [nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4)), nx.empty_graph(3),
     nx.disjoint_union(nx.path_graph(2), nx.path_graph(2)),
     nx.disjoint_union(nx.complete_graph(4), nx.empty_graph(1))],
)  # fmt: skip
def test_connectivity_of_graphs_in_parts(graph: nx.Graph) -> None:
    assert bool((Contexts.of(graph).ask(CONNECTED) == 0).all())


def test_parts_do_not_know_of_each_other() -> None:
    """The corollary is about connected graphs: here nodes disagree."""
    graph = nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4))
    counts = equivariant(Contexts.of(graph).ask(TRIANGLES))
    assert counts.tolist() == [1, 1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("graph", "layers"),
    [(nx.complete_graph(3), 1), (nx.complete_graph(5), 1), (nx.bull_graph(), 2)],
)
def test_too_few_layers_give_wrong_answers(graph: nx.Graph, layers: int) -> None:
    """With Δ layers, as the corollary states, K₃ counts no triangle; one more mends it."""
    count = sum(nx.triangles(graph).values()) / 3
    assert invariant(Contexts.of(graph, layers).ask(TRIANGLES)) != count
    assert invariant(Contexts.of(graph).ask(TRIANGLES)) == pytest.approx(count)


def test_hops_are_distances() -> None:
    graphs = [*connected_graphs(5), nx.disjoint_union(nx.path_graph(3), nx.path_graph(2))]
    for graph in graphs:
        assert torch.equal(hops(adjacency_matrix(graph)), distances(graph))


def test_the_program_runs(capsys: pytest.CaptureFixture[str]) -> None:
    PROGRAM.run()
    out = capsys.readouterr().out
    assert PROGRAM.name == "corollary"
    assert len(out.splitlines()) < 40
    assert max(len(line) for line in out.splitlines()) <= 100
