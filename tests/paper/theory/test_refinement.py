"""Refinements: known cases by hand, their order, and that renaming nodes changes nothing."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch

from smpgnn.baselines.ppgn import PPGN
from smpgnn.contexts.index import ContextIndex
from smpgnn.models import MPNN, SMP
from smpgnn.paper.theory.families import cfi_graph
from smpgnn.paper.theory.graphs import rook, shrikhande, topology
from smpgnn.paper.theory.refinement import (
    REFINEMENTS,
    classes,
    color_refinement,
    folklore_refinement,
    smp_refinement,
)

TRIANGLES = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
LADDER = nx.ladder_graph(4)


def apart(first: nx.Graph, second: nx.Graph, refinement: str) -> bool:
    a, b = classes([first, second], REFINEMENTS[refinement])
    return a != b


def test_colors_of_a_path_by_hand() -> None:
    (color,) = color_refinement([nx.path_graph(5)])
    assert color[0] == color[4]
    assert color[1] == color[3]
    assert len(set(color.tolist())) == 3


def test_contexts_of_a_path_by_hand() -> None:
    (color,) = smp_refinement([nx.path_graph(3)])
    # a–b–c: mirrored pairs agree, and no others
    assert torch.equal(color, color.flip(0, 1))
    assert len(color.unique()) == 5


def test_colors_of_different_graphs_can_be_compared() -> None:
    first, second = color_refinement([nx.cycle_graph(6), TRIANGLES])
    assert set(first.tolist()) == set(second.tolist())
    assert len(set(first.tolist())) == 1


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (TRIANGLES, nx.cycle_graph(6), (False, True, True)),
        (nx.path_graph(4), nx.star_graph(3), (True, True, True)),
        (nx.path_graph(4), nx.path_graph(5), (True, True, True)),
        (
            cfi_graph(LADDER, twisted=False),
            cfi_graph(LADDER, twisted=True),
            (False, False, True),
        ),
        (rook(), shrikhande(), (False, False, False)),
    ],
    ids=["triangles", "trees", "sizes", "ladder", "strongly regular"],
)
def test_known_pairs(first: nx.Graph, second: nx.Graph, expected: tuple[bool, ...]) -> None:
    assert tuple(apart(first, second, name) for name in REFINEMENTS) == expected


def test_each_refinement_is_as_fine_as_the_one_before() -> None:
    graphs = [graph for graph in nx.graph_atlas_g()[1:] if graph.number_of_nodes() <= 6]
    one, contexts, pairs = (
        classes(graphs, f) for f in (color_refinement, smp_refinement, folklore_refinement)
    )
    assert len(set(zip(one, contexts, strict=True))) == len(set(contexts))
    assert len(set(zip(contexts, pairs, strict=True))) == len(set(pairs))
    assert len(set(one)) < len(set(contexts))
    assert len(set(pairs)) == len(graphs)  # these are too small to deceive it


@pytest.mark.parametrize("refinement", REFINEMENTS)
def test_renaming_the_nodes_changes_nothing(refinement: str) -> None:
    for seed, graph in enumerate([nx.petersen_graph(), nx.barabasi_albert_graph(12, 2, seed=1)]):
        order = np.random.default_rng(seed).permutation(len(graph)).tolist()
        renamed = nx.relabel_nodes(graph, dict(enumerate(order)))
        assert not apart(graph, renamed, refinement)
        first, second = REFINEMENTS[refinement]([graph, renamed])
        at = np.ix_(*[order] * first.ndim)
        assert torch.equal(second[at], first)


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
def test_rows_of_one_color_are_equal_and_of_two_colors_are_not(  # type: ignore[no-untyped-def]
    refinement: str, network, graph: nx.Graph
) -> None:
    torch.manual_seed(0)
    rows = _rows(network(), graph)
    (color,) = REFINEMENTS[refinement]([graph])
    gap = torch.cdist(rows, rows, p=torch.inf)
    flat = color.flatten()
    same = flat[:, None] == flat[None, :]
    assert gap[same].max() < 1e-12
    assert gap[~same].min() > 1e-10
