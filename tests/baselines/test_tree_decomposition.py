"""Junction trees: by hand, and against PyTorch Geometric's decomposition of RDKit molecules."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import networkx as nx
import pytest
import torch
from node_layers import BARBELL
from strategies import ODD, make_case, path

from smpgnn.baselines.tree_decomposition import (
    BOND,
    BRIDGED,
    RING,
    SINGLETON,
    decompose,
    junction_trees,
)


def test_two_triangles_a_bond_and_a_tail_by_hand() -> None:
    tree = junction_trees(make_case([ODD["empty"], path(2), BARBELL, ODD["single"]]).topology)
    cliques: dict[int, set[int]] = {}
    for atom, clique in zip(tree.atom.tolist(), tree.clique.tolist(), strict=True):
        cliques.setdefault(clique, set()).add(atom - 2)  # two atoms before
    kinds = {
        frozenset(members): kind
        for members, kind in zip(cliques.values(), tree.kind.tolist(), strict=True)
    }
    ring, other = frozenset({0, 1, 2}), frozenset({3, 4, 5})
    middle, tail, pair = frozenset({2, 3}), frozenset({5, 6}), frozenset({-2, -1})
    assert kinds == {ring: RING, other: RING, middle: BOND, tail: BOND, pair: BOND}
    joined = Counter(
        (frozenset(cliques[a]), frozenset(cliques[b])) for a, b in tree.edge_index.t().tolist()
    )
    expected = [(ring, middle), (middle, other), (other, tail)]
    assert joined == Counter([edge for a, b in expected for edge in ((a, b), (b, a))])


def test_directions_loops_and_repetitions_are_set_aside() -> None:
    plain = junction_trees(make_case([path(3)]).topology)
    loops = junction_trees(make_case([(3, ((0, 1), (1, 1), (2, 1), (0, 1)))]).topology)
    for name in ("kind", "edge_index", "atom", "clique"):
        assert torch.equal(getattr(plain, name), getattr(loops, name))


def test_does_not_depend_on_the_numbering() -> None:
    generator = torch.Generator().manual_seed(0)
    for graph in (nx.hypercube_graph(3), nx.petersen_graph(), nx.grid_2d_graph(3, 3)):
        graph = nx.convert_node_labels_to_integers(graph)
        results = set()
        for _ in range(4):
            new = torch.randperm(graph.number_of_nodes(), generator=generator).tolist()
            pairs = sorted((min(new[a], new[b]), max(new[a], new[b])) for a, b in graph.edges)
            cliques, kinds, edges = decompose(pairs)
            old = [frozenset(new.index(atom) for atom in clique) for clique in cliques]
            results.add(
                (
                    frozenset(zip(old, kinds, strict=True)),
                    frozenset(frozenset((old[a], old[b])) for a, b in edges),
                )
            )
        assert len(results) == 1


# Chains, branches, fused, spiro and bridged rings, macrocycles, several parts, a lone atom.
SMILES = [
    "C",
    "CC",
    "CCO",
    "CC(C)(C)C",
    "c1ccccc1",
    "c1ccc2ccccc2c1",
    "CC1CCCCC1C(=O)O",
    "C1CCC2(CC1)CCCC2",
    "C1CC2CCC1C2",
    "C12C3C4C1C5C2C3C45",
    "C1CC1C1CC1",
    "C1C=Cc2cccc3cccc1c23",
    "CC(=O)Oc1ccccc1C(=O)O",
    "CN1C=NC2=C1C(=O)N(C(=O)N2C)C",
    "C1CCCCCCCCCCC1",
    "CC.CCC",
    "COc1ccc2ccc(O)c(CN3CCN(S(=O)(=O)c4ccn(C)c4)CC3)c2c1",
]


@pytest.mark.parametrize("smiles", [*SMILES, "CS(=O)(=O)N1CC[C@]2(O)CCN(c3ncccn3)C[C@@H]2C1"])
def test_equals_pytorch_geometric_on_molecules(smiles: str) -> None:
    chem = pytest.importorskip("rdkit.Chem")
    from torch_geometric.utils import tree_decomposition

    molecule = chem.MolFromSmiles(smiles)
    pairs = sorted(
        (min(ends), max(ends))
        for ends in ((b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in molecule.GetBonds())
    )
    cliques, kinds, edges = decompose(pairs)
    edge_index, atom2clique, count, vocabulary = tree_decomposition(molecule, return_vocab=True)
    theirs = [frozenset(atom2clique[0, atom2clique[1] == c].tolist()) for c in range(count)]
    assert Counter(zip(cliques, kinds, strict=True)) == Counter(
        zip(theirs, vocabulary.tolist(), strict=True)
    )
    joined = Counter(frozenset((cliques[a], cliques[b])) for a, b in edges)
    tree = Counter(frozenset((theirs[a], theirs[b])) for a, b in edge_index.t().tolist() if a < b)
    if smiles in SMILES and smiles != "C12C3C4C1C5C2C3C45":
        assert joined == tree
    else:  # several spanning trees are equally good: theirs is one of them, ours all of them
        assert tree < joined


def test_kinds_of_bridged_and_single_atoms() -> None:
    norbornane = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (0, 5), (0, 6), (3, 6)]
    cliques, kinds, edges = decompose(sorted(norbornane))
    assert (cliques, kinds, edges) == ([frozenset(range(7))], [BRIDGED], [])
    star = [(0, k) for k in range(1, 4)]
    cliques, kinds, edges = decompose(star)
    assert kinds == [BOND, BOND, BOND, SINGLETON]
    assert cliques[-1] == {0}
    assert edges == [(0, 3), (1, 3), (2, 3)]
    assert all(not (cliques[a] & cliques[b]) - {0} for a, b in combinations(range(3), 2))
