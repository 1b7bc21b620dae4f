"""Choose the split of the user's own data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from smpgnn.config.options import TableOptions
from smpgnn.data.columns import place, read_times
from smpgnn.data.division import Divider
from smpgnn.data.molecule_splits import GROUPS, molecule_groups, molecule_split
from smpgnn.data.splits import (
    Rows,
    Split,
    given_split,
    group_rows,
    quantile_bins,
    random_split,
    stratified_split,
    time_split,
)
from smpgnn.data.store import GraphStore
from smpgnn.data.targets import TargetSpec
from smpgnn.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Basis:
    """What determines the split of the user's own data, apart from the targets.

    Args:
        source: the name of the data in messages.
        column: the split column or, with `--split time`, the times; their index names the rows.
        smiles: of molecules.
        rows_alone: split rows of one molecule apart, as versions did that saved no split.
    """

    source: str
    column: pd.Series[Any] | None = None
    smiles: list[str] | None = None
    rows_alone: bool = False


def basis_column(options: TableOptions) -> str:
    """The column that the split needs; empty if none."""
    if options.split_column:
        return options.split_column
    if options.split == "time" and not options.split_time:
        raise InputError("--split time: name the column of dates or numbers with --split-time.")
    if options.split != "time" and options.split_time:
        raise InputError("--split-time: applies to --split time only: add it.")
    return options.split_time


def split_rows(
    options: TableOptions, store: GraphStore, targets: TargetSpec, basis: Basis
) -> tuple[Split, tuple[str, ...]]:
    """Split the graphs of `store` as the settings say; also notes for the user."""
    column, smiles = basis.column, basis.smiles
    if options.split_column:
        assert column is not None
        split = given_split(column, f"{basis.source}, column '{options.split_column}'")
        return split, () if smiles is None else overlap(split, smiles)
    fractions, seed = options.split_fractions, options.seed
    if options.split in GROUPS:
        return molecule_split(options.split, _of_molecules(options, smiles), fractions, seed), ()
    groups, notes = None, tuple[str, ...]()
    if smiles is not None and not basis.rows_alone:
        groups, _ = molecule_groups(smiles)
        notes = _duplicates(groups)
    if options.split == "time":
        assert column is not None
        times = read_times(column, f"{basis.source}, column '{options.split_time}'")
        return time_split(times, fractions, seed, groups), notes
    single = targets.task == "classification" and len(targets.names) == 1
    if options.split == "stratified" or (single and store.y is not None):
        if store.y is None:
            raise InputError(
                "--split stratified: graphs with node targets have no class: use random."
            )
        classes = _classes(store.y[:, 0], targets, fractions)
        return stratified_split(classes, fractions, seed, groups), notes
    return random_split(len(store), fractions, seed, groups), notes


def split_nodes(options: TableOptions, store: GraphStore, targets: TargetSpec) -> Split:
    """Split the nodes with a target of one or two graphs; they count through both graphs."""
    if options.split not in ("random", "stratified"):
        raise InputError(f"--split {options.split}: cannot split the nodes of a graph: use random.")
    assert store.y_node is not None
    known = torch.nonzero(~store.y_node.isnan().all(1)).flatten()
    fractions, seed = options.split_fractions, options.seed
    if options.split == "stratified":
        classes = _classes(store.y_node[known, 0], targets, fractions)
        split = stratified_split(classes, fractions, seed)
    else:
        split = random_split(known.numel(), fractions, seed)
    return Split(*(known[part] for part in split))


def split_folds(
    options: TableOptions, store: GraphStore, targets: TargetSpec, basis: Basis, *, by_node: bool
) -> dict[tuple[int, int], Split]:
    """The split of each (repeat, fold): test rows are the fold, validation rows are from the rest.

    Folds are divided by what `--split` keeps together, or given by the split column. With `by_node`
    nodes are split, counted through all graphs.
    """
    count, column = options.folds, basis.column
    divider, rows = _divider(options, store, targets, basis, by_node=by_node)
    given = None
    if options.split_column:
        assert column is not None
        empty = np.flatnonzero(column.isna())
        where = f"{basis.source}, column '{options.split_column}'"
        if empty.size:
            raise InputError(f"{where}, {place(column, int(empty[0]))}: has no fold: fill it in.")
        given = group_rows(column.tolist())
        if given.max() + 1 != count:
            raise InputError(
                f"{where}: has {given.max() + 1} different values, but --folds is {count}: give "
                "each fold a value."
            )
    val = options.split_fractions[1] / sum(options.split_fractions[:2])
    found = {}
    for repeat in range(options.repeats):
        seed = options.seed + repeat
        fold = divider.divide(rows, [1.0] * count, seed) if given is None else given
        for number in range(count):
            rest, test = rows[fold != number], rows[fold == number]
            chosen = divider.divide(rest, [1 - val, val], seed) == 1
            parts = (rest[~chosen], rest[chosen], test)
            found[repeat + 1, number + 1] = Split(*(torch.from_numpy(part) for part in parts))
    return found


def take_calibration(
    options: TableOptions,
    store: GraphStore,
    targets: TargetSpec,
    basis: Basis,
    split: Split,
    *,
    by_node: bool,
) -> tuple[Split, Tensor]:
    """Take rows for calibration from those for training, divided by what `--split` keeps together.

    The split without them, and the rows; they are `--calibration` of all rows.
    """
    divider, _ = _divider(options, store, targets, basis, by_node=by_node)
    train = split.train.numpy()
    share = options.calibration * sum(part.numel() for part in split) / len(train)
    if share >= 1:
        raise InputError(
            f"--calibration {options.calibration:g}: leaves no row for training: give a smaller "
            "share."
        )
    chosen = divider.divide(train, [1 - share, share], options.seed) == 1
    rest = replace(split, train=torch.from_numpy(train[~chosen]))
    return rest, torch.from_numpy(train[chosen])


def _divider(
    options: TableOptions, store: GraphStore, targets: TargetSpec, basis: Basis, *, by_node: bool
) -> tuple[Divider, Rows]:
    """What rows are divided by, as the settings say, and all rows (or nodes with a target)."""
    target = store.y if store.y_node is None else store.y_node
    assert target is not None
    stratified = options.split == "stratified"
    if by_node:
        rows = torch.nonzero(~target.isnan().all(1)).flatten().numpy()
        labels = _classes(target[:, 0], targets, options.split_fractions) if stratified else None
        groups = np.arange(len(target))
        return Divider(groups, None if labels is None else labels.numpy(), what="nodes"), rows
    rows, smiles = np.arange(len(store)), basis.smiles
    if options.split in GROUPS and not options.split_column:
        groups_of, what = GROUPS[options.split]
        return Divider(groups_of(_of_molecules(options, smiles)), by_size=True, what=what), rows
    groups = rows if smiles is None else molecule_groups(smiles)[0]
    single = targets.task == "classification" and len(targets.names) == 1
    labels = None
    if store.y is not None and (stratified or single):
        labels = _classes(store.y[:, 0], targets, options.split_fractions)
    what = "graphs" if smiles is None else "molecules"
    return Divider(groups, None if labels is None else labels.double().numpy(), what=what), rows


def _of_molecules(options: TableOptions, smiles: list[str] | None) -> list[str]:
    """The SMILES; refuse graphs that have none."""
    if smiles is None:
        what = "scaffolds" if options.split == "scaffold" else "fingerprints"
        raise InputError(f"--split {options.split}: only molecules have {what}: use random.")
    return smiles


def overlap(split: Split, smiles: list[str]) -> tuple[str, ...]:
    """A note on molecules of a given split that are both in training and in another split."""
    groups, different = molecule_groups(smiles)
    train = set(groups[split.train.numpy()].tolist())
    notes = []
    for name, rows in (("test", split.test), ("validation", split.val)):
        both = sorted(train.intersection(groups[rows.numpy()].tolist()))
        if both:
            molecules = "1 molecule is" if len(both) == 1 else f"{len(both)} molecules are"
            notes.append(
                f"The given split was kept, but {molecules} both in training and in {name} "
                f"(first: {different[both[0]]})."
            )
    return tuple(notes)


def _classes(values: Tensor, targets: TargetSpec, fractions: tuple[float, ...]) -> Tensor:
    """The classes of the first target; of a regression, its quantile bins."""
    return values if targets.kinds[0] == "classification" else quantile_bins(values, fractions)


def _duplicates(groups: Rows) -> tuple[str, ...]:
    counts = np.bincount(groups)
    several = counts[counts > 1]
    if several.size == 0:
        return ()
    molecules = "1 molecule has" if several.size == 1 else f"{several.size} molecules have"
    return (
        f"Duplicates: {molecules} several rows ({several.sum()} in all), which stay in one split.",
    )
