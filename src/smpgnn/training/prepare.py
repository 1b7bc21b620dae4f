"""Prepare a run: its data, task and network, from its settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from smpgnn.config.models import MODELS
from smpgnn.config.options import (
    CountingOptions,
    CyclesOptions,
    GraphsOptions,
    MoleculesOptions,
    PropertiesOptions,
    TrainOptions,
    ZincOptions,
)
from smpgnn.data.base import Splits
from smpgnn.data.fingerprint import Content, splits_fingerprint
from smpgnn.data.graph_schema import Attribute, GraphSchema
from smpgnn.data.summary import DataSummary
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.own_splits import OwnData
from smpgnn.training.run_data import FoldTable, RunData, SplitTable
from smpgnn.training.saved import SavedModel
from smpgnn.training.tasks import Classification, GraphProperties, Regression, Task
from smpgnn.training.transfer import take_weights

#: Names of the three splits in messages.
SPLITS = ("training", "validation", "test")


@dataclass(frozen=True, eq=False)
class Prepared:
    """Data, task and network of a run.

    Args:
        splits: training, validation and test graphs.
        task: what the network predicts.
        spec: the network.
        source: how raw input becomes graphs.
        notes: messages for the user: rows left out, sizes of the splits.
        own: the content of the user's own data.
        table: the split of each row of the user's own data, or of each of its folds.
        whole: all of the user's own data, if the run has members.
        summary: of the user's own data, for a new run.
        smiles: of the rows of a table of molecules.
        start: the trained model whose weights the network begins with.
    """

    splits: Splits
    task: Task
    spec: NetworkSpec
    source: dict[str, Any]
    notes: tuple[str, ...] = ()
    own: Content | None = None
    table: SplitTable | FoldTable | None = None
    whole: OwnData | None = None
    summary: DataSummary | None = None
    smiles: Sequence[str] = ()
    start: SavedModel | None = None

    def content(self, source: str) -> Content:
        """A fingerprint of the data; `source` names a built-in data set."""
        return self.own or Content(source, splits_fingerprint(self.splits))

    def run_data(self, source: str) -> RunData:
        """What a new run stores about its data."""
        summary = None if self.summary is None else self.summary.to_dict()
        return RunData(self.content(source).fingerprint, self.split_table(), summary)

    def split_table(self) -> SplitTable | FoldTable:
        """The split of each row, or the folds."""
        return self.table or SplitTable.of_splits(self.splits)

    def rows_of(self, part: str) -> Tensor:
        """The rows of a split: 'train', 'val' or 'test'."""
        table = self.split_table()
        assert isinstance(table, SplitTable)  # folds have members
        return table.of(part).row

    def smiles_of(self, part: str) -> list[str]:
        """The SMILES of the molecules of a split."""
        return [self.smiles[row] for row in self.rows_of(part).tolist()]

    def network(self) -> nn.Module:
        """The network before training, with the statistics of the data that it needs."""
        network: Any = self.spec.build()
        if self.splits.train.u is not None:
            network.globals.fit(self.splits.train.u)
        set_degrees = getattr(network, "set_degrees", None)
        if set_degrees is not None:
            graphs = self.splits.train.batch()
            degree = torch.bincount(graphs.edge_index[1], minlength=graphs.num_nodes)
            set_degrees(torch.bincount(degree))
        if self.start is not None:
            take_weights(network, self.task, self.start)
        made: nn.Module = network
        return made


def prepare(options: TrainOptions, saved: RunData | None = None, *, old: bool = False) -> Prepared:
    """Load or generate the data of a run.

    With `saved`, what a run stores about its data, its split is used and other data are refused.
    `old` repeats the split of a version that saved none.
    """
    from smpgnn.training.own_data import graphs, molecules

    loaders: dict[type[TrainOptions], Callable[[Any, RunData | None], Prepared]] = {
        CyclesOptions: _cycles,
        PropertiesOptions: _properties,
        ZincOptions: _zinc,
        CountingOptions: _counting,
        MoleculesOptions: partial(molecules, old=old),
        GraphsOptions: graphs,
    }
    prepared = loaders[type(options)](options, saved)
    if saved is not None and prepared.own is None:
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
    """Choose the widths of the network by the data."""
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
        max_nodes=max(int(part.num_nodes.max()) for part in vars(splits).values() if len(part)),
        usual_nodes=max(1.0, splits.train.num_nodes.double().mean().item()),
        global_channels=_width(splits.train.u),
    )
    parts = zip(vars(splits).values(), SPLITS, strict=True)
    sizes = ", ".join(f"{len(part)} {name}" for part, name in parts)
    return Prepared(splits, task, spec, source, (*notes, f"Graphs: {sizes}."))


def _width(features: Tensor | None) -> int:
    return 0 if features is None else features.size(1)


def _cycles(options: CyclesOptions, saved: RunData | None) -> Prepared:
    from smpgnn.data.cycles import cycle_splits

    splits = cycle_splits(
        options.k,
        None if options.ood else options.n,
        balance=options.balance,  # type: ignore[arg-type]
        seed=options.seed,
        train=options.train_samples,
        test=options.test_samples,
    )
    task = Classification(name="cycle", classes=("no", "yes"))
    source = {"kind": "graphs", "schema": GraphSchema("graph").to_dict()}
    return assemble(
        options, splits, task, source, num_layers=options.network.num_layers or options.k
    )


def _properties(options: PropertiesOptions, saved: RunData | None) -> Prepared:
    from smpgnn.data.properties import property_splits

    splits = property_splits(connected=cast(Any, options.connected))
    inputs = (Attribute("source", "number"), Attribute("value", "number"))
    source = {"kind": "graphs", "schema": GraphSchema("graph", node_attributes=inputs).to_dict()}
    return assemble(options, splits, GraphProperties(objective=options.objective), source)


def _zinc(options: ZincOptions, saved: RunData | None) -> Prepared:
    from smpgnn.data.zinc import zinc_splits

    splits = zinc_splits(options.data_dir or None, subset=not options.full)
    task = Regression.fit(("y",), splits.train, objective=options.objective)
    source = {"kind": "zinc", "smiles_column": "smiles"}
    return assemble(options, splits, task, source, edge_features=options.edge_features)


def _counting(options: CountingOptions, saved: RunData | None) -> Prepared:
    from smpgnn.data.counting import counting_splits

    level = cast(Any, options.level)
    splits = counting_splits(options.substructure, level=level, data_dir=options.data_dir or None)
    task = Regression(names=(options.substructure,), level=level)  # the targets are scaled already
    source = {"kind": "graphs", "schema": GraphSchema(level).to_dict()}
    return assemble(options, splits, task, source)
