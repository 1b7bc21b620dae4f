"""Convert SMILES to graphs: one-hot features of atoms and bonds in a packed GraphStore."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

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


@dataclass(frozen=True, eq=False)
class MoleculeTable:
    """The valid molecules of some rows, and the reason for each invalid row.

    `store` has graph g for row `index[g]` ([G], ascending); `errors` maps row to reason.
    """

    store: GraphStore
    index: Tensor
    errors: dict[int, str]


@dataclass(frozen=True)
class MoleculeFeaturizer:
    """General features of a molecule without its hydrogens, as uint8 in {0, 1}.

    Atoms: element (the list, or other), formal charge (clipped to ±2), number of hydrogens
    (0 to 4), hybridisation (sp, sp2, sp3, sp3d, sp3d2, other), aromatic, stereo R and S.
    Bonds: single, double, triple, aromatic, other; conjugated; in a ring; stereo E and Z.
    Each bond is two directed edges; edges are sorted by source, then target.

    Degrees and rings of atoms are left out, because a network can compute them from the graph.
    Stereo is the CIP label, because RDKit's chirality tag depends on the order of the neighbours in
    the SMILES. Rows with more than `max_atoms` atoms are refused.
    """

    elements: tuple[str, ...] = ELEMENTS
    max_atoms: int | None = None

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

    @property
    def atom_channels(self) -> int:
        return len(self.atom_features)

    @property
    def bond_channels(self) -> int:
        return len(self.bond_features)

    def featurize(self, smiles: Iterable[str | None]) -> MoleculeTable:
        """Graphs of the valid rows; `errors` has an entry for each invalid row."""
        Chem = require_rdkit()
        from rdkit import rdBase

        element = _element_codes(Chem, self.elements)
        hybridisation = {
            getattr(Chem.HybridizationType, name): code for code, name in enumerate(HYBRIDISATIONS)
        }
        bond_type = {getattr(Chem.BondType, name): code for code, name in enumerate(BOND_TYPES)}
        other_element, other_hybridisation = len(self.elements), len(HYBRIDISATIONS)
        low, high, other_bond = CHARGES[0], CHARGES[-1], len(BOND_TYPES)
        collector = GraphCollector(
            atom_columns=(
                one_hot(len(self.elements) + 1),
                one_hot(len(CHARGES)),
                one_hot(MAX_HYDROGENS + 1),
                one_hot(len(HYBRIDISATIONS) + 1),
                flags(1),
                flags(2),
            ),
            bond_columns=(one_hot(len(BOND_TYPES) + 1), flags(1), flags(1), flags(2)),
        )
        with rdBase.BlockLogs():
            for row, text in enumerate(smiles):
                molecule, reason = read_molecule(Chem, text, self.max_atoms)
                if molecule is None:
                    collector.errors[row] = reason
                    continue
                atom_stereo, bond_stereo = _stereo(molecule, text or "")
                atoms: list[int] = []
                for number, atom in enumerate(atoms_of(molecule)):
                    atoms += (
                        element.get(atom.GetAtomicNum(), other_element),
                        min(max(atom.GetFormalCharge(), low), high) - low,
                        min(atom.GetTotalNumHs(), MAX_HYDROGENS),
                        hybridisation.get(atom.GetHybridization(), other_hybridisation),
                        atom.GetIsAromatic(),
                        atom_stereo.get(number, 0),
                    )
                ends: list[int] = []
                bonds: list[int] = []
                for number, bond in enumerate(bonds_of(molecule)):
                    ends += (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx())
                    bonds += (
                        bond_type.get(bond.GetBondType(), other_bond),
                        bond.GetIsConjugated(),
                        bond.IsInRing(),
                        bond_stereo.get(number, 0),
                    )
                collector.add(row, atoms, ends, bonds)
        return collector.table()


class GraphCollector:
    """Collects codes of molecules in flat arrays and converts them to one-hot tensors.

    Code c of field f sets the channel `columns[f][c]` of that field (-1: none).
    """

    # Molecules per conversion: limits how many codes are kept and sorted at a time.
    block = 20_000

    def __init__(
        self, atom_columns: Sequence[Sequence[int]], bond_columns: Sequence[Sequence[int]]
    ) -> None:
        self.errors: dict[int, str] = {}
        self._atom_columns, self._bond_columns = atom_columns, bond_columns
        self._rows, self._num_atoms, self._num_bonds = array("q"), array("q"), array("q")
        self._parts: list[tuple[Tensor, Tensor, Tensor]] = []
        self._clear()

    def add(
        self, row: int, atoms: Sequence[int], ends: Sequence[int], bonds: Sequence[int]
    ) -> None:
        """Add a molecule: codes of its atoms, begin and end of its bonds, codes of its bonds."""
        self._rows.append(row)
        self._num_atoms.append(len(atoms) // len(self._atom_columns))
        self._num_bonds.append(len(ends) // 2)
        self._atoms.extend(atoms)
        self._ends.extend(ends)
        self._bonds.extend(bonds)
        if len(self._rows) - self._start == self.block:
            self._convert()

    def table(self) -> MoleculeTable:
        self._convert()
        x, edge_index, edge_attr = zip(*self._parts, strict=True)
        store = GraphStore(
            node_ptr=_pointer(np.array(self._num_atoms, dtype=np.int64)),
            edge_ptr=_pointer(2 * np.array(self._num_bonds, dtype=np.int64)),
            edge_index=torch.cat(edge_index, dim=1),
            x=torch.cat(x),
            edge_attr=torch.cat(edge_attr),
        )
        index = torch.from_numpy(np.array(self._rows, dtype=np.int64))
        return MoleculeTable(store=store, index=index, errors=self.errors)

    def _convert(self) -> None:
        num_bonds = np.array(self._num_bonds[self._start :], dtype=np.int64)
        atoms = np.array(self._atoms, dtype=np.int8).reshape(-1, len(self._atom_columns))
        bonds = np.array(self._bonds, dtype=np.int8).reshape(-1, len(self._bond_columns))
        ends = np.array(self._ends, dtype=np.int32).reshape(-1, 2)
        graph = np.tile(np.repeat(np.arange(len(num_bonds)), num_bonds), 2)
        source = np.concatenate([ends[:, 0], ends[:, 1]])
        target = np.concatenate([ends[:, 1], ends[:, 0]])
        order = np.lexsort((target, source, graph))
        x = torch.from_numpy(_encode(atoms, self._atom_columns))
        edge_index = torch.from_numpy(np.stack([source[order], target[order]]))
        bond_of_edge = order % max(len(bonds), 1)
        edge_attr = torch.from_numpy(_encode(bonds, self._bond_columns)[bond_of_edge])
        self._parts.append((x, edge_index, edge_attr))
        self._clear()

    def _clear(self) -> None:
        self._start = len(self._rows)
        # Typed arrays: lists of Python numbers would need several times the memory.
        self._atoms, self._bonds, self._ends = array("b"), array("b"), array("i")


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
    return (
        {
            number: codes.get(atom.GetProp("_CIPCode"), 0)
            for number, atom in enumerate(atoms_of(molecule))
            if atom.HasProp("_CIPCode")
        },
        {
            number: codes.get(bond.GetProp("_CIPCode"), 0)
            for number, bond in enumerate(bonds_of(molecule))
            if bond.HasProp("_CIPCode")
        },
    )


def one_hot(width: int) -> Sequence[int]:
    """One channel per code."""
    return range(width)


def flags(width: int) -> Sequence[int]:
    """One channel per code from 1; code 0 is the zero vector."""
    return range(-1, width)


def _encode(
    codes: np.ndarray[Any, np.dtype[np.int8]], columns: Sequence[Sequence[int]]
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    widths = [max(field) + 1 for field in columns]
    encoded = np.zeros((len(codes), sum(widths)), dtype=np.uint8)
    start = 0
    for field, (channels, width) in enumerate(zip(columns, widths, strict=True)):
        channel = np.asarray(channels)[codes[:, field]]
        rows = np.flatnonzero(channel >= 0)
        encoded[rows, start + channel[rows]] = 1
        start += width
    return encoded


def _pointer(sizes: np.ndarray[Any, np.dtype[np.int64]]) -> Tensor:
    return torch.from_numpy(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))
