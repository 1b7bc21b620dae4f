"""SMILES with the features of the ZINC benchmark: 28 atom types, Kekulé bond orders 1, 2, 3.

An atom's type is its element, its formal charge and the number of hydrogens in its bracket in
RDKit's Kekulé SMILES (0 without a bracket). So 'C H1' is a stereo centre [C@H], not any CH, and a
SMILES without stereo marks gives different types than one with them.

We derived types 0 to 20 from the 12,000 graphs of ZINC-12k, aligned atom by atom with their Kekulé
SMILES: each (element, charge, hydrogens) has exactly one type. The rarer types 21 to 27 do not
occur there; they are from the description of the full data set (TU Dortmund's collection of graph
data sets).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from smpgnn.data.kekule import kekule_orders
from smpgnn.data.molecules import (
    Codes,
    MoleculeTable,
    atoms_of,
    bonds_of,
    molecule_table,
    one_hot,
    require_rdkit,
)
from smpgnn.errors import InputError

# (element, formal charge, hydrogens in the bracket); the index is the type.
ATOM_TYPES: tuple[tuple[str, int, int], ...] = (
    ("C", 0, 0), ("O", 0, 0), ("N", 0, 0), ("F", 0, 0), ("C", 0, 1), ("S", 0, 0),
    ("Cl", 0, 0), ("O", -1, 0), ("N", 1, 1), ("Br", 0, 0), ("N", 1, 3), ("N", 1, 2),
    ("N", 1, 0), ("N", -1, 0), ("S", -1, 0), ("I", 0, 0), ("P", 0, 0), ("O", 1, 1),
    ("N", -1, 1), ("O", 1, 0), ("S", 1, 0), ("P", 0, 1), ("P", 0, 2), ("C", -1, 2),
    ("P", 1, 0), ("S", 1, 1), ("C", -1, 1), ("P", 1, 1),
)  # fmt: skip
NUM_BOND_TYPES = 3
_TYPE = {key: number for number, key in enumerate(ATOM_TYPES)}


@dataclass(frozen=True)
class ZincFeaturizer:
    """One-hot atom types [N, 28] and bond types [E, 3] (column k - 1 for order k), as uint8.

    With kekule="canonical" all SMILES of a molecule give the same graph up to the order of its
    atoms: `kekule_orders` places the double bonds on RDKit's canonical SMILES. This reproduces
    11,987 of the 12,000 graphs of ZINC-12k from aromatic SMILES; the others differ only in the
    Kekulé form. With kekule="written" a SMILES in a Kekulé form keeps it, which reproduces all
    12,000 from the benchmark's Kekulé SMILES.
    """

    kekule: Literal["canonical", "written"] = "canonical"
    max_atoms: int | None = None

    def __post_init__(self) -> None:
        if self.kekule not in ("canonical", "written"):
            raise InputError(f"kekule is '{self.kekule}', but must be 'canonical' or 'written'.")

    def featurize(self, smiles: Iterable[str | None]) -> MoleculeTable:
        """Graphs of the valid rows; `errors` has an entry for each invalid row."""
        Chem = require_rdkit()

        def codes(molecule: Any, text: str) -> Codes | str:
            try:
                orders = self._orders(Chem, molecule, text)
                keys = _atom_keys(Chem, molecule, orders)
            except (ValueError, RuntimeError):  # what RDKit raises
                return "RDKit finds no Kekulé form of the molecule"
            reason = _outside(molecule, orders, keys)
            return reason or ([(_TYPE[key],) for key in keys], [(order - 1,) for order in orders])

        atom_fields, bond_fields = [one_hot(len(ATOM_TYPES))], [one_hot(NUM_BOND_TYPES)]
        return molecule_table(smiles, codes, atom_fields, bond_fields, self.max_atoms)

    def _orders(self, Chem: Any, molecule: Any, text: str) -> list[int]:
        """The order of each bond in the Kekulé form of the molecule."""
        if not any(atom.GetIsAromatic() for atom in atoms_of(molecule)):
            return kekule_orders(Chem, molecule)
        if self.kekule == "written":
            written = _written_orders(Chem, molecule, text)
            return kekule_orders(Chem, molecule) if written is None else written
        smiles = Chem.MolToSmiles(molecule)
        place = _output_order(molecule)
        canonical = Chem.MolFromSmiles(smiles)
        # RDKit cannot read every SMILES that it writes; then use the given atom order.
        if canonical is None or canonical.GetNumAtoms() != molecule.GetNumAtoms():
            return kekule_orders(Chem, molecule)
        orders = [0] * molecule.GetNumBonds()
        for bond, order in zip(bonds_of(canonical), kekule_orders(Chem, canonical), strict=True):
            begin, end = place[bond.GetBeginAtomIdx()], place[bond.GetEndAtomIdx()]
            orders[molecule.GetBondBetweenAtoms(begin, end).GetIdx()] = order
        return orders


def _outside(molecule: Any, orders: list[int], keys: list[tuple[str, int, int]]) -> str:
    """Why the molecule cannot be encoded with ZINC's types; '' if it can."""
    for number, key in enumerate(keys, start=1):
        if key not in _TYPE:
            return (
                f"atom {number} ({_spelled(key)}) is not one of ZINC's {len(ATOM_TYPES)} atom types"
            )
    if 0 in orders:
        kind = molecule.GetBondWithIdx(orders.index(0)).GetBondType()
        return (
            f"a bond of type {str(kind).lower()} is not one of ZINC's {NUM_BOND_TYPES} bond types"
        )
    return ""


