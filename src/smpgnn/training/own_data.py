"""Prepare a run on the user's own data: a table of molecules, graph files, or graphs in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from smpgnn.config.options import GraphsOptions, MoleculesOptions, TableOptions
from smpgnn.data.base import Splits
from smpgnn.data.fingerprint import (
    Content,
    smiles_fingerprint,
    store_fingerprint,
    target_columns,
    weight_columns,
)
from smpgnn.data.graph_schema import GraphSchema
from smpgnn.data.splits import Split, given_split, random_split, scaffold_split, stratified_split
from smpgnn.data.store import GraphStore
from smpgnn.data.targets import TargetSpec, place
from smpgnn.data.weights import read_weights
from smpgnn.errors import InputError
from smpgnn.training.own_task import own_task
from smpgnn.training.prepare import SPLITS, Prepared, assemble
from smpgnn.training.run_data import RunData, SplitTable

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.data.molecules import MoleculeTable


def molecules(options: MoleculesOptions, saved: RunData | None) -> Prepared:
    """A table of SMILES."""
    from smpgnn.data.molecules import MoleculeFeaturizer
    from smpgnn.data.tables import read_table
    from smpgnn.data.targets import parse_targets

    if not options.path:
        raise InputError(
            "molecules: name the table right after the task, as in "
            "smpgnn train molecules data.csv --targets logS."
        )
    if not options.targets:
        raise InputError("--targets: name the target column, as in --targets logS.")
    columns = [options.smiles_column, *options.targets]
    by_column = bool(options.split_column) and saved is None
    if by_column:
        columns.append(options.split_column)
    if options.weight_column and options.weight_column not in columns:
        columns.append(options.weight_column)
    frame = read_table(options.path, columns, separator=options.separator or None)
    targets = parse_targets(frame, options.targets, options.task, source=options.path)
    smiles = frame[options.smiles_column].tolist()
    weight = None
    if options.weight_column:
        weight = read_weights(frame[options.weight_column], options.path)
    content = Content(
        options.path,
        smiles_fingerprint(smiles, targets.values, targets.spec, weight, options.weight_column),
        lambda row: place(frame, row),
    )
    if saved is not None:
        saved.check(content)
    found = MoleculeFeaturizer().featurize(smiles)
    if len(found.store) == 0:
        first = next(iter(found.errors.values()))
        raise InputError(
            f"{options.path}: no row of column '{options.smiles_column}' is a molecule "
            f"(first: {first}): check --smiles-column."
        )
    kept = found.index.tolist()
    return _own_data(
        options,
        replace(
            found.store,
            y=targets.values[found.index].float(),
            weight=None if weight is None else weight[found.index].float(),
        ),
        targets.spec,
        content,
        {"kind": "molecules", "smiles_column": options.smiles_column},
        saved,
        rows=found.index,
        given=frame[options.split_column].iloc[kept] if by_column else None,
        smiles=[smiles[row] for row in kept],
        notes=left_out(found, frame, options.path),
    )


def graphs(options: GraphsOptions, saved: RunData | None) -> Prepared:
    """A file or folder of graphs."""
    from smpgnn.data.graphs import graph_values, read_graphs

    if not options.path:
        raise InputError("graphs: name the file or folder, as in smpgnn train graphs FOLDER.")
    for name in ("split_column", "weight_column"):
        if getattr(options, name) and not options.targets:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option}: name the targets as well, with --targets.")
    if options.weight_column and options.level == "node":
        raise InputError("--weight-column: is for targets of graphs: leave it out.")
    table = read_graphs(
        options.path,
        labels=options.labels or None,
        target=options.targets or None,
        level=cast(Any, options.level),
        task=options.task,
    )
    if table.schema.targets is None:
        raise InputError(
            f"{options.path}: no target found: name one with --targets, "
            "or give a table with --labels."
        )
    given, store, labels = None, table.store, options.labels or None
    if options.split_column and saved is None:
        given = graph_values(options.path, options.split_column, labels=labels)
    if options.weight_column:
        column = graph_values(options.path, options.weight_column, labels=labels)
        store = replace(store, weight=read_weights(column, labels or options.path).float())
    return prepare_store(
        options, store, table.schema.targets, table.schema, given, saved, table.names
    )


def prepare_store(
    options: TableOptions,
    store: GraphStore,
    targets: TargetSpec,
    schema: GraphSchema | None,
    given: pd.Series[Any] | None = None,
    saved: RunData | None = None,
    names: tuple[str, ...] | None = None,
) -> Prepared:
    """Prepare a run on graphs with targets in `y` or `y_node`.

    Args:
        options: the settings.
        store: the graphs.
        targets: describes the targets.
        schema: how graph files become such graphs; None for graphs from Python.
        given: the split of each graph by name, in place of a random one.
        saved: what a run stores about its data, to continue it.
        names: of the graphs, for messages.
    """
    if options.weight_column and store.weight is None:
        raise InputError("weight_column: is for tables and files: leave it out.")
    if store.y is not None:
        store = replace(store, y=store.y.float())
    columns = (*target_columns(targets), *weight_columns(options.weight_column))
    source = dict[str, Any](kind="graphs")
    if schema is not None:
        columns, source["schema"] = (*columns, *_attributes(schema)), schema.to_dict()
    content = Content(options_source(options), store_fingerprint(store, columns))
    if names is not None:
        content = replace(content, place=lambda row: f"graph {names[row]}")
    if saved is not None:
        saved.check(content)
    return _own_data(options, store, targets, content, source, saved, given=given)


def _attributes(schema: GraphSchema) -> tuple[str, ...]:
    """Describe the attributes and their categories."""
    parts = (("node", schema.node_attributes), ("edge", schema.edge_attributes))
    return tuple(
        f"{part} attribute '{attribute.name}'"
        + (f" with {', '.join(attribute.categories)}" if attribute.categories else "")
        for part, attributes in parts
        for attribute in attributes
    )


def _own_data(
    options: TableOptions,
    store: GraphStore,
    targets: TargetSpec,
    content: Content,
    source: dict[str, Any],
    saved: RunData | None,
    *,
    rows: Tensor | None = None,
    given: pd.Series[Any] | None = None,
    smiles: list[str] | None = None,
    notes: tuple[str, ...] = (),
) -> Prepared:
    """Split the user's own data, as saved or anew, and choose task and network.

    `rows` [G] are the rows of the data from which the graphs come; default: one each.
    """
    level = "node" if store.y is None else "graph"
    by_node = level == "node" and len(store) < 3 and given is None
    if by_node if saved is None else saved.splits.node is not None:
        split = (
            _split_nodes(options, store)
            if saved is None
            else saved.splits.split_of_nodes(store.node_ptr)
        )
        splits = Splits(*(_visible(store, nodes) for nodes in split))
        table = SplitTable.of_nodes(split, store.node_ptr)
    else:
        rows = torch.arange(len(store)) if rows is None else rows
        split = (
            _split(options, store, targets, given, smiles)
            if saved is None
            else saved.splits.split_of_rows(rows)
        )
        splits = Splits(*(store.select(part) for part in split))
        table = SplitTable.of_rows(split, rows)
    for part, name in zip(vars(splits).values(), SPLITS, strict=True):
        target = part.y if level == "graph" else part.y_node
        if bool(target.isnan().all()):
            raise InputError(
                f"{options_source(options)}: the {name} split has no known target: give more rows "
                "or change --split-fractions."
            )
    task, about = own_task(options, targets, splits, level)
    prepared = assemble(
        options,
        _with_mean_weight_1(options, splits),
        task,
        source,
        edge_features=options.edge_features,
        notes=(*notes, *about),
    )
    return replace(prepared, own=content, table=table)


def options_source(options: TableOptions) -> str:
    """The name of the data of a run in messages."""
    return getattr(options, "path", "") or "data"


def _split(
    options: TableOptions,
    store: GraphStore,
    targets: TargetSpec,
    given: pd.Series[Any] | None,
    smiles: list[str] | None,
) -> Split:
    if given is not None:
        source = getattr(options, "labels", "") or options_source(options)
        return given_split(
            given.tolist(),
            source=f"{source}, column '{options.split_column}'",
            place=lambda row: place(given, row),
        )
    if options.split == "scaffold":
        if smiles is None:
            raise InputError("--split scaffold: only molecules have scaffolds: use random.")
        return scaffold_split(smiles, options.split_fractions, options.seed)
    single = targets.task == "classification" and len(targets.names) == 1
    if single and store.y is not None:
        return stratified_split(store.y[:, 0], options.split_fractions, options.seed)
    return random_split(len(store), options.split_fractions, options.seed)


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


def _split_nodes(options: TableOptions, store: GraphStore) -> Split:
    """Split the nodes with a target of one or two graphs; they count through both graphs."""
    assert store.y_node is not None
    known = torch.nonzero(~store.y_node.isnan().all(1)).flatten()
    split = random_split(known.numel(), options.split_fractions, options.seed)
    return Split(*(known[part] for part in split))


def _visible(store: GraphStore, nodes: Tensor) -> GraphStore:
    """The store with the targets of some nodes only."""
    assert store.y_node is not None
    visible = torch.full_like(store.y_node, torch.nan)
    visible[nodes] = store.y_node[nodes]
    return replace(store, y_node=visible)


def left_out(found: MoleculeTable, frame: pd.DataFrame, path: str | Path) -> tuple[str, ...]:
    """A note on the rows that are not molecules, if there are any."""
    if not found.errors:
        return ()
    row, reason = next(iter(found.errors.items()))
    rows = f"{len(found.errors)} row{'s' if len(found.errors) > 1 else ''} left out"
    return (f"{path}: {rows}, the first at {place(frame, row)}: {reason}.",)
