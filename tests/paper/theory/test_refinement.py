"""Refinements: known cases by hand, their order, and that renaming nodes changes nothing."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
import torch

from smpgnn.baselines.ppgn import PPGN
from smpgnn.contexts.index import ContextIndex
from smpgnn.models import MPNN, SMP
from smpgnn.paper.theory.families import cfi_graph
from smpgnn.paper.theory.graphs import rook, shrikhande, topology
from smpgnn.paper.theory.ladder import REFINEMENTS
from smpgnn.paper.theory.refinement import classes, stable_colors, told_apart

TRIANGLES = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
LADDER = nx.ladder_graph(4)
#: Which refinements are at least as fine as others, for every pair of graphs.
FINER = (
    ("1-WL", "SMP"),
    ("SMP", "SSWL"),
    ("SSWL", "local 2-FWL"),
    ("local 2-FWL", "2-FWL"),
    ("SMP", "two marks ≤ 1"),
    ("two marks ≤ 1", "two marks ≤ 2"),
    ("two marks ≤ 2", "two marks ≤ 3"),
)


def colors(graph: nx.Graph, refinement: str) -> np.ndarray:
    (found,) = stable_colors([graph], REFINEMENTS[refinement])
    return found


def test_colors_of_a_path_by_hand() -> None:
    color = colors(nx.path_graph(5), "1-WL")
    assert color[0] == color[4]
    assert color[1] == color[3]
    assert len(set(color.tolist())) == 3


def test_contexts_of_a_path_by_hand() -> None:
    color = colors(nx.path_graph(3), "SMP").reshape(3, 3)
    # a–b–c: mirrored pairs agree, and no others
    assert np.array_equal(color, color[::-1, ::-1])
    assert len(np.unique(color)) == 5


def test_marks_of_an_edge_by_hand() -> None:
    # rows (i; j, k): i is both marks, neither, the first, or the second
    color = colors(nx.path_graph(2), "two marks ≤ 1").reshape(2, 4)
    assert np.array_equal(color[0], color[1][::-1])
    assert len(np.unique(color)) == 4


def test_colors_of_different_graphs_can_be_compared() -> None:
    first, second = stable_colors([nx.cycle_graph(6), TRIANGLES], REFINEMENTS["1-WL"])
    assert set(first.tolist()) == set(second.tolist())
    assert len(set(first.tolist())) == 1


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (TRIANGLES, nx.cycle_graph(6), "01111111"),
        (nx.path_graph(4), nx.star_graph(3), "11111111"),
        (nx.path_graph(4), nx.path_graph(5), "11111111"),
        (cfi_graph(LADDER, twisted=False), cfi_graph(LADDER, twisted=True), "00111111"),
        (rook(), shrikhande(), "00000111"),
    ],
    ids=["triangles", "trees", "sizes", "ladder", "strongly regular"],
)
def test_known_pairs(first: nx.Graph, second: nx.Graph, expected: str) -> None:
    found = [told_apart(first, second, refinement) for refinement in REFINEMENTS.values()]
    assert "".join(str(int(one)) for one in found) == expected
    slow = [len(set(classes([first, second], refinement))) == 2 for refinement in
            REFINEMENTS.values()]  # fmt: skip
    assert found == slow


def test_each_refinement_is_as_fine_as_those_below_it() -> None:
    graphs = [graph for graph in nx.graph_atlas_g()[1:] if graph.number_of_nodes() <= 6]
    kinds = {name: classes(graphs, refinement) for name, refinement in REFINEMENTS.items()}
    for coarse, fine in FINER:
        assert len(set(zip(kinds[coarse], kinds[fine], strict=True))) == len(set(kinds[fine]))
    assert len(set(kinds["1-WL"])) < len(set(kinds["SMP"]))
    assert len(set(kinds["2-FWL"])) == len(graphs)  # these are too small to deceive it


@pytest.mark.parametrize("refinement", REFINEMENTS)
def test_renaming_the_nodes_changes_nothing(refinement: str) -> None:
    for seed, graph in enumerate([nx.petersen_graph(), nx.barabasi_albert_graph(12, 2, seed=1)]):
        order = np.random.default_rng(seed).permutation(len(graph)).tolist()
        renamed = nx.relabel_nodes(graph, dict(enumerate(order)))
        assert not told_apart(graph, renamed, REFINEMENTS[refinement])
        first, second = stable_colors([graph, renamed], REFINEMENTS[refinement])
        if first.size <= len(graph) ** 2:
            dims = 1 if first.size == len(graph) else 2
            shape = (len(graph),) * dims
            assert np.array_equal(
                second.reshape(shape)[np.ix_(*[order] * dims)], first.reshape(shape)
            )


def test_the_context_of_sswl_by_its_equation() -> None:
    """One round of every term, transcribed with Python's tuples."""
    graph = nx.barabasi_albert_graph(9, 2, seed=3)
    nodes = range(len(graph))
    old = {(i, j): int(i == j) for i in nodes for j in nodes}
    for _ in range(len(graph)):
        old = {
            (i, j): hash(
                (
                    old[i, j],
                    tuple(sorted(old[k, j] for k in graph[i])),
                    tuple(sorted(old[i, k] for k in graph[j])),
                    tuple(sorted(old[i, k] for k in nodes)),
                )
            )
            for i, j in old
        }
    found = colors(graph, "SSWL")
    pairs = set(zip(found.tolist(), old.values(), strict=True))
    assert len(pairs) == len(set(found.tolist())) == len(set(old.values()))


def _rows(network: SMP, graph: nx.Graph) -> torch.Tensor:
    """The rows of all layers of a network side by side, [P, C]."""
    network = network.double().eval()
    index = network.backbone.index(topology([graph]))
    if isinstance(network, PPGN):
        index = network.extend(index, 0)
    assert isinstance(index, ContextIndex)
    with torch.no_grad():
        return torch.cat([u.rows for u in network.backbone(None, None, index)], dim=1)


@pytest.mark.parametrize(
    ("refinement", "network"),
    [
        ("1-WL", lambda: MPNN(0, 1, 8, 6, norm="layer")),
        ("SMP", lambda: SMP(0, 1, 8, 6, norm="layer")),
        ("SMP", lambda: SMP(0, 1, 8, 6, layer="fast", norm="layer")),
        ("SMP", lambda: SMP(0, 1, 8, 6, message_residual=True, residual=True)),
        ("2-FWL", lambda: PPGN(0, 1, 8, 3, norm="layer")),
    ],
    ids=["mpnn", "smp", "fast-smp", "smp with residuals", "ppgn"],
)
@pytest.mark.parametrize(
    "graph",
    [
        nx.random_labeled_tree(9, seed=1),
        nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4)),
        nx.disjoint_union(nx.cycle_graph(3), nx.path_graph(4)),
        nx.complete_bipartite_graph(2, 4),
    ],
    ids=["tree", "grid", "two parts", "bipartite"],
)
def test_rows_of_one_color_are_equal_and_of_two_colors_are_not(
    refinement: str, network: Callable[[], SMP], graph: nx.Graph
) -> None:
    torch.manual_seed(0)
    rows = _rows(network(), graph)
    gap = torch.cdist(rows, rows, p=torch.inf)
    flat = torch.from_numpy(colors(graph, refinement))
    same = flat[:, None] == flat[None, :]
    assert gap[same].max() < 1e-12
    assert gap[~same].min() > 1e-10
