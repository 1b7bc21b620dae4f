"""Predictions of a trained model for new molecules and graphs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from smpgnn.data.categories import Categories
from smpgnn.data.descriptors import Descriptors
from smpgnn.data.graph_schema import GraphSchema
from smpgnn.data.sdf import SMILES, is_sdf
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.errors import InputError
from smpgnn.inference import EXPLAIN_STEPS
from smpgnn.inference.captured import captured_outputs
from smpgnn.inference.domain import Domain
from smpgnn.inference.pieces import Piece, in_pieces
from smpgnn.inference.processes import predicted
from smpgnn.processes import PIECE_ROWS
from smpgnn.threads import suitable_threads
from smpgnn.training.member_plan import has_members
from smpgnn.training.network import run_network
from smpgnn.training.saved import SavedModel, load_model, pick_device
from smpgnn.training.tasks import Task

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.data.molecules import MoleculeTable
    from smpgnn.data.tables import Table
    from smpgnn.inference.export import Exported

#: Rows of contexts that are computed at a time: on a CPU as many as fit its cache.
BATCH_ROWS = {"cpu": 30_000, "cuda": 400_000}


def _add_errors(rows: list[list[Any]]) -> None:
    """Append to each row the reason why there is no prediction; None if there is one."""
    columns = zip(*rows, strict=True)
    fine = all(
        all(map(math.isfinite, column)) if set(map(type, column)) == {float} else _is_fine(column)
        for column in columns
    )
    for row in rows:
        if fine or _is_fine(row):
            row.append(None)
        else:
            row[:] = [*[None] * len(row), "the prediction is not a finite number"]


def _is_fine(values: Sequence[Any]) -> bool:
    return all(not isinstance(value, float) or math.isfinite(value) for value in values)


def batch_rows(device: torch.device) -> int:
    """Rows of contexts that are computed at a time on a device."""
    return BATCH_ROWS.get(device.type, BATCH_ROWS["cuda"])


@dataclass(frozen=True)
class Written:
    """A file of predictions: its rows, how many of them failed, and the new columns.

    The last column says why a row has no prediction. `renamed` are the columns that have an unusual
    name because the input has a column of the usual one.
    """

    rows: int
    failed: int
    columns: tuple[str, ...]
    renamed: tuple[str, ...] = ()


class Model:
    """A trained model, ready to predict.

    >>> model = smpgnn.load("runs/solubility")          # doctest: +SKIP
    >>> model.predict(["CCO", "c1ccccc1"])              # doctest: +SKIP
    """

    def __init__(
        self, saved: SavedModel, device: str = "auto", path: str | Path | None = None
    ) -> None:
        self.saved, self.path = saved, path
        self.device = pick_device(device)
        self.network: nn.Module = saved.network.to(self.device).eval()
        self.columns = [*saved.task.columns(), "error"]
        self.domain: Domain | None = None
        self.descriptors = Descriptors.of_source(saved.source)

    @property
    def task(self) -> Task:
        return self.saved.task

    def threads(self) -> AbstractContextManager[None]:
        """Run with suitable threads inside, if this is a processor."""
        if self.device.type != "cpu":
            return nullcontext()
        return suitable_threads(BATCH_ROWS["cpu"] * self.saved.spec.options.hidden_channels)

    @property
    def reads_smiles(self) -> bool:
        """Whether the model was trained on molecules."""
        return self.saved.source["kind"] in ("molecules", "zinc")

    def smiles_column(self, given: str | None = None, path: object = None) -> str:
        """The column of a table that contains the SMILES: as given, else as in training.

        SDF and Mol files (`path`) have a column of their own for their molecules.
        """
        if isinstance(path, str | Path) and is_sdf(path):
            return given or SMILES
        return given or str(self.saved.source.get("smiles_column", "smiles"))

    def table_columns(self, smiles_column: str | None = None, path: object = None) -> list[str]:
        """The columns of a table that predictions read: of the SMILES, then of descriptors."""
        return [self.smiles_column(smiles_column, path), *self.descriptors.columns]

    def schema(self, action: str) -> GraphSchema:
        """How graph files become graphs; `action` is what the user wants to do with them."""
        if "schema" not in self.saved.source:
            raise InputError(f"this model was trained from Python: {action} there.")
        return GraphSchema.from_dict(self.saved.source["schema"])

    def members(self) -> list[Model]:
        """The models whose mean this is; only a run with members has several."""
        return [self]

    def with_interval(self, level: float) -> Model:
        """This model, whose predictions have an interval that contains `level` of the targets."""
        raise InputError(
            "--interval: the model has no calibration rows: train it with --calibration 0.1, or "
            "with --folds 5."
        )

    def predict(
        self, inputs: Any, *, interval: float | None = None, domain: bool = False
    ) -> pd.DataFrame:
        """Predictions for SMILES (list, Series, DataFrame), or graphs (PyG `Data`, GraphStore).

        One row per input, in order and with the index of a Series or DataFrame; the column `error`
        says why a row has no prediction. With interval=0.9, the columns `low_<target>` and
        `high_<target>` contain 90 % of the targets. With `domain`, the columns `similarity`,
        `nearest` and `nearest_row` describe the training molecule nearest to each.
        """
        if interval is not None:
            return self.with_interval(interval).predict(inputs, domain=domain)
        if domain:
            return self.with_domain().predict(inputs)
        found = self.read(inputs, "predict")
        if isinstance(found, GraphStore):
            return self.predict_store(found)
        return with_index_of(inputs, self.predict_smiles(found, table_of(inputs)))

    def with_domain(self) -> Model:
        """This model, whose predictions name the training molecule nearest to each."""
        if not self.reads_smiles:
            raise InputError(
                "--domain: this model takes graphs, but only molecules have fingerprints: leave it "
                "out."
            )
        if self.path is None:
            raise InputError("--domain: load the model from its run folder with smpgnn.load(RUN).")
        found = copy.copy(self)
        found.domain = Domain.load(self.path)
        return found

    @property
    def all_columns(self) -> list[str]:
        """The columns of predictions for SMILES: `columns`, with those of the domain."""
        more = [] if self.domain is None else self.domain.columns
        return [*self.columns[:-1], *more, self.columns[-1]]

    def predict_smiles(
        self, smiles: Sequence[str | None], table: pd.DataFrame | None = None
    ) -> pd.DataFrame:
        """Predictions for SMILES, one row each; `table` has the columns of descriptors."""
        return self.predict_molecules(self.featurize(smiles, table), len(smiles))

    def predict_molecules(self, molecules: MoleculeTable, count: int) -> pd.DataFrame:
        """Predictions for `count` rows, of which `molecules` has the molecules."""
        import pandas as pd

        rows: list[list[Any]] = [[None] * len(self.columns) for _ in range(count)]
        if len(molecules.store):
            found = self._rows(molecules.store)
            for row, values in zip(molecules.index.tolist(), found, strict=True):
                rows[row] = values
        for row, reason in molecules.errors.items():
            rows[row][-1] = reason
        frame = pd.DataFrame(rows, columns=self.columns)
        if self.domain is None:
            return frame
        smiles: list[str | None] = [None] * count
        for row, text in zip(molecules.index.tolist(), molecules.smiles, strict=True):
            smiles[row] = text
        return self.domain.add(frame, smiles)

    def predict_store(self, store: GraphStore) -> pd.DataFrame:
        """Predictions for the graphs of a store, one row per graph (or node)."""
        import pandas as pd

        return pd.DataFrame(self._rows(store), columns=self.columns)

    def _rows(self, store: GraphStore) -> list[list[Any]]:
        """The values of `columns` for each graph (or node)."""
        store = self.encoded(store)
        with self.threads():
            return self._predicted_rows(store)

    def _predicted_rows(self, store: GraphStore) -> list[list[Any]]:
        nothing, most = [None] * (len(self.columns) - 1), batch_rows(self.device)
        sizes, store = store.num_nodes.tolist(), store.to(self.device)
        outputs = captured_outputs(self.network, store, most)
        pieces: Iterable[Piece[list[list[Any]]]]
        if outputs is None:
            pieces = in_pieces(store, self.saved.spec, most, self._run)
        else:
            pieces = [Piece([], self.task.predict(outputs))]
        rows: list[list[Any]] = []
        for piece in pieces:
            if piece.result is None:
                nodes = self.saved.spec.level == "node"
                count = sum(sizes[graph] if nodes else 1 for graph in piece.graphs)
                rows += [[*nothing, piece.error] for _ in range(count)]
                continue
            _add_errors(piece.result)
            rows += piece.result
        return rows

    def _run(self, batch: GraphBatch) -> list[list[Any]]:
        with torch.no_grad():
            return self.task.predict(run_network(self.network, batch, replay=True))

    def explain(self, inputs: Any, *, steps: int = EXPLAIN_STEPS) -> pd.DataFrame:
        """What each atom, or node, adds to the predictions: one row each.

        Takes the inputs of `predict`. Together with its row '(rest)', the rows of an input sum to
        its score: a regression's prediction, or the log odds of a class. Inputs, atoms and nodes
        count from 1. `steps` is the number of integration points.
        """
        from smpgnn.inference.explain_tables import explain_inputs

        return explain_inputs(self, inputs, steps=steps)

    def embed(self, inputs: Any) -> pd.DataFrame:
        """The vectors before the last linear layer: one row each, then `error`.

        Takes the inputs of `predict`. The output of the network, for regressions the standardised
        prediction, is `network.out` of the vector.
        """
        from smpgnn.inference.embed import embed_inputs

        return embed_inputs(self, inputs)

    def inputs(self, inputs: Any) -> dict[str, Tensor]:
        """The tensors that the network takes for SMILES or graphs, all in one batch.

        Takes the inputs of `predict`, or a file or folder of graphs. These are the inputs of an
        exported model: x [nodes, …], edge_index [2, edges], edge_attr [edges, …], batch [nodes],
        and u [graphs, …] for models with descriptors. What the model does not take is left out.
        """
        from smpgnn.inference.graph_tensors import graph_tensors

        return graph_tensors(self, inputs)

    def export(self, path: str | Path) -> Exported:
        """Write the model as a file that runs without smpgnn: .pt2 (AOTInductor) or .onnx."""
        from smpgnn.inference.export import export_model

        return export_model(self, path)

    def evaluate(self, data: Any, *, labels: Table | None = None) -> dict[str, float]:
        """Metrics on all rows of labelled data.

        `data` is a table (DataFrame or path), graph files (their `labels` are a table, too), or PyG
        graphs with `y`.
        """
        import pandas as pd

        from smpgnn.inference.evaluate import evaluate_file, evaluate_graphs

        if isinstance(data, str | Path | pd.DataFrame):
            return evaluate_file(self, data, labels=labels)[0]
        return evaluate_graphs(self, list(data))

    def read(self, inputs: Any, verb: str) -> GraphStore | list[str | None]:
        """The inputs as graphs, or the SMILES that they are."""
        if isinstance(inputs, str):
            raise InputError(f"{verb} takes a list of SMILES, not a string: put it in brackets.")
        if isinstance(inputs, GraphStore):
            return inputs
        if hasattr(inputs, "columns") and self.reads_smiles:  # a DataFrame
            from smpgnn.data.tables import require_columns

            column = self.smiles_column()
            require_columns([column], list(inputs.columns), "the DataFrame")
            inputs = inputs[column]
        items = list(inputs)
        graphs = bool(items) and hasattr(items[0], "edge_index")
        if not graphs and (self.reads_smiles or any(isinstance(item, str) for item in items)):
            return items
        from smpgnn.data.pyg import graphs_from_pyg

        return graphs_from_pyg([_without_targets(item, verb) for item in items])

    def encoded(self, store: GraphStore) -> GraphStore:
        """The graphs with categories as in training; refuses other numbers of features."""
        categories = Categories.from_dict(self.saved.source.get("categories", {}))
        for name, features, channels in (
            ("node", store.x, self.saved.spec.in_channels),
            ("edge", store.edge_attr, self.saved.spec.edge_channels),
        ):
            there = 0 if features is None else features.size(1)
            wanted = categories.raw_width(name, channels)
            if channels and there != wanted:
                raise InputError(
                    f"the graphs have {there} {name} features, but the model takes {wanted}."
                )
        if not self.saved.spec.edge_channels:
            categories = replace(categories, edge=())
        return categories.encode(store)

    def featurize(
        self, smiles: Sequence[str | None], table: pd.DataFrame | None = None
    ) -> MoleculeTable:
        """SMILES as graphs with the features that the model was trained on.

        `table` has the columns of descriptors, if the model takes any.
        """
        from smpgnn.data.molecules import MoleculeFeaturizer
        from smpgnn.data.zinc_vocabulary import ZincFeaturizer

        if not self.reads_smiles:
            raise InputError("this model was trained on graphs: give it graphs, not SMILES.")
        if self.saved.source["kind"] == "zinc":
            return ZincFeaturizer().featurize(smiles)
        standardize = bool(self.saved.source.get("standardize", False))
        found = MoleculeFeaturizer(standardize=standardize).featurize(smiles)
        return self.descriptors.add(found, len(smiles), table) if len(self.descriptors) else found


def input_columns(
    model: Model, path: str | Path, smiles_column: str | None, separator: str | None
) -> tuple[list[str], list[str]]:
    """The columns of a table, and those that predictions read, which it must have."""
    from smpgnn.data.tables import listing, require_columns, table_columns

    names = table_columns(path, separator=separator)
    needed = model.table_columns(smiles_column, path)
    if smiles_column is None and needed[0] not in names:
        raise InputError(
            f"{path} has no column '{needed[0]}', from which the model read its SMILES: name that "
            f"of this table with --smiles-column; its columns are {listing(names)}."
        )
    require_columns(needed, names, path)
    return list(names), needed


def predict_table(
    model: Model,
    path: str | Path,
    output: str | Path,
    *,
    smiles_column: str | None = None,
    separator: str | None = None,
    processes: int = 0,
    progress: Callable[[int], None] = lambda rows: None,
) -> Written:
    """Predict for a table of SMILES of any length, piece by piece.

    Writes all columns of the input, then the predictions, then `error`: Parquet if the name of the
    output ends in .parquet, else CSV. With `processes=0` long tables use all idle processors.
    """
    import pandas as pd

    if Path(output).suffix == ".parquet":
        from smpgnn.inference.partitions import write_parquet

        return write_parquet(
            model,
            path,
            output,
            smiles_column=smiles_column,
            separator=separator,
            processes=processes,
            progress=progress,
        )

    from smpgnn.data.table_writer import AtomicCsvWriter
    from smpgnn.data.tables import free_names, stream_table

    names, needed = input_columns(model, path, smiles_column, separator)
    columns = model.all_columns
    new = free_names(columns, names)
    rows = failed = 0
    with AtomicCsvWriter(output, [*names, *new]) as writer:
        chunks = stream_table(path, separator=separator, chunk_rows=PIECE_ROWS)
        for chunk, found in predicted(model, chunks, needed, processes):
            failed += int(found["error"].notna().sum())
            rows += len(chunk)
            found.index, found.columns = chunk.index, pd.Index(new)
            writer.write(pd.concat([chunk, found], axis=1))
            progress(rows)
    renamed = tuple(name for name, usual in zip(new, columns, strict=True) if name != usual)
    return Written(rows, failed, tuple(new), renamed)


def predict_graphs(model: Model, path: str | Path, output: str | Path) -> Written:
    """Predict for a file or folder of graphs; one row per graph, or node."""
    from smpgnn.data.table_writer import AtomicCsvWriter

    model.schema("predict with it")  # before a file is written
    labels = ["graph", "node"] if model.saved.spec.level == "node" else ["graph"]
    with AtomicCsvWriter(output, [*labels, *model.columns]) as writer:
        frame = graph_frame(model, path)
        writer.write(frame)
    return Written(len(frame), int(frame["error"].notna().sum()), tuple(model.columns))


def graph_frame(model: Model, path: str | Path) -> pd.DataFrame:
    """Predictions for a file or folder of graphs: the names of graph (and node), then `columns`."""
    from smpgnn.data.graphs import read_graphs

    table = read_graphs(path, schema=model.schema("predict with it"))
    frame = model.predict_store(table.store)
    graphs = list(table.names)
    if model.saved.spec.level == "node":
        pairs = list(zip(table.names, table.node_names, strict=True))
        graphs = [name for name, own in pairs for _ in own]
        frame.insert(0, "node", [node for _, own in pairs for node in own])
    frame.insert(0, "graph", graphs)
    return frame


def with_index_of(inputs: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """The results for inputs with their index, if they are a Series or DataFrame."""
    import pandas as pd

    return frame.set_axis(inputs.index) if isinstance(inputs, pd.DataFrame | pd.Series) else frame


def table_of(inputs: Any) -> pd.DataFrame | None:
    """The inputs if they are a table in memory."""
    return inputs if hasattr(inputs, "columns") else None


def _without_targets(graph: Any, verb: str) -> Any:
    """A graph without its targets, which only some graphs may have."""
    if not hasattr(graph, "edge_index"):
        raise InputError(f"{verb} takes graphs of PyTorch Geometric, not {type(graph).__name__}.")
    graph = copy.copy(graph)
    graph.y = graph.y_node = None
    return graph


def load(path: str | Path, device: str = "auto") -> Model:
    """A trained model: a run folder, a model file, or the name of one that ships with the package.

    A run with members is a model that predicts their mean.
    """
    if has_members(path):
        from smpgnn.inference.ensemble import EnsembleModel

        return EnsembleModel(path, device)
    return Model(load_model(path), device, path)
