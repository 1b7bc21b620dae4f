"""Theorem 2: what contexts hold after each layer, at which width, and what they tell apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from torch import Tensor

from smpgnn import InputError
from smpgnn.paper.theory.embedding import MARGIN, TOLERANCE
from smpgnn.paper.theory.graphs import (
    PAIRS,
    adjacency_matrix,
    connected_graphs,
    glycine,
    renamed,
    undirected,
)
from smpgnn.paper.theory.reconstruction import (
    channels_of,
    check,
    ground_truth,
    reconstruction,
    sorted_rows,
)
from smpgnn.paper.theory.three_steps import (
    DECIMALS,
    Channels,
    Decoded,
    decode,
    encode,
    square_root,
)
from smpgnn.paper.theory.warm_up import has_far_edge, receptive_fields
from smpgnn.testing import Graph

ROOT = Path(__file__).parents[3]


def slow(*values: int) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def attributed(graph: nx.Graph, c_x: int, c_y: int, seed: int = 0) -> Graph:
    """Random attributes of either sign, with repetitions and zeros among them."""
    generator = torch.Generator().manual_seed(seed)
    edges = undirected(graph)
    x = torch.randint(-2, 3, (len(graph), c_x), generator=generator).double() / 4
    half = torch.randn(graph.number_of_edges(), c_y, generator=generator, dtype=torch.float64)
    half[: len(half) // 2] = half[: len(half) // 2].sign()
    y = half.round(decimals=6).repeat_interleave(2, dim=0)  # undirected: the two directions
    return Graph(x, edges.edge_index, y, num_nodes=len(graph))


def rename(graph: Graph, names: Tensor) -> Graph:
    x = None if graph.x is None else torch.empty_like(graph.x).index_copy(0, names, graph.x)
    return Graph(x, names[graph.edge_index], graph.edge_attr, num_nodes=graph.size)


def final(graph: Graph, num_layers: int) -> Tensor:
    return reconstruction(graph, num_layers)[-1]


@pytest.mark.parametrize("n", [2, 3, 4, 5, slow(6)])
def test_contexts_hold_the_receptive_field(n: int) -> None:
    """Orthogonal iff in E_i⁽ˡ⁾, at every node after every layer, with 2·d_max of the graph."""
    for graph in connected_graphs(n, n):
        contexts = check(graph, nx.diameter(graph) + 1)
        assert contexts.shape == (n, n, 2 * max(degree for _, degree in graph.degree))


def test_wrong_contexts_are_noticed() -> None:
    with pytest.raises(AssertionError, match="was not reconstructed"):
        check(nx.complete_graph(3), 1)


@pytest.mark.parametrize(("n", "count"), [(4, 6), (5, 21), slow(6, 112), slow(7, 853)])
def test_every_graph_has_its_own_contexts(n: int, count: int) -> None:
    """Not isomorphic: different at any two nodes. Isomorphic: equal at all, up to row order."""
    generator = torch.Generator().manual_seed(0)
    graphs = connected_graphs(n, n)
    seen = set()
    for graph in graphs:
        depth = nx.diameter(graph) + 1
        contexts = check(graph, depth, n - 1)
        first = sorted_rows(contexts[0])
        assert bool((contexts == contexts[0]).all())
        copy = renamed(graph, torch.randperm(n, generator=generator))
        others = reconstruction(undirected(copy), depth, n - 1)[-1]
        assert torch.equal(sorted_rows(others[3]), first)
        seen.add(first.numpy().tobytes())
    assert len(seen) == len(graphs) == count


@pytest.mark.parametrize("name", list(PAIRS))
def test_pairs_that_message_passing_cannot_tell_apart(name: str) -> None:
    graphs = [make() for make in PAIRS[name]]
    depth = max(nx.diameter(graph) for graph in graphs) + 1
    one, two = (check(graph, depth) for graph in graphs)
    assert not torch.equal(sorted_rows(one[0]), sorted_rows(two[0]))
    generator = torch.Generator().manual_seed(0)
    copy = renamed(graphs[0], torch.randperm(len(graphs[0]), generator=generator))
    assert torch.equal(sorted_rows(final(undirected(copy), depth)[1]), sorted_rows(one[0]))


def test_too_few_layers_leave_edges_out() -> None:
    for graph in connected_graphs(5, 3):
        edges, diameter = undirected(graph), nx.diameter(graph)
        a = adjacency_matrix(graph)
        at_diameter = decode(final(edges, diameter), channels_of(edges)).a
        assert bool((at_diameter == a).all()) != has_far_edge(graph)
        if diameter > 1:
            before = decode(final(edges, diameter - 1), channels_of(edges)).a
            assert not bool((before == a).all())


@pytest.mark.parametrize(("c_x", "c_y"), [(1, 0), (3, 0), (0, 1), (2, 2)])
def test_attributes_are_recovered(c_x: int, c_y: int) -> None:
    for seed, graph in enumerate([nx.bull_graph(), nx.petersen_graph(), nx.path_graph(5),
                                  nx.circular_ladder_graph(3)]):  # fmt: skip
        full = attributed(graph, c_x, c_y, seed)
        full = Graph(full.x if c_x else None, full.edge_index, full.edge_attr if c_y else None,
                     num_nodes=len(graph))  # fmt: skip
        n, degree = len(graph), max(d for _, d in graph.degree)
        contexts = final(full, nx.diameter(graph) + 1)
        assert contexts.shape == (n, n, 2 * degree + c_x + n * c_y)
        found, truth = decode(contexts, channels_of(full)), ground_truth(full)
        assert all(found.at(i).equals(truth) for i in range(n))


def test_attributes_reach_as_far_as_layers() -> None:
    """On a path, node 0 knows the attributes of l further nodes after l layers, and no other."""
    graph = attributed(nx.path_graph(6), 1, 1, seed=3)
    x = torch.tensor([[1.0], [-2.0], [3.0], [-4.0], [5.0], [-6.0]], dtype=torch.float64)
    graph = Graph(x, graph.edge_index, graph.edge_attr, num_nodes=6)
    truth = ground_truth(graph)
    for hops, contexts in enumerate(reconstruction(graph, 5), start=1):
        found = decode(contexts, channels_of(graph)).at(0)
        assert torch.equal(found.x[: hops + 1], x[: hops + 1])
        assert not found.x[hops + 1 :].any()
        known = hops + 1
        assert torch.equal(found.y[:, :known, :known], truth.y[:, :known, :known])
        assert not found.y[:, known:].any()


def test_a_node_without_neighbours_keeps_its_own_attributes() -> None:
    edges = undirected(nx.disjoint_union(nx.path_graph(2), nx.empty_graph(1)))
    x = torch.tensor([[1.0], [2.0], [-3.0]], dtype=torch.float64)
    contexts = final(Graph(x, edges.edge_index, num_nodes=3), 3)
    found = decode(contexts, Channels(max_degree=1, x=1)).x.squeeze(2)
    assert found.tolist() == [[1, 2, 0], [1, 2, 0], [0, 0, -3]]


def test_attributes_tell_equal_structures_apart() -> None:
    """The same bonds with one charge moved: other contexts; renamed: the same rows."""
    graph = glycine()
    contexts = final(graph, 4)
    assert graph.x is not None
    moved = graph.x.clone()
    moved[3], moved[4] = graph.x[4], graph.x[3]
    other = Graph(moved, graph.edge_index, graph.edge_attr)
    assert not torch.equal(sorted_rows(final(other, 4)[0]), sorted_rows(contexts[0]))
    names = torch.tensor([4, 2, 0, 1, 3])
    copy = final(rename(graph, names), 4)
    assert torch.equal(copy[names][:, names], contexts)


def test_contexts_of_symmetric_attributed_graphs_match_up_to_row_order() -> None:
    graph = nx.cycle_graph(6)
    y = torch.tensor([1.0, -2.0], dtype=torch.float64)
    kinds = torch.tensor([(a + b) % 4 // 2 for a, b in graph.edges])
    edges = undirected(graph)
    full = Graph(None, edges.edge_index, y[kinds].repeat_interleave(2).unsqueeze(1))
    names = torch.tensor([3, 0, 5, 1, 4, 2])
    one, two = final(full, 4), final(rename(full, names), 4)
    assert torch.equal(sorted_rows(one[0]), sorted_rows(two[5]))


def asymmetric(graph: nx.Graph) -> bool:
    matcher = nx.algorithms.isomorphism.GraphMatcher(graph, graph)
    return sum(1 for _ in matcher.isomorphisms_iter()) == 1


def test_contexts_of_asymmetric_graphs_follow_every_renaming() -> None:
    """Without automorphisms the network is equivariant to the letter."""
    graphs = [graph for graph in connected_graphs(6, 6) if asymmetric(graph)]
    assert len(graphs) == 8
    for graph in graphs:
        before = final(undirected(graph), 4)
        for k in range(5):
            names = torch.arange(6)
            names[[k, k + 1]] = names[[k + 1, k]]
            after = final(undirected(renamed(graph, names)), 4)
            assert torch.equal(after[names][:, names], before)


def test_no_equivariant_choice_exists_on_the_triangle() -> None:
    """1 and 2 can be exchanged without changing the graph or node 0, yet must be orthogonal."""
    graph, names = nx.complete_graph(3), torch.tensor([0, 2, 1])
    before = final(undirected(graph), 2)
    after = final(undirected(renamed(graph, names)), 2)
    assert torch.equal(before, after)  # the same graph, number by number
    assert not torch.equal(after[names][:, names], before)
    assert float(before[0, 1] @ before[0, 2]) == pytest.approx(0, abs=1e-12)


def test_the_first_step_of_the_proof_has_no_square_root() -> None:
    """11ᵀ − A_i⁽¹⁾ is indefinite wherever some node lies beyond the neighbours of i."""
    for graph in connected_graphs(5, 3):
        for i, star in enumerate(receptive_fields(graph, 1)[0]):
            least = float(torch.linalg.eigvalsh(1 - star).min())
            assert (least < -1e-9) == (nx.eccentricity(graph, i) > 1)


def test_square_roots() -> None:
    matrix = torch.tensor([[0.0, -3, 0], [-3, 0, 2], [0, 2, 0]], dtype=torch.float64)
    root = square_root(matrix)
    off = 1 - torch.eye(3, dtype=torch.float64)
    torch.testing.assert_close(root @ root.T * off, matrix)
    shift = (root @ root.T).diagonal()
    torch.testing.assert_close(shift, shift[0].expand(3))
    assert float(shift[0]) == pytest.approx(13**0.5)  # E + λI, not E: λ = −(least eigenvalue)


def test_decode_undoes_encode_for_parts_of_graphs() -> None:
    channels = Channels(max_degree=3, x=1, y=1)
    truth = ground_truth(attributed(nx.disjoint_union(nx.cycle_graph(4), nx.empty_graph(3)), 1, 1))
    again = decode(encode(truth, channels), channels)
    assert again.equals(truth)
    assert not Decoded(again.a, again.x + 1, again.y).equals(truth)


@pytest.mark.parametrize(
    ("edge_index", "match"),
    [
        ([[0], [1]], "simple"),
        ([[0, 1, 0], [1, 0, 0]], "simple"),
        ([[0, 1, 0], [1, 0, 1]], "simple"),
    ],
)
def test_graphs_that_are_not_simple_are_refused(edge_index: list[list[int]], match: str) -> None:
    with pytest.raises(InputError, match=match):
        reconstruction(Graph(None, torch.tensor(edge_index), num_nodes=2), 1)


def test_bad_arguments_are_refused() -> None:
    pair = torch.tensor([[0, 1], [1, 0]])
    with pytest.raises(InputError, match="same in both directions"):
        reconstruction(Graph(None, pair, torch.tensor([[1.0], [2.0]])), 1)
    with pytest.raises(InputError, match="max_degree 2 is below"):
        reconstruction(undirected(nx.complete_graph(4)), 2, max_degree=2)
    with pytest.raises(InputError, match="num_layers"):
        reconstruction(Graph(None, pair), 0)
    with pytest.raises(InputError, match="no node"):
        reconstruction(Graph(None, torch.empty(2, 0, dtype=torch.long)), 1)


def test_the_page_says_what_is_found() -> None:
    page = (ROOT / "docs" / "theory" / "reconstruction.md").read_text(encoding="utf-8")
    page = " ".join(page.split())
    channels = channels_of(glycine())
    assert f"with {channels.width(5)} channels ({'2·3 + 2 + 5·2'})" in page
    assert (channels.max_degree, channels.x, channels.y) == (3, 2, 2)
    assert f"below {TOLERANCE:.0e} count as zero".replace("e-0", "e-") in page
    assert f"exceed {MARGIN:.0e}".replace("e-0", "e-") in page
    assert f"differ by {MARGIN / 2:.0e}".replace("e-0", "e-") in page
    assert f"rounded to {DECIMALS} decimals" in page
