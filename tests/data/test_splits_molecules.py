"""Splits of molecules: no molecule, scaffold or cluster is divided."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from smpgnn.data import molecule_splits
from smpgnn.data.molecule_features import morgan_bits
from smpgnn.data.molecule_splits import (
    butina_clusters,
    molecule_groups,
    molecule_split,
)
from smpgnn.data.splits import Split
from smpgnn.errors import InputError

pytest.importorskip("rdkit")

RINGS = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "c1ccc2ccccc2c1", "C1CC1", "c1ccsc1", "C1CCNC1"]
SMILES = [head + ring for ring in RINGS for head in ("", "C", "CC", "OC", "NC(=O)", "FC", "ClCC")]


def sides(split: Split, names: list[str]) -> list[set[str]]:
    return [{names[row] for row in part.tolist()} for part in split]


def assert_apart(parts: list[set[str]]) -> None:
    assert all(parts)
    assert sum(map(len, parts)) == len(set.union(*parts))


def test_molecules_are_equal_by_canonical_smiles() -> None:
    smiles = ["OCC", "CCO", " CCO", "C[C@H](N)O", "C[C@@H](N)O", "C(O)C", "C1=CC=CC=C1", "c1ccccc1"]
    groups, first = molecule_groups(smiles)
    assert groups.tolist() == [0, 0, 0, 1, 2, 0, 3, 3]
    assert first == ["OCC", "C[C@H](N)O", "C[C@@H](N)O", "C1=CC=CC=C1"]


@settings(max_examples=10)
@given(st.integers(0, 99))
def test_scaffold_splits_are_seeded_and_disjoint(seed: int) -> None:
    from rdkit import Chem
    from rdkit.Chem.Scaffolds import MurckoScaffold

    split = molecule_split("scaffold", SMILES, (0.6, 0.2, 0.2), seed)
    scaffolds = [
        MurckoScaffold.MurckoScaffoldSmiles(mol=Chem.MolFromSmiles(text))  # type: ignore[no-untyped-call]
        for text in SMILES
    ]
    assert_apart(sides(split, scaffolds))
    again = molecule_split("scaffold", SMILES, (0.6, 0.2, 0.2), seed)
    assert all(torch.equal(one, other) for one, other in zip(split, again, strict=True))


def test_the_seed_changes_a_scaffold_split() -> None:
    tests = {
        tuple(molecule_split("scaffold", SMILES, (0.6, 0.2, 0.2), seed).test.tolist())
        for seed in range(9)
    }
    assert len(tests) > 3


@pytest.mark.parametrize("cutoff", [0.2, 0.4, 0.6, 0.8])
def test_clusters_are_those_of_rdkit(cutoff: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from rdkit import DataStructs
    from rdkit.Chem import MolFromSmiles, rdFingerprintGenerator
    from rdkit.ML.Cluster import Butina

    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=2048)
    found = [generator.GetFingerprint(MolFromSmiles(text)) for text in SMILES]
    distances: list[float] = []
    for row in range(1, len(found)):
        similar = DataStructs.BulkTanimotoSimilarity(found[row], found[:row])
        distances += [1 - value for value in similar]
    wanted = Butina.ClusterData(distances, len(found), cutoff, isDistData=True)  # type: ignore[no-untyped-call]
    monkeypatch.setattr(molecule_splits, "_BLOCK", 8)  # several blocks
    clusters = butina_clusters(morgan_bits(SMILES), cutoff)
    groups = {tuple(np.flatnonzero(clusters == number)) for number in range(clusters.max() + 1)}
    assert groups == {tuple(sorted(members)) for members in wanted}


@pytest.mark.parametrize("seed", range(3))
def test_butina_split_keeps_clusters_and_molecules_together(seed: int) -> None:
    smiles = [*SMILES, *(text[::-1] for text in ("CCO", "OCCN")), "C(O)C", "OCC"]
    split = molecule_split("butina", smiles, (0.6, 0.2, 0.2), seed)
    molecule, first = molecule_groups(smiles)
    assert_apart(sides(split, [str(number) for number in molecule]))
    clusters = butina_clusters(morgan_bits(first), molecule_splits.BUTINA_CUTOFF)
    assert_apart(sides(split, [str(number) for number in clusters[molecule]]))


def test_large_tables_are_not_clustered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(molecule_splits, "MAX_BUTINA", 20)
    with pytest.raises(InputError, match="at most 20 different molecules, not 49: use --split sc"):
        molecule_split("butina", SMILES)
    assert sum(part.numel() for part in molecule_split("butina", SMILES[:14] * 5)) == 70
