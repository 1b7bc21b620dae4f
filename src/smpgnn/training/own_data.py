"""Prepare a run on the user's own data: a table of molecules, graph files, or graphs in memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from smpgnn.config.options import GraphsOptions, MoleculesOptions, TableOptions
from smpgnn.data.base import Splits
from smpgnn.data.fingerprint import Content, smiles_fingerprint, store_fingerprint, target_columns
from smpgnn.data.graph_schema import GraphSchema
from smpgnn.data.splits import Split, given_split, random_split, scaffold_split, stratified_split
from smpgnn.data.store import GraphStore
from smpgnn.data.targets import TargetSpec, place
from smpgnn.errors import InputError
from smpgnn.training.prepare import SPLITS, Prepared, assemble
from smpgnn.training.run_data import RunData, SplitTable
from smpgnn.training.tasks import Classification, MultiLabel, Regression, Task

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
    frame = read_table(options.path, columns, separator=options.separator or None)
    targets = parse_targets(frame, options.targets, options.task, source=options.path)
    smiles = frame[options.smiles_column].tolist()
    content = Content(
        options.path,
        smiles_fingerprint(smiles, targets.values, targets.spec),
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
        replace(found.store, y=targets.values[found.index].float()),
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
    if options.split_column and not options.targets:
        raise InputError("--split-column: name the targets as well, with --targets.")
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
    given = None
    if options.split_column and saved is None:
        given = graph_values(options.path, options.split_column, labels=options.labels or None)
    return prepare_store(
        options, table.store, table.schema.targets, table.schema, given, saved, table.names
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
    if store.y is not None:
        store = replace(store, y=store.y.float())
    columns, source = target_columns(targets), dict[str, Any](kind="graphs")
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
    task = _task(options, targets, splits.train, level)
    prepared = assemble(
        options, splits, task, source, edge_features=options.edge_features, notes=notes
    )
    return replace(prepared, own=content, table=table)


def _task(options: TableOptions, targets: TargetSpec, train: GraphStore, level: str) -> Task:
    if targets.task == "regression":
        return Regression.fit(targets.names, train, level, options.objective)
    if options.objective != "mae":
        raise InputError(
            f"--objective {options.objective}: is for regression, but '{targets.names[0]}' has "
            "classes: leave it out."
        )
    if len(targets.names) == 1:
        return Classification(name=targets.names[0], classes=targets.classes[0], level=level)
    pairs = tuple((labels[0], labels[1]) for labels in targets.classes)
    return MultiLabel(names=targets.names, classes=pairs, level=level)


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
