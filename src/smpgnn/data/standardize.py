"""Standardise molecules: the largest organic fragment, neutralised."""

from __future__ import annotations

from functools import cache
from typing import Any

from smpgnn.data.molecules import read_molecule, require_rdkit


def standardized(text: object) -> tuple[str, str]:
    """The canonical SMILES of the standardised molecule and '', or '' and the reason.

    RDKit's `LargestFragmentChooser`, which prefers organic fragments, removes salts and solvents;
    its `Uncharger` adds or removes protons. Charges that no proton can balance, as of quaternary
    nitrogen, stay.
    """
    Chem = require_rdkit()
    from rdkit import rdBase

    with rdBase.BlockLogs():
        molecule, reason = read_molecule(Chem, text)
        if molecule is None:
            return "", reason
        choose, neutralise = _tools()
        try:
            parent = neutralise.uncharge(choose.choose(molecule))
            found = Chem.MolFromSmiles(Chem.MolToSmiles(parent))  # what a network will see
        except (ValueError, RuntimeError):
            found = None
        if found is None or found.GetNumAtoms() == 0:
            return "", "the molecule cannot be standardised"
        return Chem.MolToSmiles(found), ""


@cache
def _tools() -> tuple[Any, Any]:
    from rdkit.Chem.MolStandardize import rdMolStandardize

    settings: Any = rdMolStandardize.CleanupParameters()
    settings.preferOrganic = True
    return rdMolStandardize.LargestFragmentChooser(settings), rdMolStandardize.Uncharger()
