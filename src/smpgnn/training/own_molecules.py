"""The rows of a table of molecules that a run uses: replicates, and what the user is told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import torch
from torch import Tensor

from smpgnn.config.options import MoleculesOptions
from smpgnn.data.descriptors import Descriptors
from smpgnn.data.molecule_splits import canonical_names, molecule_groups
from smpgnn.data.replicates import conflicts, merge_replicates
from smpgnn.data.splits import Rows
from smpgnn.data.summary import DataSummary, summarize
from smpgnn.data.targets import Targets
from smpgnn.errors import InputError
from smpgnn.training.own_splits import OwnData

if TYPE_CHECKING:
    from smpgnn.data.molecules import MoleculeTable


def molecule_rows(
    options: MoleculesOptions,
    data: OwnData,
    found: MoleculeTable,
    targets: Targets,
    weight: Tensor | None,
    smiles: list[str] | None,
) -> OwnData:
    """Choose the rows, add their targets, and describe them.

    Args:
        data: the molecules, without targets.
        found: the same as they were read.
        targets, weight: of all rows of the table.
        smiles: the SMILES of the table; None for a run that is continued, which is not described.
    """
    targets, weight = targets.of(data.rows), None if weight is None else weight[data.rows]
    merge, kept = options.replicates == "mean", targets
    if merge or smiles is not None:
        groups = molecule_groups(found.smiles)[0]
        different = conflicts(groups, targets)
        where = {
            name: [data.content.place(int(data.rows[row])) for row in rows[0][:2]]
            for name, rows in different.items()
        }
    if merge:
        _check_groups(options, groups, data)
        one = merge_replicates(groups, targets, weight)
        data, kept, weight = _merged(options, data, groups, one.first), one.targets, one.weight
    if smiles is not None:
        counts = np.bincount(groups)
        summary = DataSummary(
            rows=len(smiles),
            left_out=len(found.errors),
            targets=summarize(kept),
            molecules=counts.size,
            several=int((counts > 1).sum()),
            several_rows=int(counts[counts > 1].sum()),
            conflicts={name: len(rows) for name, rows in different.items()},
            replicates=options.replicates,
            standardize=options.standardize,
            changed=_changed(found, smiles) if options.standardize else 0,
        )
        first = {name: (found.smiles[rows[0][0]], where[name]) for name, rows in different.items()}
        data = replace(data, summary=summary, notes=(*data.notes, *_notes(summary, first)))
    store = replace(
        kept.added(data.store),
        y=kept.values.float(),
        weight=None if weight is None else weight.float(),
    )
    return replace(data, store=store)


def _check_groups(options: MoleculesOptions, groups: Rows, data: OwnData) -> None:
    """Refuse rows of one molecule in several parts of a given split, or with other descriptors."""
    first = np.unique(groups, return_index=True)[1][groups]

    def refuse(row: int, what: str) -> NoReturn:
        one, other = (data.content.place(int(data.rows[at])) for at in (first[row], row))
        raise InputError(f"--replicates mean: {one} and {other} have the same molecule, but {what}")

    sides = None
    if data.given is not None:
        part = torch.full((int(data.rows.max()) + 1,), -1)
        inside = data.given.row < part.numel()
        part[data.given.row[inside]] = data.given.part[inside]
        sides = part[data.rows].numpy()
    elif options.split_column and data.column is not None:
        names = data.column.astype(str).str.strip().str.casefold()
        sides = np.unique(names, return_inverse=True)[1]
    if sides is not None and (wrong := np.flatnonzero(sides != sides[first])).size:
        refuse(
            wrong[0],
            "the given split has them in different parts: correct it, or use --replicates keep.",
        )
    columns, u = Descriptors.named(options.descriptors).columns, data.store.u
    if u is None or not columns:
        return
    values = u[:, -len(columns) :]
    for row, column in (values != values[torch.from_numpy(first)]).nonzero()[:1].tolist():
        refuse(
            row, f"different values of the descriptor '{columns[column]}': use --replicates keep."
        )


def _merged(options: MoleculesOptions, data: OwnData, groups: Rows, first: Rows) -> OwnData:
    """The data with one row per molecule; of times the earliest."""
    assert data.smiles is not None
    chosen = first
    if data.column is not None and options.split_time and not options.split_column:
        order = np.lexsort((data.times(options), groups))
        chosen = order[np.unique(groups[order], return_index=True)[1]]
    index = torch.from_numpy(first)
    return replace(
        data,
        store=data.store.select(index),
        rows=data.rows[index],
        column=None if data.column is None else data.column.iloc[chosen],
        smiles=[data.smiles[row] for row in first],
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
            f"{' and '.join(places)}){rest}."
        )
    return tuple(notes)
