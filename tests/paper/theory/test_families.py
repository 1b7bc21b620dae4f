"""Families of hard pairs: sizes, degrees, and that no pair is isomorphic."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from smpgnn.errors import InputError
from smpgnn.paper.theory.families import FAMILIES, SKIPS, atlas, cfi, cfi_graph, csl, regular
from smpgnn.paper.theory.graphs import rook, shrikhande, topology
from smpgnn.paper.theory.ladder import color_refinement
from smpgnn.paper.theory.refinement import classes


@pytest.mark.parametrize("name", FAMILIES)
def test_pairs_are_equal_for_color_refinement(name: str) -> None:
    graphs = FAMILIES[name]()
    kind = classes(graphs.graphs, color_refinement)
    assert graphs.pairs
    assert all(kind[a] == kind[b] for a, b in graphs.pairs)
    assert all(set(graph) == set(range(len(graph))) for graph in graphs.graphs)


@pytest.mark.parametrize("name", ["regular", "cfi", "strongly-regular", "atlas"])
def test_no_pair_is_isomorphic(name: str) -> None:
    graphs = FAMILIES[name]()
    assert not any(
        nx.vf2pp_is_isomorphic(graphs.graphs[a], graphs.graphs[b]) for a, b in graphs.pairs
    )


def test_regular_pairs_share_size_and_degree() -> None:
    graphs = regular()
    for a, b in graphs.pairs:
        degrees = [set(dict(graphs.graphs[k].degree).values()) for k in (a, b)]
        assert degrees[0] == degrees[1]
        assert len(degrees[0]) == 1


def test_skip_links_are_the_published_ones() -> None:
    graphs = csl()
    assert len(graphs.graphs) == len(SKIPS) == 10
    assert len(graphs.pairs) == 45
    for skip, graph in zip(SKIPS, graphs.graphs, strict=True):
        assert graph.number_of_nodes() == 41
        assert set(dict(graph.degree).values()) == {4}
        assert graph.has_edge(0, 1)
        assert graph.has_edge(0, skip)
    # Two skips s, t of a prime ring give isomorphic graphs iff t = ±s or s t = ±1 modulo n.
    for a, b in graphs.pairs:
        assert SKIPS[a] * SKIPS[b] % 41 not in (1, 40)


def test_cfi_of_a_ring_is_two_rings_or_one_of_twice_the_size() -> None:
    base = nx.cycle_graph(5)
    straight, twisted = (cfi_graph(base, twisted=turn) for turn in (False, True))
    assert sorted(map(len, nx.connected_components(straight))) == [5, 5]
    assert nx.is_isomorphic(twisted, nx.cycle_graph(10))


def test_cfi_of_the_complete_graph_is_the_strongly_regular_pair() -> None:
    found = {cfi_graph(nx.complete_graph(4), twisted=turn): turn for turn in (False, True)}
    known = [rook(), shrikhande()]
    assert all(sum(nx.is_isomorphic(graph, other) for other in known) == 1 for graph in found)


def test_where_the_twist_is_does_not_matter() -> None:
    base = nx.ladder_graph(3)
    turned = nx.relabel_nodes(base, {node: (node + 1) % 6 for node in base})
    first = cfi_graph(base, twisted=True)
    assert nx.is_isomorphic(first, cfi_graph(nx.Graph(turned), twisted=True))
    other = nx.Graph()
    other.add_nodes_from([1, 0, 2, 3, 4, 5])  # the first node is another one
    other.add_edges_from(base.edges)
    assert nx.is_isomorphic(first, cfi_graph(other, twisted=True))


def test_cfi_family_has_bases_of_both_treewidths() -> None:
    assert len(cfi().pairs) == 10
    assert max(len(graph) for graph in cfi().graphs) <= 40


def test_base_must_be_connected() -> None:
    with pytest.raises(InputError, match="base must be a connected graph"):
        cfi_graph(nx.empty_graph(2), twisted=True)


def test_strongly_regular_graphs() -> None:
    for graph in (rook(), shrikhande()):
        assert nx.is_strongly_regular(graph)
        assert (len(graph), graph.degree[0]) == (16, 6)
        common = {len(set(graph[a]) & set(graph[b])) for a in graph for b in graph if a != b}
        assert common == {2}


def test_atlas_finds_the_smallest_pair() -> None:
    graphs = atlas()
    smallest = min(len(graphs.graphs[a]) for a, _ in graphs.pairs)
    assert smallest == 6
    hexagon = [
        (a, b)
        for a, b in graphs.pairs
        if any(nx.is_isomorphic(graphs.graphs[k], nx.cycle_graph(6)) for k in (a, b))
    ]
    assert len(hexagon) == 1


def test_topology_of_several_graphs() -> None:
    batch = topology([nx.path_graph(2), nx.empty_graph(1), nx.cycle_graph(3)])
    assert batch.num_graphs == 3
    assert batch.batch.tolist() == [0, 0, 1, 2, 2, 2]
    assert batch.num_edges == 2 + 0 + 6
    assert torch.equal(batch.degree, torch.tensor([1, 1, 0, 2, 2, 2]))
