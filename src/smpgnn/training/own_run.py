"""A run on the user's own data, once they are read: its split, task and network."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from smpgnn.config.options import GraphsOptions, TableOptions
from smpgnn.data.base import Splits
from smpgnn.data.categories import Categories
from smpgnn.data.splits import Split
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.training.member_plan import members
from smpgnn.training.own_splits import (
    OwnData,
    overlap,
    split_folds,
    split_nodes,
    split_rows,
    take_calibration,
)
from smpgnn.training.own_task import exact_targets, own_task
from smpgnn.training.prepare import SPLITS, Prepared, assemble
from smpgnn.training.run_data import CALIBRATION, FoldTable, RunData, SplitTable


def prepare_run(options: TableOptions, data: OwnData, saved: RunData | None) -> Prepared:
    """Split the data as saved, as given from Python or anew; choose task and network."""
    split, table, of_split = _split(options, data, saved)
    summary = () if data.summary is None else data.summary.lines()
    notes = (*data.notes, *summary, *of_split)
    choose = data.store.select if table.node is None else partial(_visible, data.store)
    splits = Splits(*(choose(part) for part in split))
    for part, name in zip(vars(splits).values(), SPLITS, strict=True):
        if part is splits.test and len(part) == 0:
            continue  # a split from Python may have no test rows
        if bool(exact_targets(part, data.level).isnan().all()):
            raise InputError(
                f"{data.content.source}: the {name} split has no known target: give more rows "
                "or change --split-fractions."
            )
    source = data.source
    if isinstance(options, GraphsOptions) and options.integers == "categories":
        categories = Categories.fit(splits.train)
        if categories:
            splits = Splits(*(categories.encode(part) for part in vars(splits).values()))
            source = {**source, "categories": categories.to_dict()}
            notes = (*notes, categories.note())
    task, about = own_task(options, data.targets, splits, data.level)
    splits = _with_mean_weight_1(options, splits)
    edges, notes = options.edge_features, (*notes, *about)
    prepared = assemble(options, splits, task, source, edge_features=edges, notes=notes)
    notes = prepared.notes
    if options.folds:
        notes = (*notes, f"Folds: {options.folds}; the line above is about the first.")
    if options.calibration and saved is None:
        assert isinstance(table, SplitTable)
        count = f"{table.of(CALIBRATION).row.numel():,}"
        notes = (*notes, f"Calibration: {count} more rows, on which no model is trained or chosen.")
    return replace(
        prepared,
        notes=notes,
        own=data.content,
        table=table,
        whole=data if members(options) else None,
        summary=data.summary,
    )


def _split(
    options: TableOptions, data: OwnData, saved: RunData | None
) -> tuple[Split, SplitTable | FoldTable, tuple[str, ...]]:
    """The split of the graphs (or nodes), that of the rows of the data, and notes."""
    store, own, notes = data.store, data.given, tuple[str, ...]()
    given = own if saved is None else saved.splits
    by_node = data.level == "node" and len(store) < 3 and data.column is None
    by_node = by_node if given is None else given.node is not None

    def table_of(split: Iterable[Tensor]) -> SplitTable:
        if by_node:
            return SplitTable.of_nodes(split, store.node_ptr)
        return SplitTable.of_rows(split, data.rows)

    if given is None and options.folds:
        each = split_folds(options, data, by_node=by_node)
        given = FoldTable({key: table_of(part) for key, part in each.items()})
    if given is not None:
        fixed = given.first if isinstance(given, FoldTable) else given
        split = fixed.split(data.rows, store.node_ptr)
        if own is not None and saved is not None:
            _check_own(own, fixed, data)
        elif own is not None:
            notes = _notes_on_own(own, split, data)
    elif by_node:
        split = split_nodes(options, data)
    else:
        split, notes = split_rows(options, data)
    if isinstance(given, FoldTable) or (given is not None and saved and members(options)):
        return split, given, notes
    if options.calibration and saved is None:
        split, calibration = take_calibration(options, data, split, by_node=by_node)
        return split, table_of((*split, calibration)), notes
    return split, table_of(split), notes


def _check_own(own: SplitTable, fixed: SplitTable, data: OwnData) -> None:
    """Refuse a split from Python that differs from that of the run."""
    both = [
        table.split(data.rows, data.store.node_ptr) for table in (own, fixed.without_calibration())
    ]
    if not all(torch.equal(one, other) for one, other in zip(*both, strict=True)):
        raise InputError(
            "train, val and test (or the masks) differ from those of the run: give the same, "
            "or start a new run."
        )


def options_source(options: TableOptions) -> str:
    """The name of the data of a run in messages."""
    return getattr(options, "path", "") or "data"


def _notes_on_own(own: SplitTable, split: Split, data: OwnData) -> tuple[str, ...]:
    """Notes on a split from Python: rows in no split, molecules on both sides."""
    unused = 0 if own.node is not None else len(data.rows) - sum(part.numel() for part in split)
    notes = () if data.smiles is None else overlap(split, data.smiles)
    if unused:
        notes = (f"{unused} rows are in none of train, val and test, and are not used.", *notes)
    return notes


def _with_mean_weight_1(options: TableOptions, splits: Splits) -> Splits:
    """The splits with weights whose mean is 1 over the training rows with a known target."""
    train = splits.train
    if train.weight is None:
        return splits
    assert train.y is not None
    mean = train.weight[~train.y.isnan().all(1)].mean()
    if float(mean) == 0:
        raise InputError(
            f"{options_source(options)}: all training rows have the weight 0 in column "
            f"'{options.weight_column}': give some rows a positive weight."
        )
    parts = vars(splits).values()
    return Splits(*(replace(part, weight=part.weight / mean) for part in parts))


def _visible(store: GraphStore, nodes: Tensor) -> GraphStore:
    """The store with the targets of some nodes only."""
    assert store.y_node is not None
    visible = torch.full_like(store.y_node, torch.nan)
    visible[nodes] = store.y_node[nodes]
    return replace(store, y_node=visible)
