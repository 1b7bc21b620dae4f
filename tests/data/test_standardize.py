"""Standardised molecules: without salts and solvents, neutral."""

from __future__ import annotations

import pytest
import torch

from smpgnn.data.molecules import MoleculeFeaturizer
from smpgnn.data.standardize import standardized

PAIRS = {
    "CC(=O)[O-].[Na+]": "CC(=O)O",
    "CCO.O": "CCO",
    "C[NH3+].OS(=O)(=O)[O-]": "CN",  # organic before larger
    "C[C@H]([NH3+])C(=O)[O-]": "C[C@H](N)C(=O)O",
    "F/C=C/F.Cl": "F/C=C/F",
    "C[N+](C)(C)C.[Cl-]": "C[N+](C)(C)C",
    "C[N+](=O)[O-]": "C[N+](=O)[O-]",
    "[Na+].[Cl-]": "Cl",
    "OCC": "CCO",
}


@pytest.mark.parametrize(("given", "expected"), PAIRS.items())
def test_standard_form(given: str, expected: str) -> None:
    assert standardized(given) == (expected, "")
    assert standardized(expected) == (expected, "")


def test_graphs_are_those_of_the_standard_form() -> None:
    given = [*PAIRS, "C(", None, "CN(C)(C)C"]
    found = MoleculeFeaturizer(standardize=True).featurize(given)
    plain = MoleculeFeaturizer().featurize(PAIRS.values())
    assert found.smiles == plain.smiles == list(PAIRS.values())
    for name in ("node_ptr", "edge_index", "x", "edge_attr"):
        assert torch.equal(getattr(found.store, name), getattr(plain.store, name))
    reasons = MoleculeFeaturizer().featurize(given).errors
    assert found.errors == reasons
    assert set(reasons) == {len(PAIRS) + number for number in range(3)}


def test_neutral_molecules_stay() -> None:
    smiles = ["c1ccc2[nH]ccc2c1", "C[C@H](N)C(=O)O", "CCO"]
    one, other = (
        MoleculeFeaturizer(standardize=on).featurize(smiles).store for on in (True, False)
    )
    assert torch.equal(one.num_nodes, other.num_nodes)
    for first, second in zip(_sums(one), _sums(other), strict=True):
        assert torch.equal(first, second)


def _sums(store: object) -> list[torch.Tensor]:
    """How many atoms have each feature, by molecule: the order of atoms may differ."""
    batch = store.batch()  # type: ignore[attr-defined]
    total = torch.zeros(batch.num_graphs, batch.x.size(1)).index_add(0, batch.batch, batch.x)
    return list(total)
