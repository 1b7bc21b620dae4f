"""Split rows into training, validation and test: random, stratified, by scaffold or by column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.data.molecules import read_molecule, require_rdkit
from smpgnn.data.tables import listing
from smpgnn.errors import InputError, shown

FRACTIONS = (0.8, 0.1, 0.1)
PARTS = ("train", "val", "test")
_NAMES = {
    name: number
    for number, names in enumerate(("train training", "val valid validation dev", "test testing"))
    for name in names.split()
}


@dataclass(frozen=True, eq=False)
class Split:
    """Ascending row indices of the three splits; each row is in exactly one."""

    train: Tensor
    val: Tensor
    test: Tensor

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.train, self.val, self.test))


def random_split(n: int, fractions: Sequence[float] = FRACTIONS, seed: int = 0) -> Split:
    """Shuffle the rows and split them by the fractions; each split gets at least one row."""
    sizes = _sizes(n, _checked(fractions))
    order = np.random.default_rng(seed).permutation(n)
    part = np.repeat(np.arange(3), sizes)
    return _split(part[np.argsort(order)])


def stratified_split(
    labels: Sequence[Any] | Tensor, fractions: Sequence[float] = FRACTIONS, seed: int = 0
) -> Split:
    """Split each class by the fractions, at least one row per split if it has three rows.

    A class with two rows has one in training and the other in test or validation, alternately; a
    class with one row is in training. Rows without a label (NaN, None) form a separate class.
    """
    fractions = _checked(fractions)
    values = labels.flatten().tolist() if isinstance(labels, Tensor) else list(labels)
    groups: dict[Any, list[int]] = {}
    for row, value in enumerate(values):
        groups.setdefault(None if _missing(value) else value, []).append(row)
    random = np.random.default_rng(seed)
    part = np.zeros(len(values), dtype=np.int64)
    pairs = 0
    for rows in groups.values():
        shuffled = random.permutation(rows)
        if len(rows) >= 3:
            part[shuffled] = np.repeat(np.arange(3), _sizes(len(rows), fractions))
        elif len(rows) == 2:
            part[shuffled[1]] = 2 - pairs % 2
            pairs += 1
    return _split(part, f"{len(values)} rows in {len(groups)} classes")


def scaffold_split(
    smiles: Sequence[str], fractions: Sequence[float] = FRACTIONS, seed: int = 0
) -> Split:
    """Keep molecules with the same Bemis–Murcko scaffold in one split, so test scaffolds are new.

    Scaffold groups are assigned from the largest to the smallest, groups of equal size in random
    order: each to the first of train, validation and test with enough capacity, or to train if
    none has. Molecules without rings share the empty scaffold. Stereochemistry is ignored.
    """
    fractions = _checked(fractions)
    groups: dict[str, list[int]] = {}
    for row, scaffold in enumerate(_scaffolds(smiles)):
        groups.setdefault(scaffold, []).append(row)
    capacity = list(_sizes(len(smiles), fractions))
    members = list(groups.values())
    order = np.random.default_rng(seed).permutation(len(members))
    part = np.zeros(len(smiles), dtype=np.int64)
    for rows in sorted((members[g] for g in order), key=len, reverse=True):
        where = next((p for p in range(3) if len(rows) <= capacity[p]), 0)
        capacity[where] -= len(rows)
        part[rows] = where
    return _split(part, f"{len(smiles)} molecules with {len(groups)} scaffolds")


def given_split(
    values: Sequence[Any],
    *,
    source: str = "the split column",
    place: Callable[[int], str] = lambda row: f"row {row + 1}",
) -> Split:
    """The split given by a column: train, val (valid, validation, dev) or test, in any case.

    `place` names the row of a value in messages.
    """
    part = np.empty(len(values), dtype=np.int64)
    for row, value in enumerate(values):
        name = value.strip().casefold() if isinstance(value, str) else None
        if name not in _NAMES:
            known = f"'{shown(value)}'" if name or not _missing(value) else "empty"
            raise InputError(
                f"{source}, {place(row)}: the split is {known}, but must be 'train', 'val' or "
                "'test'."
            )
        part[row] = _NAMES[name]
    split = _split(part)
    for name, rows in zip(PARTS, split, strict=True):
        if rows.numel() == 0:
            raise InputError(f"{source} has no row '{name}': mark some rows as '{name}'.")
    return split


def _checked(fractions: Sequence[float]) -> tuple[float, float, float]:
    given = tuple(float(f) for f in fractions)
    if len(given) != 3 or not all(f > 0 for f in given) or abs(sum(given) - 1) > 1e-6:
        raise InputError(
            f"The fractions are {listing(fractions)}, but must be three positive numbers that sum "
            "to 1."
        )
    return given


def _sizes(n: int, fractions: Sequence[float]) -> tuple[int, int, int]:
    """Rows of each split; validation and test are rounded, but have at least one."""
    if n < 3:
        raise InputError(f"{n} rows are too few for three splits: give at least three.")
    val = min(max(1, round(n * fractions[1])), n - 2)
    test = min(max(1, round(n * fractions[2])), n - 1 - val)
    return n - val - test, val, test


def _split(part: NDArray[Any], what: str = "") -> Split:
    """The rows of each split, given the split of each row; `what` names the rows in messages."""
    split = Split(*(torch.from_numpy(np.flatnonzero(part == p)) for p in range(3)))
    for name, rows in zip(PARTS, split, strict=True):
        if what and rows.numel() == 0:
            raise InputError(
                f"{what} leave the split '{name}' empty: give more rows or use a random split."
            )
    return split


def _missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # comparing pandas' NA gives NA
        return True
    except ValueError:  # comparing arrays gives an array
        return False


def _scaffolds(smiles: Sequence[str]) -> list[str]:
    Chem = require_rdkit()
    from rdkit import rdBase
    from rdkit.Chem.Scaffolds import MurckoScaffold

    murcko: Any = MurckoScaffold
    found: list[str] = []
    with rdBase.BlockLogs():
        for row, text in enumerate(smiles):
            molecule, reason = read_molecule(Chem, text)
            if molecule is None:
                raise InputError(f"Row {row + 1} has no scaffold because {reason}: remove the row.")
            try:
                found.append(murcko.MurckoScaffoldSmiles(mol=molecule))
            except (ValueError, RuntimeError):  # of a few molecules: use the molecule itself
                found.append(Chem.MolToSmiles(molecule, isomericSmiles=False))
    return found
