"""The embedding lemma: orthogonal exactly on edges in 2·d_max dimensions; canonical orders."""

from __future__ import annotations

import networkx as nx
import pytest
import torch

from smpgnn import InputError
from smpgnn.paper.theory.canonical import canonical_order
from smpgnn.paper.theory.embedding import (
    MARGIN,
    TOLERANCE,
    adjacency_of,
    embedding,
    margins,
    width_of,
)
from smpgnn.paper.theory.graphs import (
    adjacency_matrix,
    connected_graphs,
    decalin,
    renamed,
    rook,
    shrikhande,
)


def canonical(graph: nx.Graph) -> torch.Tensor:
    a = adjacency_matrix(graph).long()
    order = canonical_order(a)
    assert sorted(order) == list(range(len(graph)))
    return a[order][:, order]


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("n", [2, 3, 4, 5, pytest.param(6, marks=pytest.mark.slow)])
def test_all_small_graphs(seed: int, n: int) -> None:
    for graph in connected_graphs(n, n):
        a = adjacency_matrix(graph)
        vectors = embedding(a, seed=seed)
        assert vectors.shape == (len(graph), 2 * max(d for _, d in graph.degree))
        torch.testing.assert_close(vectors.norm(dim=1), torch.ones(len(a), dtype=a.dtype))
        on, off = margins(vectors, a)
        assert on < 1e-13 < TOLERANCE < MARGIN < off
        assert torch.equal(adjacency_of(vectors), a)


@pytest.mark.parametrize(
    "graph",
    [rook(), shrikhande(), decalin(), nx.petersen_graph(), nx.star_graph(19),
     nx.random_regular_graph(4, 40, seed=0), nx.random_labeled_tree(40, seed=0),
     nx.disjoint_union(nx.path_graph(2), nx.path_graph(2)), nx.empty_graph(3)],
)  # fmt: skip
def test_larger_and_parted_graphs(graph: nx.Graph) -> None:
    a = adjacency_matrix(graph)
    assert torch.equal(adjacency_of(embedding(a)), a)


def test_same_matrix_same_vectors() -> None:
    a = adjacency_matrix(decalin())
    assert torch.equal(embedding(a), embedding(a))
    assert not torch.equal(embedding(a), embedding(a, seed=1))


def test_a_larger_width_does_too() -> None:
    a = adjacency_matrix(nx.cycle_graph(6))
    assert width_of(a) == 4
    assert torch.equal(adjacency_of(embedding(a, 9)), a)


@pytest.mark.parametrize(
    ("graph", "width"),
    [(nx.complete_graph(4), 3), (nx.complete_graph(6), 5), (nx.path_graph(4), 2)],
)
def test_too_small_a_width_is_refused(graph: nx.Graph, width: int) -> None:
    """Kₙ needs n dimensions; in the plane 0 ⟂ 1 ⟂ 2 ⟂ 3 makes 0 ⟂ 3."""
    with pytest.raises(InputError, match=f"width {width} gave no embedding"):
        embedding(adjacency_matrix(graph), width)


def test_too_many_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the inner products of the leaves of a star always come out too small."""
    monkeypatch.setattr("smpgnn.paper.theory.embedding._ATTEMPTS", 10)
    with pytest.raises(InputError, match="take a smaller graph"):
        embedding(adjacency_matrix(nx.star_graph(119)))


def test_a_complete_graph_needs_no_more_than_its_nodes() -> None:
    """2·d_max suffices for all graphs of a degree, and is more than some need."""
    a = adjacency_matrix(nx.complete_graph(5))
    assert torch.equal(adjacency_of(embedding(a, 5)), a)


def test_margins_see_a_wrong_vector() -> None:
    a = adjacency_matrix(nx.cycle_graph(5))
    vectors = embedding(a)
    vectors[0] = vectors[2]
    assert not torch.equal(adjacency_of(vectors), a)
    assert margins(vectors, a)[0] > TOLERANCE or margins(vectors, a)[1] < MARGIN


@pytest.mark.parametrize("matrix", [[[0, 1], [0, 0]], [[1, 1], [1, 0]]])
def test_what_is_no_simple_graph_is_refused(matrix: list[list[float]]) -> None:
    with pytest.raises(InputError, match="symmetric matrix with zero diagonal"):
        embedding(torch.tensor(matrix))


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6, pytest.param(7, marks=pytest.mark.slow)])
def test_canonical_orders_tell_isomorphism(n: int) -> None:
    generator = torch.Generator().manual_seed(0)
    graphs = connected_graphs(n, n)
    found = [canonical(graph) for graph in graphs]
    assert len({matrix.numpy().tobytes() for matrix in found}) == len(graphs)
    for graph, matrix in zip(graphs, found, strict=True):
        copy = renamed(graph, torch.randperm(n, generator=generator))
        assert torch.equal(canonical(copy), matrix)


@pytest.mark.parametrize(
    "graph",
    [rook(), shrikhande(), nx.star_graph(12), nx.complete_graph(10), nx.balanced_tree(2, 3),
     nx.disjoint_union(nx.star_graph(4), nx.empty_graph(8))],
)  # fmt: skip
def test_canonical_orders_of_symmetric_graphs(graph: nx.Graph) -> None:
    """Also where a search without automorphisms would try 12! orders."""
    generator = torch.Generator().manual_seed(0)
    matrix = canonical(graph)
    for _ in range(3):
        copy = renamed(graph, torch.randperm(len(graph), generator=generator))
        assert torch.equal(canonical(copy), matrix)
    assert not torch.equal(canonical(rook()), canonical(shrikhande()))


@pytest.mark.parametrize(
    "graph",
    [nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(4)),
     nx.disjoint_union(nx.circular_ladder_graph(3), nx.complete_bipartite_graph(3, 3)),
     *(nx.random_regular_graph(3, 12, seed=seed) for seed in range(4))],
)  # fmt: skip
def test_canonical_orders_where_one_colour_hides_different_nodes(graph: nx.Graph) -> None:
    """Regular graphs without much symmetry: nodes must not be taken for exchangeable."""
    generator = torch.Generator().manual_seed(0)
    matrix = canonical(graph)
    for _ in range(8):
        copy = renamed(graph, torch.randperm(len(graph), generator=generator))
        assert torch.equal(canonical(copy), matrix)


def test_kinds_of_nodes_and_edges_count() -> None:
    """A path of three whose kinds differ: swapped ends are equal, other kinds are not."""
    codes = torch.tensor([[5, 1, 0], [1, 0, 2], [0, 2, 0]])
    swapped = codes[[2, 1, 0]][:, [2, 1, 0]]
    other = torch.tensor([[5, 2, 0], [2, 0, 1], [0, 1, 0]])

    def ordered(matrix: torch.Tensor) -> list[list[int]]:
        order = canonical_order(matrix)
        rows: list[list[int]] = matrix[order][:, order].tolist()
        return rows

    assert ordered(codes) == ordered(swapped) != ordered(other)
