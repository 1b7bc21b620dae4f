"""Cliques beside their atoms: means against matrices, and trees of a data set cut for a batch."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from node_layers import BARBELL
from strategies import ODD, Structure, assert_same, cycle, make_case, path, undirected
from torch import Tensor
from torch_geometric.data import Data

from smpgnn.baselines.cliques import Cliques, JunctionTrees
from smpgnn.baselines.tree_decomposition import junction_trees
from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.capture.rows import NodeAxes
from smpgnn.contexts.topology import Topology
from smpgnn.data.pyg import graphs_from_pyg
from smpgnn.data.store import GraphStore
from smpgnn.ops import SparseSum

STAR = undirected(5, [(0, k) for k in range(1, 5)])
GRAPHS = [path(4), ODD["edgeless"], BARBELL, ODD["loops"], STAR, ODD["single"], cycle(5)]
STRUCTURE = JunctionTrees()


def random(size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, 3, generator=generator, dtype=torch.float64).requires_grad_()


def test_means_equal_products_with_matrices() -> None:
    topology = make_case(GRAPHS).topology
    tree, found = junction_trees(topology), topology.find(STRUCTURE)
    inside = torch.zeros(tree.kind.numel(), topology.num_nodes, dtype=torch.float64)
    inside[tree.clique, tree.atom] = 1.0
    atoms, cliques = random(topology.num_nodes, 0), random(tree.kind.numel(), 1)
    expected = inside @ atoms / inside.sum(1, keepdim=True)
    assert_same(found.from_atoms(atoms), expected, inputs=[atoms])
    homes = inside.sum(0).clamp(min=1).unsqueeze(1)
    assert homes.max() > 1
    assert (inside.sum(0) == 0).any()
    assert_same(found.to_atoms(cliques), inside.T @ cliques / homes, inputs=[cliques])


def make_store(structures: list[Structure]) -> GraphStore:
    return graphs_from_pyg(
        [
            Data(edge_index=torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T, num_nodes=size)
            for size, edges in structures
        ]
    )


def lists(matrix: SparseSum) -> list[list[int]]:
    return [sorted(matrix.index[a:b].tolist()) for a, b in pairwise(matrix.ptr.tolist())]


def written_out(found: Cliques, atoms: int) -> dict[str, object]:
    """Kinds, trees, members and homes of what is there."""
    trees, count = found.trees.topology, int(found.trees.layout.count.sum())
    edges = trees.edge_index[:, : int(trees.edges_by_receiver[0][-1])]
    assert not any(lists(found.members)[count:])
    assert not any(lists(found.homes)[atoms:])
    return {
        "kind": found.kind[:count].tolist(),
        "trees": sorted(edges.T.tolist()),
        "members": lists(found.members)[:count],
        "homes": lists(found.homes)[:atoms],
    }


@pytest.mark.parametrize("chosen", [[2, 0, 4], [6, 5, 2, 3], [1], [2, -1, 2, 0]], ids=str)
def test_trees_of_a_data_set_are_those_of_its_batches(chosen: list[int]) -> None:
    store = make_store(GRAPHS)
    batch = store.batch([graph for graph in chosen if graph >= 0])
    topology = Topology.checked(batch.edge_index, batch.batch, num_graphs=batch.num_graphs)
    padded = PaddedStore(
        store, Capacity(4, {"node": 32, "edge": 64, "row": 300}), NodeAxes(store), [STRUCTURE]
    )
    assert padded.fits(torch.tensor(chosen))
    _, index = padded.batch(torch.tensor([*chosen, *[-1] * (4 - len(chosen))]))
    expected = written_out(topology.find(STRUCTURE), topology.num_nodes)
    assert written_out(index.topology.find(STRUCTURE), topology.num_nodes) == expected


def test_a_batch_of_more_cliques_than_usual_does_not_fit() -> None:
    store = make_store([path(3)] * 60 + [path(30)])
    room = Capacity(2, {"node": 64, "edge": 128, "row": 2000})
    assert PaddedStore(store, room, NodeAxes(store)).fits(torch.tensor([0, 60]))
    padded = PaddedStore(store, room, NodeAxes(store), [STRUCTURE])
    assert padded.fits(torch.tensor([0, 1]))
    assert not padded.fits(torch.tensor([0, 60]))
