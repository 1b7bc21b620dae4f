"""DGN against its aggregation matrices, written out."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch
from node_layers import arriving, call_layer, edge_feature
from strategies import assert_same, make_case, randomize, undirected
from torch import Tensor

from smpgnn.baselines.dgn import DGN, DGNLayer
from smpgnn.errors import InputError

DEGREES = (1, 3, 5, 2)
GRAPH = nx.Graph([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5), (5, 6), (2, 6), (6, 7)])


def _matrices(k: int) -> tuple[Tensor, Tensor]:
    """|F̂| and F̂ for the k-th eigenvector; row i is what node i receives."""
    laplacian = nx.laplacian_matrix(GRAPH, nodelist=range(8)).toarray().astype(float)
    vector = np.linalg.eigh(laplacian)[1][:, k]
    f = nx.to_numpy_array(GRAPH, nodelist=range(8)) * (vector[None, :] - vector[:, None])
    f = torch.from_numpy(f / (np.abs(f).sum(1, keepdims=True) + 1e-5))
    return f.abs(), f


@pytest.mark.parametrize("edge_channels", [0, 2])
def test_equals_the_aggregation_matrices(edge_channels: int) -> None:
    names = ("mean", "dx1", "av1", "dx2", "av2", "max", "min")
    case = make_case([undirected(8, sorted(GRAPH.edges))], 3, edge_channels)
    layer = randomize(DGNLayer(3, 4, edge_channels, aggregators=names, degrees=DEGREES))
    layer.set_degrees(DEGREES)  # again, in float64
    x, n = case.x, 8
    message = torch.zeros(n, n, 3, dtype=torch.float64)  # of j to i at [i, j]
    for i in range(n):
        for edge, j in arriving(case, i):
            message[i, j] = layer.message_receiver(x[i]) + layer.message_sender(x[j])
            if edge_channels:
                message[i, j] += layer.message_edge(edge_feature(case, edge))
    adjacency = torch.from_numpy(nx.to_numpy_array(GRAPH, nodelist=range(n)))
    degree = adjacency.sum(1, keepdim=True)
    away = (1 - adjacency).unsqueeze(2) * 1e9
    found = {
        "mean": torch.einsum("ij,ijc->ic", adjacency / degree, message),
        "max": (message - away).amax(1),
        "min": (message + away).amin(1),
    }
    for k in (1, 2):
        b_av, field = _matrices(k)
        # B_dx = F̂ − diag(F̂ 1), its diagonal acting on the node itself.
        derivative = torch.einsum("ij,ijc->ic", field, message) - field.sum(1, keepdim=True) * x
        found[f"av{k}"] = torch.einsum("ij,ijc->ic", b_av, message)
        found[f"dx{k}"] = derivative.abs()
    delta = sum(c * math.log(d + 1) for d, c in enumerate(DEGREES)) / sum(DEGREES)
    logs = (degree + 1).log()
    together = torch.cat([found[name] for name in names], 1)
    scaled = [together, together * logs / delta, together * delta / logs]
    expected = torch.relu(layer.out(torch.cat([x, *scaled], 1)))
    assert_same(call_layer(layer, case), expected, layer, case.leaves())


def test_distinguishes_graphs_that_message_passing_cannot() -> None:
    # Two hexagons that share an edge, two pentagons joined by one: equal trees of neighbours.
    one = undirected(10, [*((k, (k + 1) % 10) for k in range(10)), (0, 5)])
    two = undirected(
        10,
        [(0, 5), *((a + k, a + (k + 1) % 5) for a in (0, 5) for k in range(5))],
    )
    case = make_case([one, two], 0)
    blind = randomize(DGN(0, 1, 8, 4, aggregators=["mean", "max"]))
    seeing = randomize(DGN(0, 1, 8, 4))
    out = case.call(blind)
    assert torch.allclose(out[0], out[1])
    out = case.call(seeing)
    assert not torch.allclose(out[0], out[1], rtol=1e-3)


@pytest.mark.parametrize("name", ["dx0", "dx", "sum", "av-1"])
def test_refuses_unknown_aggregators(name: str) -> None:
    with pytest.raises(InputError, match="aggregators"):
        DGN(2, 1, 4, 2, aggregators=["mean", name])
