"""The user's own data, and the choice of their split."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.config.options import TableOptions
from smpgnn.data.columns import place, read_times
from smpgnn.data.division import Divider
from smpgnn.data.fingerprint import Content
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
from smpgnn.data.summary import DataSummary
from smpgnn.data.targets import TargetSpec
from smpgnn.errors import InputError
from smpgnn.training.run_data import SplitTable

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class OwnData:
    """The user's own data, once they are read.

    Args:
        store: the graphs, with targets in `y` or `y_node`.
        targets: describes the targets.
        content: a fingerprint of the data.
        source: how raw input becomes such graphs.
        rows: of the data, from which the graphs come, [G].
        column: the split column or, with `--split time`, the times; their index names the rows.
        smiles: of molecules.
        given: a split from Python.
        rows_alone: split rows of one molecule apart, as versions did that saved no split.
        notes: messages for the user.
        summary: of the data, for a new run.
    """

    store: GraphStore
    targets: TargetSpec
    content: Content
    source: dict[str, Any]
    rows: Tensor
    column: pd.Series[Any] | None = None
    smiles: list[str] | None = None
    given: SplitTable | None = None
    rows_alone: bool = False
    notes: tuple[str, ...] = ()
    summary: DataSummary | None = None

    @property
    def level(self) -> str:
        """What has targets: 'graph' or 'node'."""
        return "node" if self.store.y is None else "graph"

    @property
    def target(self) -> Tensor:
        """The targets of graphs or nodes."""
        target = self.store.y if self.store.y_node is None else self.store.y_node
        assert target is not None
        return target

    def times(self, options: TableOptions) -> NDArray[np.float64]:
        """The times of the graphs."""
        return read_times(self._column(), f"{self._place(options)}, column '{options.split_time}'")

    def split(self, options: TableOptions) -> Split:
        """The split in the split column."""
        return given_split(
            self._column(), f"{self._place(options)}, column '{options.split_column}'"
        )

    def folds(self, options: TableOptions) -> Rows:
        """The fold of each graph in the split column."""
        column, count = self._column(), options.folds
        where = f"{self._place(options)}, column '{options.split_column}'"
        empty = np.flatnonzero(column.isna())
        if empty.size:
            raise InputError(f"{where}, {place(column, int(empty[0]))}: has no fold: fill it in.")
        given = group_rows(column.tolist())
        if given.max() + 1 != count:
            raise InputError(
                f"{where}: has {given.max() + 1} different values, but --folds is {count}: give "
                "each fold a value."
            )
        return given

    def _column(self) -> pd.Series[Any]:
        assert self.column is not None
        return self.column

    def _place(self, options: TableOptions) -> str:
        return getattr(options, "labels", "") or self.content.source


def basis_column(options: TableOptions) -> str:
    """The column that the split needs; empty if none."""
    if options.split_column:
        return options.split_column
    if options.split == "time" and not options.split_time:
        raise InputError("--split time: name the column of dates or numbers with --split-time.")
    if options.split != "time" and options.split_time:
        raise InputError("--split-time: applies to --split time only: add it.")
    return options.split_time


def split_rows(options: TableOptions, data: OwnData) -> tuple[Split, tuple[str, ...]]:
    """Split the graphs as the settings say; also notes for the user."""
    if options.split_column:
        split = data.split(options)
        return split, () if data.smiles is None else overlap(split, data.smiles)
    fractions, seed = options.split_fractions, options.seed
    if options.split in GROUPS:
        return molecule_split(options.split, _of_molecules(options, data), fractions, seed), ()
    groups, notes = None, tuple[str, ...]()
    if data.smiles is not None and not data.rows_alone:
        groups, _ = molecule_groups(data.smiles)
        notes = _duplicates(groups)
    if options.split == "time":
        return time_split(data.times(options), fractions, seed, groups), notes
    if options.split == "stratified" and data.level == "node":
        raise InputError("--split stratified: graphs with node targets have no class: use random.")
    classes = _classes_of_graphs(options, data)
    if classes is not None:
        return stratified_split(classes, fractions, seed, groups), notes
    return random_split(len(data.store), fractions, seed, groups), notes


def split_nodes(options: TableOptions, data: OwnData) -> Split:
    """Split the nodes with a target of one or two graphs; they count through both graphs."""
    if options.split not in ("random", "stratified"):
        raise InputError(f"--split {options.split}: cannot split the nodes of a graph: use random.")
    known = torch.nonzero(~data.target.isnan().all(1)).flatten()
    fractions, seed = options.split_fractions, options.seed
    if options.split == "stratified":
        classes = _classes(data.target[known, 0], data.targets, fractions)
        split = stratified_split(classes, fractions, seed)
    else:
        split = random_split(known.numel(), fractions, seed)
    return Split(*(known[part] for part in split))


def split_folds(
    options: TableOptions, data: OwnData, *, by_node: bool
) -> dict[tuple[int, int], Split]:
    """The split of each (repeat, fold): test rows are the fold, validation rows are from the rest.

    Folds are divided by what `--split` keeps together, or given by the split column. With `by_node`
    nodes are split, counted through all graphs.
    """
    divider, rows = _divider(options, data, by_node=by_node)
    given = data.folds(options) if options.split_column else None
    val = options.split_fractions[1] / sum(options.split_fractions[:2])
    found = {}
    for repeat in range(options.repeats):
        seed = options.seed + repeat
        fold = divider.divide(rows, [1.0] * options.folds, seed) if given is None else given
        for number in range(options.folds):
            rest, test = rows[fold != number], rows[fold == number]
            chosen = divider.divide(rest, [1 - val, val], seed) == 1
            parts = (rest[~chosen], rest[chosen], test)
            found[repeat + 1, number + 1] = Split(*(torch.from_numpy(part) for part in parts))
    return found


def take_calibration(
    options: TableOptions, data: OwnData, split: Split, *, by_node: bool
) -> tuple[Split, Tensor]:
    """Take rows for calibration from those for training, divided by what `--split` keeps together.

    The split without them, and the rows; they are `--calibration` of all rows.
    """
    divider, _ = _divider(options, data, by_node=by_node)
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


def _divider(options: TableOptions, data: OwnData, *, by_node: bool) -> tuple[Divider, Rows]:
    """What rows are divided by, as the settings say, and all rows (or nodes with a target)."""
    target, fractions = data.target, options.split_fractions
    if by_node:
        rows = torch.nonzero(~target.isnan().all(1)).flatten().numpy()
        stratified = options.split == "stratified"
        classes = _classes(target[:, 0], data.targets, fractions) if stratified else None
        labels = None if classes is None else classes.numpy()
        return Divider(np.arange(len(target)), labels, what="nodes"), rows
    rows = np.arange(len(data.store))
    if options.split in GROUPS and not options.split_column:
        groups_of, what = GROUPS[options.split]
        return Divider(groups_of(_of_molecules(options, data)), by_size=True, what=what), rows
    groups = rows if data.smiles is None else molecule_groups(data.smiles)[0]
    classes = _classes_of_graphs(options, data)
    labels = None if classes is None else classes.double().numpy()
    what = "graphs" if data.smiles is None else "molecules"
    return Divider(groups, labels, what=what), rows


def _classes_of_graphs(options: TableOptions, data: OwnData) -> Tensor | None:
    """What the split of graphs is stratified by; None: nothing."""
    single = data.targets.task == "classification" and len(data.targets.names) == 1
    if data.store.y is None or not (single or options.split == "stratified"):
        return None
    return _classes(data.store.y[:, 0], data.targets, options.split_fractions)


def _of_molecules(options: TableOptions, data: OwnData) -> list[str]:
    """The SMILES; refuse graphs that have none."""
    if data.smiles is None:
        what = "scaffolds" if options.split == "scaffold" else "fingerprints"
        raise InputError(f"--split {options.split}: only molecules have {what}: use random.")
    return data.smiles


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
