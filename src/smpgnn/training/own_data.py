"""Read the user's own data for a run: a table of molecules, graph files, or graphs in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch

from smpgnn.config.options import GraphsOptions, MoleculesOptions, TableOptions
from smpgnn.data.columns import place, read_weights
from smpgnn.data.descriptors import Descriptors
from smpgnn.data.fingerprint import (
    Content,
    descriptor_columns,
    smiles_fingerprint,
    store_fingerprint,
    target_columns,
    weight_columns,
)
from smpgnn.data.graph_schema import GraphSchema
from smpgnn.data.store import GraphStore
from smpgnn.data.summary import DataSummary, summarize
from smpgnn.data.tables import select_columns, table_name
from smpgnn.data.targets import Targets, TargetSpec
from smpgnn.errors import InputError
from smpgnn.training.own_molecules import molecule_rows
from smpgnn.training.own_run import options_source, prepare_run
from smpgnn.training.own_splits import OwnData, basis_column
from smpgnn.training.prepare import Prepared
from smpgnn.training.run_data import RunData, SplitTable

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.data.molecules import MoleculeTable
    from smpgnn.data.tables import Table


#: A split from Python, given the number of rows of the data.
OwnSplit = Callable[[int], SplitTable]


def molecules(
    options: MoleculesOptions,
    saved: RunData | None,
    *,
    data: pd.DataFrame | None = None,
    own: OwnSplit | None = None,
    old: bool = False,
) -> Prepared:
    """A table of SMILES.

    Args:
        saved: what a run stores about its data, to continue it.
        data: the table, instead of the file that the settings name.
        own: a split from Python.
        old: continue a run of a version that saved no split.
    """
    from smpgnn.data.long_tables import featurized
    from smpgnn.data.molecules import MoleculeFeaturizer
    from smpgnn.data.tables import read_table
    from smpgnn.data.targets import parse_targets

    if data is None and not options.path:
        raise InputError(
            "molecules: name the table right after the task, as in "
            "smpgnn train molecules data.csv --targets logS."
        )
    if not options.targets:
        raise InputError("--targets: name the target column, as in --targets logS.")
    by = basis_column(options) if saved is None and own is None else ""
    columns = table_columns_of(options, by)
    source = options_source(options)
    if data is None:
        frame = read_table(options.path, columns, separator=options.separator or None)
    else:
        frame = select_columns(data, columns, source)
    targets = parse_targets(
        frame, options.targets, _same_task(options, saved), log10=options.log_target, source=source
    )
    smiles = frame[options.smiles_column].tolist()
    weight = None
    if options.weight_column:
        weight = read_weights(frame[options.weight_column], source)
    descriptors = _descriptors(options)
    values = descriptors.read(frame, source)
    more = values if weight is None else torch.cat([weight, values], dim=1)
    named = (*weight_columns(options.weight_column), *descriptor_columns(descriptors.columns))
    content = Content(
        source, smiles_fingerprint(smiles, targets, more, named), lambda row: place(frame, row)
    )
    if saved is not None:
        saved.check(content)
    found = featurized(MoleculeFeaturizer(standardize=options.standardize), smiles)
    if len(found.store) == 0:
        first = next(iter(found.errors.values()))
        raise InputError(
            f"{source}: no row of column '{options.smiles_column}' is a molecule "
            f"(first: {first}): check --smiles-column."
        )
    inputs: dict[str, Any] = {"kind": "molecules", "smiles_column": options.smiles_column}
    if options.standardize:
        inputs["standardize"] = True
    if len(descriptors):
        inputs["descriptors"] = descriptors.to_dict()
        u = descriptors.of(found.smiles, values[found.index])
        found = replace(found, store=replace(found.store, u=u))
    rows = OwnData(
        found.store,
        targets.spec,
        content,
        inputs,
        found.index,
        column=frame[by].iloc[found.index.tolist()] if by else None,
        smiles=found.smiles,
        given=None if own is None else own(len(frame)),
        rows_alone=old,
        notes=left_out(found, frame, source),
    )
    new = smiles if saved is None else None
    rows = molecule_rows(options, rows, found, targets, weight, new)
    prepared = prepare_run(options, rows, saved)
    read = dict(zip(found.index.tolist(), found.smiles, strict=True))
    return replace(prepared, smiles=[read.get(row, "") for row in range(len(frame))])


def table_columns_of(options: MoleculesOptions, by: str = "") -> list[str]:
    """The columns of a table of molecules that a run reads; `by` is the column of its split."""
    columns = [options.smiles_column, *options.targets, *([by] if by else [])]
    others = [options.weight_column, *Descriptors.named(options.descriptors).columns]
    return [*columns, *(name for name in dict.fromkeys(others) if name and name not in columns)]


def _descriptors(options: MoleculesOptions) -> Descriptors:
    """The features of molecules that the options name; a target cannot be one."""
    found = Descriptors.named(options.descriptors)
    for name in found.columns:
        if name in (options.smiles_column, *options.targets):
            what = "a target" if name in options.targets else "the SMILES column"
            raise InputError(f"--descriptors {name}: is {what}: leave it out.")
    return found


def _same_task(options: TableOptions, saved: RunData | None) -> str:
    """The type of task; a run whose targets were all numbers continues with numbers.

    Earlier versions took columns of two different numbers as classes only if all columns were.
    """
    if options.task == "auto" and saved is not None:
        columns = [name for name in saved.fingerprint.columns if name.startswith("target '")]
        if columns and not any(" with the classes " in name for name in columns):
            return "regression"
    return options.task


def graphs(
    options: GraphsOptions,
    saved: RunData | None,
    *,
    own: OwnSplit | None = None,
    labels: pd.DataFrame | None = None,
) -> Prepared:
    """A file or folder of graphs; arguments as of `molecules`.

    `labels` is the table of targets, instead of the file that the settings name.
    """
    from smpgnn.data.graphs import graph_values, read_graphs

    if not options.path:
        raise InputError("graphs: name the file or folder, as in smpgnn train graphs FOLDER.")
    for name in ("split_column", "split_time", "weight_column"):
        if getattr(options, name) and not options.targets:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option}: name the targets as well, with --targets.")
    if options.weight_column and options.level == "node":
        raise InputError("--weight-column: applies to targets of graphs only: leave it out.")
    if options.integers == "categories":
        raise InputError(
            "integers: applies to graphs from Python; in files, write categories as texts."
        )
    known: Table | None = (options.labels or None) if labels is None else labels
    table = read_graphs(
        options.path,
        labels=known,
        target=options.targets or None,
        level=cast(Any, options.level),
        task=_same_task(options, saved),
        log10=options.log_target,
    )
    if table.schema.targets is None:
        raise InputError(
            f"{options.path}: no target found: name one with --targets, "
            "or give a table with --labels."
        )
    by = basis_column(options) if saved is None and own is None else ""
    store = table.store
    column = graph_values(options.path, by, labels=known) if by else None
    if options.weight_column:
        weight = graph_values(options.path, options.weight_column, labels=known)
        where = options.path if known is None else table_name(known)
        store = replace(store, weight=read_weights(weight, where).float())
    return prepare_store(
        options,
        store,
        table.schema.targets,
        table.schema,
        column,
        saved,
        table.names,
        own=None if own is None else own(len(store)),
    )


def prepare_store(
    options: TableOptions,
    store: GraphStore,
    targets: TargetSpec,
    schema: GraphSchema | None,
    column: pd.Series[Any] | None = None,
    saved: RunData | None = None,
    names: tuple[str, ...] | None = None,
    *,
    own: SplitTable | None = None,
    notes: tuple[str, ...] = (),
) -> Prepared:
    """Prepare a run on graphs with targets in `y` or `y_node`.

    Args:
        schema: how graph files become such graphs; None for graphs from Python.
        column: the split column, or the times of the graphs.
        saved: what a run stores about its data, to continue it.
        names: of the graphs, for messages.
        own: a split from Python, of graphs or of nodes.
    """
    if options.weight_column and store.weight is None:
        raise InputError("weight_column: applies to tables and files only: leave it out.")
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
    own_data = OwnData(
        store, targets, content, source, torch.arange(len(store)), column, given=own, notes=notes
    )
    if saved is None:
        summary = summarize(Targets(own_data.target, targets, store.side))
        own_data = replace(own_data, summary=DataSummary(len(store), 0, summary))
    return prepare_run(options, own_data, saved)


def _attributes(schema: GraphSchema) -> tuple[str, ...]:
    """Describe the attributes and their categories."""
    parts = (("node", schema.node_attributes), ("edge", schema.edge_attributes))
    return tuple(
        f"{part} attribute '{attribute.name}'"
        + (f" with {', '.join(attribute.categories)}" if attribute.categories else "")
        for part, attributes in parts
        for attribute in attributes
    )


def left_out(found: MoleculeTable, frame: pd.DataFrame, path: str | Path) -> tuple[str, ...]:
    """A note on the rows that are not molecules, if there are any."""
    if not found.errors:
        return ()
    row, reason = next(iter(found.errors.items()))
    rows = f"{len(found.errors)} row{'s' if len(found.errors) > 1 else ''} left out"
    return (f"{path}: {rows}, the first at {place(frame, row)}: {reason}.",)
