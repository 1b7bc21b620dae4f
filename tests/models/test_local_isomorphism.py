"""Which nodes and graphs SMP tells apart, and which it must not."""

from __future__ import annotations

import pytest
import torch
from small_networks import make
from strategies import Structure, assert_same, cycle, path, undirected

from smpgnn import MPNN, SMP


def node_outputs(model: SMP, structure: Structure) -> torch.Tensor:
    n, edges = structure
    edge_index = torch.tensor(edges).reshape(-1, 2).t()
    return model(None, edge_index, num_nodes=n)


@pytest.mark.parametrize("layer", ["default", "fast"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_nodes_of_a_vertex_transitive_graph_are_alike(layer: str, depth: int) -> None:
    model = make({"layer": layer, "level": "node"}, in_channels=0, num_layers=depth)
    cube = undirected(8, [(a, a ^ bit) for a in range(8) for bit in (1, 2, 4) if a < a ^ bit])
    for structure in (cycle(7), cube):
        outputs = node_outputs(model, structure)
        assert_same(outputs, outputs[:1].expand_as(outputs))


#: Two far parts of one graph: 0 and 10 are the middle of a path for 2 hops; 15 and 16, 3 hops
#: from 10, are joined, which 3 layers do not see yet (next test), and 4 do.
TWO_REGIONS = undirected(
    20,
    [
        *[(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7)],
        *[(10, 11), (10, 12), (11, 13), (12, 14), (13, 15), (14, 16), (15, 16)],
        *[(7, 8), (8, 9), (9, 19), (19, 18), (18, 17), (17, 16)],
    ],
)


@pytest.mark.parametrize("layer", ["default", "fast"])
def test_isomorphic_neighbourhoods_give_equal_outputs(layer: str) -> None:
    for depth, alike in ((2, True), (3, True), (4, False)):
        model = make({"layer": layer, "level": "node"}, in_channels=0, num_layers=depth)
        outputs = node_outputs(model, TWO_REGIONS)
        gap = (outputs[0] - outputs[10]).abs().max()
        assert gap < 1e-10 if alike else gap > 1e-6


@pytest.mark.parametrize("layer", ["default", "fast"])
def test_edges_between_nodes_at_the_last_hop_are_not_seen(layer: str) -> None:
    """Appendix B: E_i⁽ᵏ⁾ leaves out edges between nodes at distance k exactly."""
    leaves = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6)]
    same = [(a + 7, b + 7) for a, b in leaves]
    joined = undirected(14, [*leaves, *same, (3, 4)])  # a 5-cycle round node 0 only
    model = make({"layer": layer, "level": "node"}, in_channels=0, num_layers=2)
    outputs = node_outputs(model, joined)
    assert_same(outputs[0], outputs[7])
    deep = make({"layer": layer, "level": "node"}, in_channels=0, num_layers=3)
    outputs = node_outputs(deep, joined)
    assert (outputs[0] - outputs[7]).abs().max() > 1e-6


@pytest.mark.parametrize("layer", ["default", "fast"])
def test_the_isomorphism_has_to_map_the_centre_to_the_centre(layer: str) -> None:
    """On a–b–c the 2-hop neighbourhoods of a and b are the same graph, but not round its centre."""
    model = make({"layer": layer, "level": "node"}, in_channels=0, num_layers=2)
    outputs = node_outputs(model, path(3))
    assert_same(outputs[0], outputs[2])
    assert (outputs[0] - outputs[1]).abs().max() > 1e-6


@pytest.mark.parametrize("layer", ["default", "fast"])
def test_smp_distinguishes_what_mpnn_cannot(layer: str) -> None:
    """Proposition 1: two triangles and a hexagon."""
    triangles = undirected(6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    for network, apart in ((SMP, True), (MPNN, False)):
        model = make({"layer": layer}, network, in_channels=0)
        gap = node_outputs(model, triangles) - node_outputs(model, cycle(6))
        assert (gap.abs().max() > 1e-6) == apart
