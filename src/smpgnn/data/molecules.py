"""Convert SMILES to graphs: one-hot features of atoms and bonds in a packed GraphStore."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.data.sdf import UNREADABLE
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError, shown

ELEMENTS = ("B", "C", "N", "O", "F", "Si", "P", "S", "Cl", "Se", "Br", "I")
CHARGES = (-2, -1, 0, 1, 2)
MAX_HYDROGENS = 4
HYBRIDISATIONS = ("SP", "SP2", "SP3", "SP3D", "SP3D2")
BOND_TYPES = ("SINGLE", "DOUBLE", "TRIPLE", "AROMATIC")
#: Maximum characters of a SMILES: for much longer ones RDKit takes minutes or overflows its stack.
MAX_CHARACTERS = 5_000
# Limit for molecules with many symmetric stereo centres; about a second.
_CIP_ITERATIONS = 1_250_000


#: Molecules per conversion to tensors; limits how many codes are kept and sorted at a time.
BLOCK = 20_000

#: The codes of the atoms and of the bonds of a molecule, one per field.
Codes = tuple[Sequence[tuple[int, ...]], Sequence[tuple[int, ...]]]
#: The channel that each code of each field sets.
Fields = Sequence[Sequence[int]]


@dataclass(frozen=True, eq=False)
class MoleculeTable:
    """The valid molecules of some rows, and the reason for each invalid row.

    `store` has graph g for row `index[g]` ([G], ascending), whose SMILES is `smiles[g]`; `errors`
    maps row to reason.
    """

    store: GraphStore
    index: Tensor
    errors: dict[int, str]
    smiles: list[str]


@dataclass(frozen=True)
class MoleculeFeaturizer:
    """General features of a molecule without its hydrogens, as uint8 in {0, 1}.

    Atoms: element (the list, or other), formal charge (clipped to ±2), number of hydrogens
    (0 to 4), hybridisation (sp, sp2, sp3, sp3d, sp3d2, other), aromatic, stereo R and S.
    Bonds: single, double, triple, aromatic, other; conjugated; in a ring; stereo E and Z.
    Each bond is two directed edges; edges are sorted by source, then target.

    Degrees and rings of atoms are left out, because a network can compute them from the graph.
    Stereo is the CIP label, because RDKit's chirality tag depends on the order of the neighbours in
    the SMILES. Rows with more than `max_atoms` atoms are refused. With `standardize` molecules are
    standardised first (`standardize.standardized`).
    """

    elements: tuple[str, ...] = ELEMENTS
    max_atoms: int | None = None
    standardize: bool = False

    @property
    def atom_features(self) -> tuple[str, ...]:
        """The names of the atom features."""
        return (
            *(f"element {name}" for name in (*self.elements, "other")),
            *(f"charge {charge:+d}" for charge in CHARGES),
            *(f"hydrogens {count}" for count in range(MAX_HYDROGENS + 1)),
            *(f"hybridisation {name}" for name in (*HYBRIDISATIONS, "other")),
            *("aromatic", "stereo R", "stereo S"),
        )

    @property
    def bond_features(self) -> tuple[str, ...]:
        """The names of the bond features."""
        kinds = (f"type {name.lower()}" for name in (*BOND_TYPES, "other"))
        return (*kinds, "conjugated", "ring", "stereo E", "stereo Z")

    def featurize(self, smiles: Iterable[str | None]) -> MoleculeTable:
        """Graphs of the valid rows; `errors` has an entry for each invalid row."""
        if not self.standardize:
            return self._featurized(smiles)
        from smpgnn.data.standardize import standardized

        found = [standardized(text) for text in smiles]
        table = self._featurized(text for text, _ in found)
        reasons = {row: found[row][1] or reason for row, reason in table.errors.items()}
        return replace(table, errors=reasons)

    def _featurized(self, smiles: Iterable[str | None]) -> MoleculeTable:
        Chem = require_rdkit()
        element = _element_codes(Chem, self.elements)
        hybridisation = {
            getattr(Chem.HybridizationType, name): code for code, name in enumerate(HYBRIDISATIONS)
        }
        bond_type = {getattr(Chem.BondType, name): code for code, name in enumerate(BOND_TYPES)}
        other_element, other_hybridisation = len(self.elements), len(HYBRIDISATIONS)
        low, high, other_bond = CHARGES[0], CHARGES[-1], len(BOND_TYPES)

        def codes(molecule: Any, text: str) -> Codes:
            atom_stereo, bond_stereo = _stereo(molecule, text)
            atoms = [
                (
                    element.get(atom.GetAtomicNum(), other_element),
                    min(max(atom.GetFormalCharge(), low), high) - low,
                    min(atom.GetTotalNumHs(), MAX_HYDROGENS),
                    hybridisation.get(atom.GetHybridization(), other_hybridisation),
                    atom.GetIsAromatic(),
                    atom_stereo.get(number, 0),
                )
                for number, atom in enumerate(atoms_of(molecule))
            ]
            bonds = [
                (
                    bond_type.get(bond.GetBondType(), other_bond),
                    bond.GetIsConjugated(),
                    bond.IsInRing(),
                    bond_stereo.get(number, 0),
                )
                for number, bond in enumerate(bonds_of(molecule))
            ]
            return atoms, bonds

        atom_fields = (
            one_hot(len(self.elements) + 1),
            one_hot(len(CHARGES)),
            one_hot(MAX_HYDROGENS + 1),
            one_hot(len(HYBRIDISATIONS) + 1),
            flags(1),
            flags(2),
        )
        bond_fields = (one_hot(len(BOND_TYPES) + 1), flags(1), flags(1), flags(2))
        return molecule_table(smiles, codes, atom_fields, bond_fields, self.max_atoms)


def molecule_table(
    smiles: Iterable[str | None],
    codes: Callable[[Any, str], Codes | str],
    atom_fields: Fields,
    bond_fields: Fields,
    max_atoms: int | None = None,
) -> MoleculeTable:
    """The graphs of SMILES, with one-hot features.

    Each bond is two directed edges; edges are sorted by source, then target.

    Args:
        codes: the codes of the atoms and of the bonds of a molecule, one per field; or the reason
            why the molecule cannot be encoded.
        atom_fields, bond_fields: code c of field f sets channel `fields[f][c]` (-1: none).
    """
    Chem = require_rdkit()
    from rdkit import rdBase

    rows: list[int] = []
    texts: list[str] = []
    errors: dict[int, str] = {}
    parts: list[GraphStore] = []
    block: list[tuple[Any, Any, Any]] = []
    with rdBase.BlockLogs():
        for row, text in enumerate(smiles):
            molecule, reason = read_molecule(Chem, text, max_atoms)
            found = reason if molecule is None else codes(molecule, str(text))
            if isinstance(found, str):
                errors[row] = found
                continue
            ends = [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds_of(molecule)]
            rows.append(row)
            texts.append(str(text))
            # Arrays: lists of Python numbers would need several times the memory.
            atoms, bonds = (np.array(rows_of, dtype=np.int8) for rows_of in found)
            block.append((np.array(ends, dtype=np.int32), atoms, bonds))
            if len(block) == BLOCK:
                parts.append(_packed(block, atom_fields, bond_fields))
                block = []
    parts.append(_packed(block, atom_fields, bond_fields))
    index = torch.tensor(rows, dtype=torch.long)
    return MoleculeTable(GraphStore.concat(parts), index, errors, texts)


def _packed(
    molecules: Sequence[tuple[Any, Any, Any]], atom_fields: Fields, bond_fields: Fields
) -> GraphStore:
    """The graphs of molecules, given as ends of bonds, codes of atoms and codes of bonds."""

    def joined(position: int, width: int) -> NDArray[Any]:
        empty = np.empty((0, width), dtype=np.int8)
        return np.concatenate([empty, *(m[position].reshape(-1, width) for m in molecules)])

    ends, atoms, bonds = joined(0, 2), joined(1, len(atom_fields)), joined(2, len(bond_fields))
    num_atoms, num_bonds = (
        np.array([len(m[position]) for m in molecules], dtype=np.int64) for position in (1, 0)
    )
    graph = np.tile(np.repeat(np.arange(len(molecules)), num_bonds), 2)
    source, target = np.concatenate([ends, ends[:, ::-1]]).astype(np.int32).T
    order = np.lexsort((target, source, graph))
    bond_of_edge = order % max(len(bonds), 1)
    return GraphStore.of_sizes(
        num_atoms,
        2 * num_bonds,
        edge_index=torch.from_numpy(np.stack([source[order], target[order]])),
        x=torch.from_numpy(_encoded(atoms, atom_fields)),
        edge_attr=torch.from_numpy(_encoded(bonds, bond_fields)[bond_of_edge]),
    )


def require_rdkit() -> Any:
    """Import rdkit.Chem; an InputError says how to install it."""
    try:
        from rdkit import Chem
    except ImportError as error:
        raise InputError('SMILES need RDKit: pip install "smpgnn[chem]".') from error
    return Chem


def read_molecule(Chem: Any, text: object, max_atoms: int | None = None) -> tuple[Any, str]:
    """The molecule of a cell and '', or None and the reason."""
    if isinstance(text, int | float) and text == text:  # NaN is a missing cell
        return None, f"the cell contains the number {shown(text)}, not a SMILES"
    if isinstance(text, bytes | list | dict | np.ndarray):
        return None, f"the cell contains {shown(text)}, not text"
    if not isinstance(text, str) or not text.strip():
        return None, "the SMILES is empty"
    smiles = text.strip()
    if smiles == UNREADABLE:
        return None, "the structure of the record cannot be read"
    if len(smiles) > MAX_CHARACTERS:
        return None, f"the SMILES has {len(smiles):,} characters, more than {MAX_CHARACTERS:,}"
    extra = smiles.split(maxsplit=1)[1:]
    # RDKit reads what follows a blank as a name: 'CC O' would silently become ethane.
    if extra and not extra[0].startswith("|"):
        return None, f"'{shown(extra[0])}' follows the SMILES after a blank"
    try:
        molecule = Chem.MolFromSmiles(smiles)
        if molecule is None:
            return None, _problem(Chem, smiles)
    except (ValueError, RuntimeError):  # not a valid C++ string, or an invariant of RDKit fails
        return None, "the text is not a SMILES"
    atoms = molecule.GetNumAtoms()
    if atoms == 0:
        return None, "the molecule has no atoms"
    if max_atoms is not None and atoms > max_atoms:
        return None, f"the molecule has {atoms} atoms, more than the {max_atoms} allowed"
    return molecule, ""


def atoms_of(molecule: Any) -> Iterator[Any]:
    """The atoms in order, faster than RDKit's iterator, which checks the size at each step."""
    return map(molecule.GetAtomWithIdx, range(molecule.GetNumAtoms()))


