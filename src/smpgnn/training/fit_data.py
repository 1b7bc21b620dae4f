"""The input of a scikit-learn estimator: its rows, and which of them are for validation."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smpgnn.errors import InputError

Array = NDArray[Any]


def input_list(X: Any) -> list[Any]:
    """SMILES or graphs as a list; of a table with one column, its column."""
    if isinstance(X, str) or hasattr(X, "edge_index"):
        raise InputError("X must be a list of SMILES or graphs, not a single one.")
    shape = getattr(X, "shape", None)
    if shape is not None and len(shape) == 2:
        if shape[1] != 1:
            raise InputError(f"X must have one column, the SMILES, not {shape[1]}: select it.")
        X = X.iloc[:, 0] if hasattr(X, "iloc") else X[:, 0]
    found = list(X)
    if not found:
        raise InputError("X has no rows: give at least one.")
    return found


def validation_part(
    group: Array, target: Array, fraction: float, seed: int, *, classes: bool
) -> Array:
    """The split of each row: 0 training, 1 validation, −1 none, whose group is −1, too.

    Groups are not divided. With `classes`, the split is stratified by the classes in `target` if
    each has two groups.

    Shapes: group, target and result [n].
    """
    from sklearn.model_selection import train_test_split

    if not 0 < fraction < 1:
        raise InputError(f"validation_fraction must be between 0 and 1, not {fraction}.")
    kept = group >= 0
    groups, first = np.unique(group[kept], return_index=True)
    if groups.size < 2:
        raise InputError(f"fit needs two different rows with a target, not {groups.size}.")
    count = min(max(1, round(groups.size * fraction)), groups.size - 1)
    labels = np.nan_to_num(target[kept][first], nan=-1.0) if classes else None
    if labels is not None:
        sizes = np.unique(labels, return_counts=True)[1]
        if sizes.min() < 2 or min(count, groups.size - count) < sizes.size:
            labels = None
    _, held = train_test_split(groups, test_size=count, random_state=seed, stratify=labels)
    return np.where(kept, np.isin(group, held).astype(np.int64), -1)


def molecule_of_rows(smiles: list[Any]) -> Array:
    """The molecule of each row, counted from 0; −1 and a warning for rows that are none."""
    from rdkit import rdBase

    from smpgnn.data.molecule_splits import molecule_groups
    from smpgnn.data.molecules import read_molecule, require_rdkit

    Chem, found = require_rdkit(), np.full(len(smiles), -1)
    with rdBase.BlockLogs():
        reasons = {row: read_molecule(Chem, text) for row, text in enumerate(smiles)}
    bad = {row: reason for row, (molecule, reason) in reasons.items() if molecule is None}
    if bad:
        row, reason = next(iter(bad.items()))
        rows = "1 row is" if len(bad) == 1 else f"{len(bad)} rows are"
        warnings.warn(f"{rows} left out, the first is row {row}: {reason}.", stacklevel=4)
    kept = [row for row in range(len(smiles)) if row not in bad]
    found[kept] = molecule_groups([smiles[row] for row in kept])[0]
    return found


def without_targets(graph: Any) -> Any:
    graph = copy.copy(graph)
    graph.y = None
    return graph
