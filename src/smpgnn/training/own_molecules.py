"""The rows of a table of molecules that a run uses: replicates, and what the user is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from smpgnn.config.options import MoleculesOptions
from smpgnn.data.columns import read_times
from smpgnn.data.descriptors import Descriptors
from smpgnn.data.molecule_splits import canonical_names, molecule_groups
from smpgnn.data.replicates import conflicts, merge_replicates
from smpgnn.data.splits import Rows
from smpgnn.data.store import GraphStore
from smpgnn.data.summary import DataSummary, summarize
from smpgnn.data.targets import Targets
from smpgnn.errors import InputError
from smpgnn.training.own_splits import Basis
from smpgnn.training.run_data import SplitTable

if TYPE_CHECKING:
    from smpgnn.data.molecules import MoleculeTable


@dataclass(frozen=True, eq=False)
class MoleculeRows:
    """The graphs of a run with their targets, the rows they come from, and notes for the user."""

    store: GraphStore
    rows: Tensor
    basis: Basis
    notes: tuple[str, ...]
    summary: DataSummary | None


def molecule_rows(
    options: MoleculesOptions,
    found: MoleculeTable,
    targets: Targets,
    weight: Tensor | None,
    basis: Basis,
    place_of: Callable[[int], str],
    smiles: list[str] | None,
    own: SplitTable | None,
) -> MoleculeRows:
    """Choose the rows, and describe them.

    Args:
        options: the settings.
        found: the molecules of the table.
        targets, weight: of all rows of the table.
        basis: what the rows in `found` are split by.
        place_of: names a row of the table.
        smiles: the SMILES of the table; None for a run that is continued, which is not described.
        own: a split from Python.
    """
    store, rows, notes, summary = found.store, found.index, tuple[str, ...](), None
    targets, weight = targets.of(rows), None if weight is None else weight[rows]
    merge = options.replicates == "mean"
    groups = molecule_groups(found.smiles)[0] if merge or smiles is not None else None
    if groups is not None and merge:
        _check_sides(options, groups, basis, own, rows, place_of)
        _check_columns(options, groups, store.u, rows, place_of)
        one = merge_replicates(groups, targets, weight)
        first = torch.from_numpy(one.first)
        made = store.select(first), rows[first], _merged_basis(options, basis, groups, one.first)
        kept_targets, kept_weight = one.targets, one.weight
    else:
        made, kept_targets, kept_weight = (store, rows, basis), targets, weight
    if groups is not None and smiles is not None:
        different = conflicts(groups, targets)
        counts = np.bincount(groups)
        changed = _changed(found, smiles) if options.standardize else 0
        summary = DataSummary(
            rows=len(smiles),
            left_out=len(found.errors),
            targets=summarize(kept_targets),
            molecules=counts.size,
            several=int((counts > 1).sum()),
            several_rows=int(counts[counts > 1].sum()),
            conflicts={name: len(found) for name, found in different.items()},
            replicates=options.replicates,
            standardize=options.standardize,
            changed=changed,
        )
        where = {
            name: (found.smiles[first[0]], [place_of(int(rows[row])) for row in first])
            for name, (first, *_) in different.items()
        }
        notes = _notes(summary, where)
    store, rows, basis = made
    store = replace(
        kept_targets.added(store),
        y=kept_targets.values.float(),
        weight=None if kept_weight is None else kept_weight.float(),
    )
    return MoleculeRows(store, rows, basis, notes, summary)


def _check_sides(
    options: MoleculesOptions,
    groups: Rows,
    basis: Basis,
    own: SplitTable | None,
    rows: Tensor,
    place_of: Callable[[int], str],
) -> None:
    """Refuse a given split with one molecule in several parts, whose mean would be in both."""
    if own is not None:
        part = torch.full((int(rows.max()) + 1,), -1)
        inside = own.row < part.numel()
        part[own.row[inside]] = own.part[inside]
        sides = part[rows].numpy()
    elif options.split_column and basis.column is not None:
        names = basis.column.astype(str).str.strip().str.casefold()
        sides = np.unique(names, return_inverse=True)[1]
    else:
        return
    first = np.unique(groups, return_index=True)[1]
    wrong = np.flatnonzero(sides != sides[first][groups])
    if wrong.size:
        one, other = (int(rows[row]) for row in (first[groups[wrong[0]]], wrong[0]))
        raise InputError(
            f"--replicates mean: {place_of(one)} and {place_of(other)} have the same molecule, but "
            "the given split has them in different parts: correct it, or use --replicates keep."
        )


def _check_columns(
    options: MoleculesOptions,
    groups: Rows,
    u: Tensor | None,
    rows: Tensor,
    place_of: Callable[[int], str],
) -> None:
    """Refuse rows of one molecule that differ in a column of descriptors."""
    columns = Descriptors.named(options.descriptors).columns
    if u is None or not columns:
        return
    values = u[:, -len(columns) :]
    first = torch.from_numpy(np.unique(groups, return_index=True)[1])[torch.from_numpy(groups)]
    wrong = (values != values[first]).nonzero()
    if len(wrong):
        row, column = wrong[0].tolist()
        one, other = place_of(int(rows[first[row]])), place_of(int(rows[row]))
        raise InputError(
            f"--replicates mean: {one} and {other} have the same molecule, but different values of "
            f"the descriptor '{columns[column]}': use --replicates keep."
        )


def _merged_basis(options: MoleculesOptions, basis: Basis, groups: Rows, first: Rows) -> Basis:
    """The basis with one row per molecule; of times the earliest."""
    assert basis.smiles is not None
    column, chosen = basis.column, first
    if column is not None and options.split_time and not options.split_column:
        times = read_times(column, f"{basis.source}, column '{options.split_time}'")
        order = np.lexsort((times, groups))
        chosen = order[np.unique(groups[order], return_index=True)[1]]
    return replace(
        basis,
        column=None if column is None else column.iloc[chosen],
        smiles=[basis.smiles[row] for row in first],
    )


def _changed(found: MoleculeTable, smiles: list[str]) -> int:
    """How many molecules the standardisation has changed."""
    before = canonical_names(tuple(str(smiles[row]) for row in found.index.tolist()))
    return sum(name != text for (name, _), text in zip(before, found.smiles, strict=True))


def _notes(summary: DataSummary, conflicts: dict[str, tuple[str, list[str]]]) -> tuple[str, ...]:
    """Notes on standardisation, replicates and conflicting classes; `conflicts` has the first."""
    notes = []
    if summary.standardize:
        notes.append(
            "Standardised: the largest organic fragment, neutralised; "
            f"{summary.changed:,} molecules changed."
        )
    averaged = summary.replicates == "mean"
    if averaged and summary.several:
        molecules = "1 molecule has" if summary.several == 1 else f"{summary.several:,} have"
        notes.append(
            f"Replicates: of {summary.molecules:,} molecules {molecules} several rows "
            f"({summary.several_rows:,} in all), which are averaged."
        )
    for name, (smiles, places) in conflicts.items():
        count = summary.conflicts[name]
        molecules = "1 molecule has" if count == 1 else f"{count:,} molecules have"
        rest = "; the most frequent class counts, none if there are several" if averaged else ""
        notes.append(
            f"Target '{name}': {molecules} rows of different classes (first: {smiles}, "
            f"{' and '.join(places[:2])}){rest}."
        )
    return tuple(notes)
