"""Directional fields: by hand on a path, against networkx, and where they are not determined."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from strategies import ODD, cycle, make_case, path, undirected

from smpgnn.baselines.directions import directional_fields, eigenvectors


def test_path_of_three_by_hand() -> None:
    # φ = ±(1, 0, −1)/√2: both ends look inwards only, the middle equally to both sides.
    topology = make_case([path(3)]).topology
    field = directional_fields(topology, 1).flatten()
    assert topology.edge_index.tolist() == [[0, 1, 1, 2], [1, 0, 2, 1]]
    sign = torch.sign(field[0])
    expected = sign * torch.tensor([0.5, -1.0, 1.0, -0.5], dtype=torch.float64)
    assert torch.allclose(field, expected, atol=1e-4)


def test_equals_a_dense_transcription() -> None:
    graph = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5), (5, 6), (2, 6), (6, 7)])
    structure = undirected(8, sorted(graph.edges))
    topology = make_case([ODD["two parts"], structure, path(4)]).topology
    field = directional_fields(topology, 2)
    laplacian = nx.laplacian_matrix(graph, nodelist=range(8)).toarray().astype(float)
    values, vectors = np.linalg.eigh(laplacian)
    assert np.diff(values).min() > 1e-3
    for k in (1, 2):
        f = nx.to_numpy_array(graph, nodelist=range(8))
        f = f * (vectors[None, :, k] - vectors[:, None, k])  # F[i, j] = φ_j − φ_i
        f = f / (np.abs(f).sum(1, keepdims=True) + 1e-5)
        found = np.zeros((8, 8))
        for e, (j, i) in enumerate(topology.edge_index.t().tolist()):
            if 5 <= i < 13:
                found[i - 5, j - 5] = field[e, k - 1]
        sign = np.sign((found * f).sum())
        assert np.allclose(found, sign * f, atol=1e-10)


def test_parts_of_a_graph_do_not_disturb_each_other() -> None:
    alone = eigenvectors(4, [(0, 1), (1, 2), (2, 3)], 2)
    beside = eigenvectors(8, [(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)], 2)
    assert np.allclose(np.abs(beside), np.abs(np.concatenate([alone, alone])))
    assert np.linalg.norm(alone, axis=0) == pytest.approx(1)


@pytest.mark.parametrize(
    ("structure", "determined"),
    [
        (cycle(6), [False, False, False]),  # eigenvalues 0, 1, 1, 3, 3, 4
        (cycle(4), [False, False, True]),  # 0, 2, 2, 4
        (path(4), [True, True, True]),
        (path(2), [True, False, False]),
        (undirected(4, [(0, 1), (0, 2), (0, 3)]), [False, False, True]),  # 0, 1, 1, 4
        (ODD["single with loop"], [False, False, False]),
    ],
)
def test_fields_that_are_not_determined_are_zero(structure, determined) -> None:
    field = directional_fields(make_case([structure]).topology, 3)
    assert field.isfinite().all()
    assert (field.abs().amax(0) > 0.1).tolist() == determined
    assert (field[:, ~torch.tensor(determined)] == 0).all()


def test_edges_may_stand_in_any_order() -> None:
    topology = make_case([path(4), cycle(3), undirected(4, [(0, 1), (1, 2), (1, 3)])]).topology
    order = torch.randperm(topology.num_edges, generator=torch.Generator().manual_seed(0))
    mixed = type(topology)(topology.edge_index[:, order], topology.batch, 11, 3)
    before, after = directional_fields(topology, 2)[order], directional_fields(mixed, 2)
    assert torch.allclose(before.abs(), after.abs(), atol=1e-12)


def test_no_graphs_and_no_edges() -> None:
    assert directional_fields(make_case([ODD["empty"], ODD["edgeless"]]).topology, 2).shape == (
        0,
        2,
    )
