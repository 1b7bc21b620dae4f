"""Split molecules by scaffold or by cluster; find rows of the same molecule."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from smpgnn.data.molecule_features import morgan_bits
from smpgnn.data.molecules import read_molecule, require_rdkit
from smpgnn.data.splits import FRACTIONS, Rows, Split, cluster_split, group_rows
from smpgnn.errors import InputError
from smpgnn.processes import in_pieces

#: Molecules of a Butina cluster have at most this Tanimoto distance from its centre.
BUTINA_CUTOFF = 0.6
#: Maximum number of different molecules to cluster; the time grows with its square.
MAX_BUTINA = 20_000
_BLOCK = 256  # molecules whose distances to all others are in memory at a time


def molecule_groups(smiles: Sequence[str]) -> tuple[Rows, list[str]]:
    """The molecule of each row, by canonical SMILES, and the first SMILES of each molecule.

    Molecules count from 0 in order of appearance.
    """
    texts = group_rows(smiles)
    different = list(dict.fromkeys(smiles))
    canonical: list[str] = []
    for number, (name, reason) in enumerate(canonical_names(tuple(different))):
        if reason:
            row = int(np.flatnonzero(texts == number)[0])
            raise InputError(f"Row {row + 1} cannot be split because {reason}: remove the row.")
        canonical.append(name)
    first: dict[str, str] = {}
    for name, text in zip(canonical, different, strict=True):
        first.setdefault(name, text)
    return group_rows(canonical)[texts], list(first.values())


@lru_cache(maxsize=2)
def canonical_names(smiles: tuple[str, ...]) -> list[tuple[str, str]]:
    """`canonical_smiles` of each row. A run asks several times, for the same rows."""
    return [name for _, names in in_pieces(_named, smiles) for name in names]


def _named(smiles: Sequence[str]) -> list[tuple[str, str]]:
    return [canonical_smiles(text) for text in smiles]


@lru_cache(maxsize=200_000)
def canonical_smiles(text: str) -> tuple[str, str]:
    """The canonical SMILES and '', or '' and the reason why there is none."""
    Chem = require_rdkit()
    from rdkit import rdBase

    with rdBase.BlockLogs():
        molecule, reason = read_molecule(Chem, text)
        try:
            return ("", reason) if molecule is None else (Chem.MolToSmiles(molecule), "")
        except (ValueError, RuntimeError):  # of a few molecules
            return text.strip(), ""


def molecule_split(
    kind: str, smiles: Sequence[str], fractions: Sequence[float] = FRACTIONS, seed: int = 0
) -> Split:
    """Keep molecules with the same scaffold, or of the same cluster, in one split."""
    groups_of, what = GROUPS[kind]
    return cluster_split(groups_of(smiles), fractions, seed, what=what)


def scaffold_groups(smiles: Sequence[str]) -> Rows:
    """The Bemis–Murcko scaffold of each row, from 0, without stereochemistry.

    Molecules without rings share the empty scaffold. Rows of one molecule have the same scaffold,
    however its SMILES is written.
    """
    molecule, different = molecule_groups(smiles)
    return group_rows(_scaffolds(different))[molecule]


def butina_groups(smiles: Sequence[str]) -> Rows:
    """The Butina cluster of each row, from 0.

    Clusters are those of Morgan fingerprints (radius 2, 2048 bits) at Tanimoto distance
    `BUTINA_CUTOFF`. At most `MAX_BUTINA` different molecules are clustered.
    """
    molecule, different = molecule_groups(smiles)
    if len(different) > MAX_BUTINA:
        raise InputError(
            f"--split butina: clusters at most {MAX_BUTINA:,} different molecules, not "
            f"{len(different):,}: use --split scaffold."
        )
    return butina_clusters(morgan_bits(different), BUTINA_CUTOFF)[molecule]


#: Which groups of similar molecules a split keeps together, and their name in messages.
GROUPS = {"scaffold": (scaffold_groups, "scaffolds"), "butina": (butina_groups, "clusters")}


def butina_clusters(bits: NDArray[np.uint8], cutoff: float) -> Rows:
    """The cluster of each row, equal to that of RDKit's `Butina.ClusterData`.

    The points with most neighbours within the Tanimoto distance `cutoff` become centres in turn,
    and take the neighbours that no earlier centre has. Distances are computed twice rather than
    stored, so memory grows with the number of rows and not with its square.

    Shapes: bits [n, B] of 0 and 1; result [n], clusters count from 0.
    """
    rows = torch.from_numpy(bits).float()
    total = rows.sum(1)

    def near(some: torch.Tensor) -> NDArray[np.bool_]:
        """Whether each row is a neighbour of `some` [m] rows, [m, n]; of itself it always is."""
        shared = rows[some] @ rows.T
        union = total[some, None] + total - shared
        similarity = shared.double() / union.clamp(min=1).double()
        found = 1 - similarity <= cutoff
        found[torch.arange(some.numel()), some] = True
        return found.numpy()

    n = len(rows)
    blocks = torch.split(torch.arange(n), _BLOCK)
    counts = np.concatenate([near(block).sum(1) for block in blocks])
    cluster, number = np.full(n, -1, dtype=np.int64), 0
    order = np.lexsort((-np.arange(n), -counts))  # of equal counts the last row first, as in RDKit
    while order.size:
        # A few candidates at a time: most of later blocks already belong to a cluster.
        some, order = order[:_BLOCK], order[_BLOCK:]
        for centre, neighbours in zip(some, near(torch.from_numpy(some)), strict=True):
            if cluster[centre] < 0:
                cluster[neighbours & (cluster < 0)] = number
                number += 1
        order = order[cluster[order] < 0]
    return cluster


def _scaffolds(smiles: Sequence[str]) -> list[str]:
    Chem = require_rdkit()
    from rdkit import rdBase
    from rdkit.Chem.Scaffolds import MurckoScaffold

    murcko: Any = MurckoScaffold
    found: list[str] = []
    with rdBase.BlockLogs():
        for text in smiles:
            molecule, _ = read_molecule(Chem, text)
            try:
                found.append(murcko.MurckoScaffoldSmiles(mol=molecule))
            except (ValueError, RuntimeError):  # of a few molecules: use the molecule itself
                found.append(Chem.MolToSmiles(molecule, isomericSmiles=False))
    return found
