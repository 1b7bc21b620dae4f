"""Predictions of a trained model for new molecules and graphs."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.errors import InputError
from smpgnn.inference import EXPLAIN_STEPS
from smpgnn.inference.pieces import in_pieces
from smpgnn.training.network import run_network
from smpgnn.training.saved import SavedModel, load_model, pick_device
from smpgnn.training.tasks import Task

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.data.molecules import MoleculeTable

#: Rows of contexts worked on at a time.
BATCH_ROWS = 400_000


@dataclass(frozen=True, eq=False)
class Predictions:
    """Of every graph (or node) the values of the columns `task.columns()`, or why there are none.

    Where there is an error the values are None.
    """

    rows: list[list[Any]]
    errors: list[str | None]

    def lines(self) -> list[list[Any]]:
        """The values, then the error."""
        return [[*row, error] for row, error in zip(self.rows, self.errors, strict=True)]


@dataclass(frozen=True)
class Written:
    """A file of predictions: its rows, those of them without a prediction, and the new columns.

    The last of these says why a row has no prediction. `renamed` are those that could not have
    their usual name because the input has such a column.
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

    def __init__(self, saved: SavedModel, device: str = "auto") -> None:
        self.saved = saved
        self.device = pick_device(device)
        self.network: nn.Module = saved.network.to(self.device).eval()

    @property
    def task(self) -> Task:
        return self.saved.task

    @property
    def reads_smiles(self) -> bool:
        """Whether the model was trained on molecules."""
        return self.saved.source["kind"] in ("molecules", "zinc")

    def smiles_column(self, given: str | None = None) -> str:
        """The column of a table that has the SMILES: the one given, or as in training."""
        return given or str(self.saved.source.get("smiles_column", "smiles"))

    def predict_store(self, store: GraphStore) -> Predictions:
        """Predictions for every graph (or node) of the store, in order."""
        self.check_widths(store)
        rows: list[list[Any]] = []
        errors: list[str | None] = []
        nothing = [None] * len(self.task.columns())
        sizes = store.num_nodes.tolist()
        for piece in in_pieces(store.to(self.device), self.saved.spec, BATCH_ROWS, self._run):
            found = piece.result
            if found is None:
                nodes = self.saved.spec.level == "node"
                count = sum(sizes[graph] if nodes else 1 for graph in piece.graphs)
                rows += [nothing] * count
                errors += [piece.error] * count
                continue
            for row in found:
                fine = all(not isinstance(value, float) or math.isfinite(value) for value in row)
                rows.append(row if fine else nothing)
                errors.append(None if fine else "the prediction is not a finite number")
        return Predictions(rows, errors)

    def _run(self, batch: GraphBatch) -> list[list[Any]]:
        with torch.no_grad():
            return self.task.predict(run_network(self.network, batch))

    def check_widths(self, store: GraphStore) -> None:
        """Refuse graphs with other features than the model takes."""
        widths = [("node", store.x, self.saved.spec.in_channels)]
        widths.append(("edge", store.edge_attr, self.saved.spec.edge_channels))
        for name, features, wanted in widths:
            there = 0 if features is None else features.size(1)
            if wanted and there != wanted:
                raise InputError(
                    f"the graphs have {there} {name} features, but the model takes {wanted}."
                )

    def predict(self, inputs: Any) -> pd.DataFrame:
        """Predictions for SMILES (a list of texts), or for graphs (PyG `Data` or a GraphStore).

        One line an input, in the order given; the column `error` says why a line has none.
        """
        import pandas as pd

        found = self.read(inputs, "predict")
        if isinstance(found, GraphStore):
            lines = self.predict_store(found).lines()
            return pd.DataFrame(lines, columns=[*self.task.columns(), "error"])
        return self.predict_smiles(found)

    def read(self, inputs: Any, verb: str) -> GraphStore | list[str | None]:
        """Inputs of a call as graphs, or the SMILES that they are."""
        if isinstance(inputs, str):
            raise InputError(f"{verb} takes a list of SMILES, not a string: put it in brackets.")
        if isinstance(inputs, GraphStore):
            return inputs
        items = list(inputs)
        graphs = bool(items) and hasattr(items[0], "edge_index")
        if not graphs and (self.reads_smiles or any(isinstance(item, str) for item in items)):
            return items
        from smpgnn.data.pyg import graphs_from_pyg

        # targets that some of the graphs may have are not looked at
        return graphs_from_pyg([_without_targets(item, verb) for item in items])

    def predict_smiles(self, smiles: Sequence[str | None]) -> pd.DataFrame:
        import pandas as pd

        table = self.featurize(smiles)
        columns = [*self.task.columns(), "error"]
        lines: list[list[Any]] = [[None] * len(columns) for _ in smiles]
        if len(table.store):
            found = self.predict_store(table.store)
            for row, line in zip(table.index.tolist(), found.lines(), strict=True):
                lines[row] = line
        for row, reason in table.errors.items():
            lines[row][-1] = reason
        return pd.DataFrame(lines, columns=columns)

    def explain(self, inputs: Any, *, steps: int = EXPLAIN_STEPS) -> pd.DataFrame:
        """What each atom, or node, adds to the predictions: a line each.

        Takes what `predict` takes. With the line '(rest)' those of an input add up to its score:
        the prediction of a regression, of a class the logarithm of its odds. Inputs, atoms and
        nodes are counted from 1. `steps` is the number of points of the integrals.
        """
        from smpgnn.inference.explain_tables import explain_inputs

        return explain_inputs(self, inputs, steps=steps)

    def evaluate(self, data: Any, *, labels: str | Path | None = None) -> dict[str, float]:
        """Metrics on all rows of labelled data: a table, graph files, or PyG graphs with `y`."""
        from smpgnn.inference.evaluate import evaluate_file, evaluate_graphs

        if isinstance(data, str | Path):
            return evaluate_file(self, data, labels=labels)[0]
        return evaluate_graphs(self, list(data))

    def featurize(self, smiles: Iterable[str | None]) -> MoleculeTable:
        """SMILES as graphs in the features that the model was trained on."""
        from smpgnn.data.molecules import MoleculeFeaturizer
        from smpgnn.data.zinc_vocabulary import ZincFeaturizer

        kind = self.saved.source["kind"]
        if kind == "zinc":
            return ZincFeaturizer().featurize(smiles)
        if kind == "molecules":
            return MoleculeFeaturizer().featurize(smiles)
        raise InputError("this model was trained on graphs: give it graphs, not SMILES.")


