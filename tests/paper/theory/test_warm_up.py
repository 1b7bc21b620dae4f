"""The warm-up: the recursion is A_i⁽ˡ⁾, on n×n contexts, and how many layers make it A."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import pytest
import torch

from smpgnn import ContextIndex, InputError, LocalContext, Topology
from smpgnn.paper.theory.graphs import (
    adjacency_matrix,
    connected_graphs,
    distances,
    renamed,
    undirected,
)
from smpgnn.paper.theory.warm_up import (
    MaxLayer,
    StarLayer,
    has_far_edge,
    receptive_fields,
    warm_up,
)
from smpgnn.testing import assert_equivariant

ROOT = Path(__file__).parents[3]


def test_a_path_by_hand() -> None:
    """0 – 1 – 2, as node 0 sees it: its own edge, then both."""
    first, second = warm_up([nx.path_graph(3)], 2)[0, :, 0].tolist()
    assert first == [[0, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert second == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]


def test_the_maximum_is_over_the_node_and_its_neighbours() -> None:
    """On the path 0 – 1 – 2 with other contexts than those of the lemma."""
    edges = undirected(nx.path_graph(3)).edge_index
    index = ContextIndex.build(Topology.checked(edges), "onehot", 1)
    rows = torch.tensor([[5.0], [0], [0], [0], [4], [0], [0], [0], [3]])
    found = MaxLayer()(LocalContext(rows, index.layout), index).rows.view(3, 3)
    assert found.tolist() == [[5, 4, 0], [5, 4, 3], [0, 4, 3]]


def test_distances_by_hand() -> None:
    """The ring of five: the edge opposite node 0 has both ends at distance 2."""
    fields = receptive_fields(nx.cycle_graph(5), 3)[:, 0]
    assert [int(field.sum()) // 2 for field in fields] == [2, 4, 5]
    assert fields[1][2, 3] == 0
    assert distances(adjacency_matrix(nx.cycle_graph(5)))[0].tolist() == [0, 1, 2, 2, 1]


@pytest.mark.parametrize("n", range(2, 7))
def test_the_recursion_is_the_receptive_field(n: int) -> None:
    graphs = connected_graphs(n, n)
    depth = max(nx.diameter(graph) for graph in graphs) + 1
    found = warm_up(graphs, depth)
    for graph, contexts in zip(graphs, found, strict=True):
        assert torch.equal(contexts, receptive_fields(graph, depth))
        diameter, a = nx.diameter(graph), adjacency_matrix(graph)
        assert bool((contexts[diameter - 1] == a).all()) != has_far_edge(graph)
        assert bool((contexts[diameter] == a).all())


def test_one_layer_less_is_too_few() -> None:
    """Without the last layer some node misses an edge, on every graph of diameter 2 or more."""
    for graph in connected_graphs(5, 3):
        diameter = nx.diameter(graph)
        if diameter > 1:
            contexts = warm_up([graph], diameter - 1)[0, -1]
            assert not bool((contexts == adjacency_matrix(graph)).all())


def test_trees_and_other_bipartite_graphs_need_the_diameter_only() -> None:
    for graph in connected_graphs(6, 2):
        if nx.is_bipartite(graph):
            assert not has_far_edge(graph)
    assert has_far_edge(nx.complete_graph(3))
    assert has_far_edge(nx.cycle_graph(7))


def test_matrices_permute_on_both_sides() -> None:
    """U_i is renamed as ΠᵀUΠ: rows and columns. As a context with rows alone it is not."""
    graph, names = nx.bull_graph(), torch.tensor([3, 0, 4, 1, 2])
    before = warm_up([graph], 3)[0]
    after = warm_up([renamed(graph, names)], 3)[0]
    assert torch.equal(after[:, names][:, :, names][:, :, :, names], before)
    assert not torch.equal(after[:, names][:, :, names], before)


def test_the_layers_are_equivariant_in_their_rows() -> None:
    """What breaks is the input: columns that are named after nodes."""
    edges = undirected(nx.bull_graph())
    for layer in (StarLayer(), MaxLayer()):
        assert_equivariant(layer, None, edges.edge_index, channels=5)


def test_graphs_of_different_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="same number of nodes"):
        warm_up([nx.path_graph(3), nx.path_graph(4)], 2)


def test_the_page_says_what_is_found() -> None:
    graphs = connected_graphs(7, 2)
    far = sum(has_far_edge(graph) for graph in graphs)
    page = (ROOT / "docs" / "theory" / "warm-up.md").read_text(encoding="utf-8")
    assert f"On {far} of the {len(graphs)} graphs" in page
    assert f"all {len(graphs)} connected graphs" in page
