"""From the options of a run to its data, task and network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from smpgnn.config.models import MODELS
from smpgnn.config.options import (
    CyclesOptions,
    GraphsOptions,
    MoleculesOptions,
    PropertiesOptions,
    TableOptions,
    TrainOptions,
    ZincOptions,
)
from smpgnn.data.base import Splits
from smpgnn.data.fingerprint import (
    Content,
    smiles_fingerprint,
    splits_fingerprint,
    store_fingerprint,
    target_columns,
)
from smpgnn.data.graph_schema import Attribute, GraphSchema
from smpgnn.data.splits import Split, given_split, random_split, scaffold_split, stratified_split
from smpgnn.data.store import GraphStore
from smpgnn.data.targets import TargetSpec, place
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.run_data import RunData, SplitTable
from smpgnn.training.tasks import Classification, GraphProperties, MultiLabel, Regression, Task

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.data.molecules import MoleculeTable


@dataclass(frozen=True, eq=False)
class Prepared:
    """Data, task and network of a run, and how raw input becomes graphs (`source`).

    `notes` are sentences that a person should see: rows left out, sizes of the parts. `own` and
    `table` describe data of one's own: their content, and the split of each row.
    """

    splits: Splits
    task: Task
    spec: NetworkSpec
    source: dict[str, Any]
    notes: tuple[str, ...] = ()
    own: Content | None = None
    table: SplitTable | None = None

    def content(self, source: str) -> Content:
        """What the data are; `source` names a data set that comes split."""
        return self.own or Content(source, splits_fingerprint(self.splits))

    def split_table(self) -> SplitTable:
        """The split of each row."""
        return self.table or SplitTable.of_splits(self.splits)

    def network(self) -> nn.Module:
        """The network with fresh weights; those that scale by degree are told those of the data."""
        network = self.spec.build()
        set_degrees = getattr(network, "set_degrees", None)
        if set_degrees is not None:
            graphs = self.splits.train.batch()
            degree = torch.bincount(graphs.edge_index[1], minlength=graphs.num_nodes)
            set_degrees(torch.bincount(degree))
        return network


def prepare(options: TrainOptions, saved: RunData | None = None) -> Prepared:
    """Load or make the data that the options name.

    With `saved`, what a run knows of its data, other data are refused and its split is taken.
    """
    if isinstance(options, MoleculesOptions):
        return _molecules(options, saved)
    if isinstance(options, GraphsOptions):
        return _graphs(options, saved)
    makers: dict[type[TrainOptions], Callable[[Any], Prepared]] = {
        CyclesOptions: _cycles,
        PropertiesOptions: _properties,
        ZincOptions: _zinc,
    }
    prepared = makers[type(options)](options)
    if saved is not None:
        saved.check(prepared.content(options.task_name()))
    return prepared


def assemble(
    options: TrainOptions,
    splits: Splits,
    task: Task,
    source: dict[str, Any],
    *,
    edge_features: bool = True,
    num_layers: int | None = None,
    notes: tuple[str, ...] = (),
) -> Prepared:
    """Fit the network to the widths of the data."""
    network = options.network
    if num_layers is not None:
        network = network.changed(num_layers=num_layers)
    takes_edges = edge_features and MODELS[network.model].edges
    spec = NetworkSpec(
        in_channels=_width(splits.train.x),
        edge_channels=_width(splits.train.edge_attr) if takes_edges else 0,
        node_outputs=task.node_outputs,
        graph_outputs=task.graph_outputs,
        options=network,
        max_nodes=max(int(part.num_nodes.max()) for part in vars(splits).values()),
        usual_nodes=max(1.0, splits.train.num_nodes.double().mean().item()),
    )
    sizes = ", ".join(
        f"{len(part)} {name}"
        for name, part in (
            ("training", splits.train),
            ("validation", splits.val),
            ("test", splits.test),
        )
    )
    return Prepared(splits, task, spec, source, (*notes, f"Graphs: {sizes}."))


def _width(features: Tensor | None) -> int:
    return 0 if features is None else features.size(1)


def _cycles(options: CyclesOptions) -> Prepared:
    from smpgnn.data.cycles import cycle_splits, ood_splits

    choice: dict[str, Any] = {
        "balance": options.balance,
        "seed": options.seed,
        "train": options.train_samples,
        "test": options.test_samples,
    }
    splits = (
        ood_splits(options.k, **choice)
        if options.ood
        else cycle_splits(options.k, options.n, **choice)
    )
    task = Classification(name="cycle", classes=("no", "yes"))
    source = {"kind": "graphs", "schema": GraphSchema("graph").to_dict()}
    return assemble(
        options, splits, task, source, num_layers=options.network.num_layers or options.k
    )


def _properties(options: PropertiesOptions) -> Prepared:
    from smpgnn.data.properties import property_splits

    splits = property_splits(connected=cast(Any, options.connected))
    inputs = (Attribute("source", "number"), Attribute("value", "number"))
    source = {"kind": "graphs", "schema": GraphSchema("graph", node_attributes=inputs).to_dict()}
    return assemble(options, splits, GraphProperties(objective=options.objective), source)


def _zinc(options: ZincOptions) -> Prepared:
    from smpgnn.data.zinc import zinc_splits

    splits = zinc_splits(options.data_dir or None, subset=not options.full)
    task = Regression.fit(("y",), splits.train, objective=options.objective)
    source = {"kind": "zinc", "smiles_column": "smiles"}
    return assemble(options, splits, task, source, edge_features=options.edge_features)


def _molecules(options: MoleculesOptions, saved: RunData | None) -> Prepared:
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
    store = replace(found.store, y=targets.values[found.index].float())
    if saved is None:
        given = frame[options.split_column].iloc[kept] if by_column else None
        split = _split(options, store, targets.spec, given, [smiles[row] for row in kept])
    else:
        split = saved.splits.split_of_rows(found.index)
    prepared = _own_data(
        options,
        Splits(*(store.select(part) for part in split)),
        targets.spec,
        "graph",
        {"kind": "molecules", "smiles_column": options.smiles_column},
        left_out(found, frame, options.path),
    )
    return replace(prepared, own=content, table=SplitTable.of_rows(split, found.index))


def _graphs(options: GraphsOptions, saved: RunData | None) -> Prepared:
    from smpgnn.data.graphs import read_graphs

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
    given = _given_parts(options) if options.split_column and saved is None else None
    return prepare_store(
        options, table.store, table.schema.targets, table.schema, given, saved, table.names
    )


def _given_parts(options: GraphsOptions) -> pd.Series[Any]:
    """The part that a column of the labels, or an attribute, names for each graph."""
    from smpgnn.data.graphs import graph_values

    return graph_values(options.path, options.split_column, labels=options.labels or None)


def prepare_store(
    options: TableOptions,
    store: GraphStore,
    targets: TargetSpec,
    schema: GraphSchema | None,
    given: pd.Series[Any] | None = None,
    saved: RunData | None = None,
    names: tuple[str, ...] | None = None,
) -> Prepared:
    """Graphs that are in memory already, with targets in `y` or `y_node`; `names` are theirs."""
    level = "node" if store.y is None else "graph"
    if store.y is not None:
        store = replace(store, y=store.y.float())
    columns = (*target_columns(targets), *(() if schema is None else _attributes(schema)))
    content = Content(options_source(options), store_fingerprint(store, columns))
    if names is not None:
        content = replace(content, place=lambda row: f"graph {names[row]}")
    if saved is not None:
        saved.check(content)
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
        if saved is None:
            split = _split(options, store, targets, given, None)
        else:
            split = saved.splits.split_of_rows(torch.arange(len(store)))
        splits = Splits(*(store.select(part) for part in split))
        table = SplitTable.of_rows(split)
    source: dict[str, Any] = {"kind": "graphs"}
    if schema is not None:
        source["schema"] = schema.to_dict()
    prepared = _own_data(options, splits, targets, level, source, ())
    return replace(prepared, own=content, table=table)


def _attributes(schema: GraphSchema) -> tuple[str, ...]:
    """The attributes in words, with their categories."""
    parts = (("node", schema.node_attributes), ("edge", schema.edge_attributes))
    return tuple(
        f"{part} attribute '{attribute.name}'"
        + (f" with {', '.join(attribute.categories)}" if attribute.categories else "")
        for part, attributes in parts
        for attribute in attributes
    )


def _own_data(
    options: TableOptions,
    splits: Splits,
    targets: TargetSpec,
    level: str,
    source: dict[str, Any],
    notes: tuple[str, ...],
) -> Prepared:
    for name, part in vars(splits).items():
        target = part.y if level == "graph" else part.y_node
        if bool(target.isnan().all()):
            what = {"train": "training", "val": "validation", "test": "test"}[name]
            raise InputError(
                f"{options_source(options)}: the {what} split has no known target: give more rows "
                "or change --split-fractions."
            )
    task: Task
    if targets.task == "regression":
        task = Regression.fit(targets.names, splits.train, level, options.objective)
    elif options.objective != "mae":
        raise InputError(
            f"--objective {options.objective}: is for regression, but '{targets.names[0]}' has "
            "classes: leave it out."
        )
    elif len(targets.names) == 1:
        task = Classification(name=targets.names[0], classes=targets.classes[0], level=level)
    else:
        pairs = tuple((labels[0], labels[1]) for labels in targets.classes)
        task = MultiLabel(names=targets.names, classes=pairs, level=level)
    return assemble(options, splits, task, source, edge_features=options.edge_features, notes=notes)


def options_source(options: TableOptions) -> str:
    """How a message names the data of a run."""
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
    """Of one or two graphs the nodes with a target are split, counted through both graphs."""
    assert store.y_node is not None
    known = torch.nonzero(~store.y_node.isnan().all(1)).flatten()
    split = random_split(known.numel(), options.split_fractions, options.seed)
    return Split(*(known[part] for part in split))


def _visible(store: GraphStore, nodes: Tensor) -> GraphStore:
    """All nodes, and the targets of some."""
    assert store.y_node is not None
    visible = torch.full_like(store.y_node, torch.nan)
    visible[nodes] = store.y_node[nodes]
    return replace(store, y_node=visible)


def left_out(found: MoleculeTable, frame: pd.DataFrame, path: str | Path) -> tuple[str, ...]:
    """A note on the rows that are no molecule, if there are any."""
    if not found.errors:
        return ()
    row, reason = next(iter(found.errors.items()))
    rows = f"{len(found.errors)} row{'s' if len(found.errors) > 1 else ''} left out"
    return (f"{path}: {rows}, the first at {place(frame, row)}: {reason}.",)