def predict_table(
    model: Model,
    path: str | Path,
    output: str | Path,
    *,
    smiles_column: str | None = None,
    separator: str | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Written:
    """Predict for a table of SMILES of any length, a piece at a time.

    Writes all columns of the input, then the predictions, then `error`.
    """
    import pandas as pd

    from smpgnn.data.table_writer import AtomicCsvWriter
    from smpgnn.data.tables import free_names, require_columns, stream_table, table_columns

    names = table_columns(path, separator=separator)
    column = model.smiles_column(smiles_column)
    require_columns([column], names, path)
    usual = [*model.task.columns(), "error"]
    new = free_names(usual, names)
    rows = failed = 0
    with AtomicCsvWriter(output, [*names, *new]) as writer:
        for chunk in stream_table(path, separator=separator):
            predicted = model.predict_smiles(chunk[column].tolist())
            failed += int(predicted["error"].notna().sum())
            rows += len(chunk)
            predicted.index, predicted.columns = chunk.index, pd.Index(new)
            writer.write(pd.concat([chunk, predicted], axis=1))
            progress(rows)
    renamed = tuple(name for name, old in zip(new, usual, strict=True) if name != old)
    return Written(rows, failed, tuple(new), renamed)


def predict_graphs(model: Model, path: str | Path, output: str | Path) -> Written:
    """Predict for a file or folder of graphs; one line a graph, or a node."""
    import pandas as pd

    from smpgnn.data.graph_schema import GraphSchema
    from smpgnn.data.graphs import read_graphs
    from smpgnn.data.table_writer import AtomicCsvWriter

    source = model.saved.source
    if "schema" not in source:
        raise InputError("this model was trained from Python: predict with it there.")
    nodes = model.saved.spec.level == "node"
    new = [*model.task.columns(), "error"]
    columns = ["graph", *(["node"] if nodes else []), *new]
    with AtomicCsvWriter(output, columns) as writer:
        table = read_graphs(path, schema=GraphSchema.from_dict(source["schema"]))
        names: list[tuple[str, ...]] = [(name,) for name in table.names]
        if nodes:
            pairs = zip(table.names, table.node_names, strict=True)
            names = [(graph, node) for graph, own in pairs for node in own]
        found = model.predict_store(table.store)
        lines = [[*name, *line] for name, line in zip(names, found.lines(), strict=True)]
        writer.write(pd.DataFrame(lines, columns=columns))
    failed = sum(error is not None for error in found.errors)
    return Written(len(lines), failed, tuple(new))


def _without_targets(graph: Any, verb: str) -> Any:
    if not hasattr(graph, "edge_index"):
        raise InputError(f"{verb} takes graphs of PyTorch Geometric, not {type(graph).__name__}.")
    graph = copy.copy(graph)
    graph.y = graph.y_node = None
    return graph


def load(path: str | Path, device: str = "auto") -> Model:
    """A trained model: the folder of a run, its model.safetensors, or 'zinc', which ships."""
    return Model(load_model(path), device)