def _written_orders(Chem: Any, molecule: Any, text: str) -> list[int] | None:
    """Bond orders as written in the text; None if it has aromatic bonds."""
    raw = Chem.MolFromSmiles(text.strip(), sanitize=False)
    if raw.GetNumAtoms() != molecule.GetNumAtoms():
        return None
    orders = kekule_orders(Chem, molecule)
    for k, bond in enumerate(bonds_of(molecule)):
        if bond.GetBondType() == Chem.BondType.AROMATIC:
            twin = raw.GetBondBetweenAtoms(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
            if twin.GetIsAromatic():
                return None
            orders[k] = int(twin.GetBondTypeAsDouble())
    return orders


def _atom_keys(Chem: Any, molecule: Any, orders: list[int]) -> list[tuple[str, int, int]]:
    """(element, charge, hydrogens in the bracket) of each atom.

    Only RDKit's writer decides which atoms get a bracket, so we write and read the Kekulé form.
    """
    form = Chem.Mol(molecule)
    Chem.Kekulize(form, clearAromaticFlags=True)
    kinds = {1: Chem.BondType.SINGLE, 2: Chem.BondType.DOUBLE, 3: Chem.BondType.TRIPLE}
    for bond, order, old in zip(bonds_of(form), orders, bonds_of(molecule), strict=True):
        if old.GetBondType() == Chem.BondType.AROMATIC:
            bond.SetBondType(kinds[order])
    text = Chem.MolToSmiles(form, canonical=False)
    written = Chem.MolFromSmiles(text, sanitize=False)
    keys = [("", 0, 0)] * molecule.GetNumAtoms()
    for place, atom in zip(_output_order(form), atoms_of(written), strict=True):
        keys[place] = (atom.GetSymbol(), atom.GetFormalCharge(), atom.GetNumExplicitHs())
    return keys


def _output_order(molecule: Any) -> list[int]:
    """The atoms in the order of the last SMILES that RDKit wrote."""
    return list(molecule.GetPropsAsDict(True, True)["_smilesAtomOutputOrder"])


def _spelled(key: tuple[str, int, int]) -> str:
    element, charge, hydrogens = key
    return element + (f" H{hydrogens}" if hydrogens else "") + (f" {charge:+d}" if charge else "")