def bonds_of(molecule: Any) -> Iterator[Any]:
    """The bonds in order."""
    return map(molecule.GetBondWithIdx, range(molecule.GetNumBonds()))


def _element_codes(Chem: Any, elements: Sequence[str]) -> dict[int, int]:
    table = Chem.GetPeriodicTable()
    try:
        return {table.GetAtomicNumber(name): code for code, name in enumerate(elements)}
    except RuntimeError as error:
        raise InputError(
            f"One of the elements {', '.join(elements)} does not exist: correct it."
        ) from error


def _problem(Chem: Any, smiles: str) -> str:
    raw = Chem.MolFromSmiles(smiles, sanitize=False)
    if raw is None:
        return "the text is not a SMILES"
    problems = Chem.DetectChemistryProblems(raw)
    what = problems[0].Message() if problems else "RDKit cannot read it"
    return "the molecule is invalid: " + " ".join(what.split())


def _stereo(molecule: Any, text: str) -> tuple[dict[int, int], dict[int, int]]:
    """Codes of the labelled atoms and bonds: 1 for R or E, 2 for S or Z."""
    if not any(mark in text for mark in "@/\\|"):
        return {}, {}
    from rdkit.Chem import rdCIPLabeler

    try:
        rdCIPLabeler.AssignCIPLabels(molecule, maxRecursiveIterations=_CIP_ITERATIONS)
    except RuntimeError:
        return {}, {}  # too symmetric to label: ignore the stereo marks
    codes = {"R": 1, "r": 1, "E": 1, "S": 2, "s": 2, "Z": 2}

    def labelled(items: Iterator[Any]) -> dict[int, int]:
        return {
            number: codes.get(item.GetProp("_CIPCode"), 0)
            for number, item in enumerate(items)
            if item.HasProp("_CIPCode")
        }

    return labelled(atoms_of(molecule)), labelled(bonds_of(molecule))


def one_hot(width: int) -> Sequence[int]:
    """One channel per code."""
    return range(width)


def flags(width: int) -> Sequence[int]:
    """One channel per code from 1; code 0 is the zero vector."""
    return range(-1, width)


def _encoded(codes: NDArray[np.int8], fields: Fields) -> NDArray[np.uint8]:
    widths = [max(field) + 1 for field in fields]
    encoded = np.zeros((len(codes), sum(widths)), dtype=np.uint8)
    start = 0
    for number, (field, width) in enumerate(zip(fields, widths, strict=True)):
        channel = np.asarray(field)[codes[:, number]]
        rows = np.flatnonzero(channel >= 0)
        encoded[rows, start + channel[rows]] = 1
        start += width
    return encoded
