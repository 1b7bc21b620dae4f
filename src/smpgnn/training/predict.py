"""Predictions of a trained model for new molecules and graphs."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from smpgnn.catalogue import EXPLAIN_STEPS
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.training.loader import BatchLoader
from smpgnn.training.network import run_network
from smpgnn.training.saved import SavedModel, load_model, pick_device
from smpgnn.training.tasks import Task

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.data.molecules import MoleculeTable

#: Rows of contexts worked on at a time.
BATCH_ROWS = 400_000


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

    def predict_store(self, store: GraphStore) -> list[list[Any]]:
        """The values of the columns `task.columns()` for every graph (or node) of the store."""
        self.check_widths(store)
        rows: list[list[Any]] = []
        with torch.no_grad():
            for batch in BatchLoader(store.to(self.device), 1024, batch_rows=BATCH_ROWS):
                rows += self.task.predict(run_network(self.network, batch))
        return rows

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
            return pd.DataFrame(self.predict_store(found), columns=self.task.columns())
        return self.predict_smiles(found)

    def read(self, inputs: Any, verb: str) -> GraphStore | list[str | None]:
        """Inputs of a call as graphs, or the SMILES that they are."""
        if isinstance(inputs, str):
            raise InputError(f"{verb} takes a list of SMILES, not one text: put it in brackets.")
        if isinstance(inputs, GraphStore):
            return inputs
        items = list(inputs)
        graphs = bool(items) and hasattr(items[0], "edge_index")
        if not graphs and (self.reads_smiles or any(isinstance(item, str) for item in items)):
            return items
        from smpgnn.data.graphs import graphs_from_pyg

        # targets that some of the graphs may have are not looked at
        return graphs_from_pyg([_without_targets(item, verb) for item in items])

    def predict_smiles(self, smiles: Sequence[str | None]) -> pd.DataFrame:
        import pandas as pd

        table = self.featurize(smiles)
        columns = [*self.task.columns(), "error"]
        lines: list[list[Any]] = [[None] * len(columns) for _ in smiles]
        if len(table.store):
            found = self.predict_store(table.store)
            for row, values in zip(table.index.tolist(), found, strict=True):
                lines[row][:-1] = values
        for row, reason in table.errors.items():
            lines[row][-1] = reason
        return pd.DataFrame(lines, columns=columns)

    def explain(self, inputs: Any, *, steps: int = EXPLAIN_STEPS) -> pd.DataFrame:
        """What each atom, or node, adds to the predictions: a line each.

        Takes what `predict` takes. With the line '(rest)' those of an input add up to its score:
        the prediction of a regression, of a class the logarithm of its odds. Inputs, atoms and
        nodes are counted from 1. `steps` is the number of points of the integrals.
        """
        from smpgnn.training.explain_tables import explain_inputs

        return explain_inputs(self, inputs, steps=steps)

    def evaluate(self, data: Any, *, labels: str | Path | None = None) -> dict[str, float]:
        """Metrics on all rows of labelled data: a table, graph files, or PyG graphs with `y`."""
        from smpgnn.training.evaluate import evaluate_file, evaluate_graphs

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
        raise InputError("this model was trained on graphs, not on molecules: give it graphs.")


def predict_table(
    model: Model,
    path: str | Path,
    output: str | Path,
    *,
    smiles_column: str | None = None,
    separator: str | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> tuple[int, int]:
    """Predict for a table of SMILES of any length, a piece at a time.

    Writes all columns of the input, then the predictions, then `error`. Returns how many rows were
    written and how many of them have no prediction.
    """
    import pandas as pd

    from smpgnn.data.table_writer import AtomicCsvWriter
    from smpgnn.data.tables import require_columns, stream_table, table_columns

    names = table_columns(path, separator=separator)
    column = model.smiles_column(smiles_column)
    require_columns([column], names, path)
    new = [*model.task.columns(), "error"]
    for name in new:
        if name in names:
            raise InputError(f"{path} has a column '{name}' already: rename it in the input.")
    rows = failed = 0
    with AtomicCsvWriter(output, [*names, *new]) as writer:
        for chunk in stream_table(path, separator=separator):
            predicted = model.predict_smiles(chunk[column].tolist())
            failed += int(predicted["error"].notna().sum())
            rows += len(chunk)
            predicted.index = chunk.index
            writer.write(pd.concat([chunk, predicted], axis=1))
            progress(rows)
    return rows, failed


def predict_graphs(model: Model, path: str | Path, output: str | Path) -> int:
    """Predict for a file or folder of graphs; one line a graph, or a node. Returns the lines."""
    import pandas as pd

    from smpgnn.data.graph_schema import GraphSchema
    from smpgnn.data.graphs import read_graphs
    from smpgnn.data.table_writer import AtomicCsvWriter

    source = model.saved.source
    if "schema" not in source:
        raise InputError("this model was trained from Python: predict with it from Python, too.")
    table = read_graphs(path, schema=GraphSchema.from_dict(source["schema"]))
    names: dict[str, list[str]] = {"graph": list(table.names)}
    if model.saved.spec.level == "node":
        pairs = zip(table.names, table.node_names, strict=True)
        both = [(graph, node) for graph, nodes in pairs for node in nodes]
        names = {"graph": [a for a, _ in both], "node": [b for _, b in both]}
    frame = pd.DataFrame(
        {
            **names,
            **dict(
                zip(
                    model.task.columns(),
                    zip(*model.predict_store(table.store), strict=True),
                    strict=True,
                )
            ),
        }
    )
    with AtomicCsvWriter(output, list(frame.columns)) as writer:
        writer.write(frame)
    return len(frame)


def _without_targets(graph: Any, verb: str) -> Any:
    if not hasattr(graph, "edge_index"):
        raise InputError(f"{verb} takes graphs of PyTorch Geometric, not {type(graph).__name__}.")
    graph = copy.copy(graph)
    graph.y = graph.y_node = None
    return graph


def load(path: str | Path, device: str = "auto") -> Model:
    """A trained model: the folder of a run, its model.safetensors, or 'zinc', which ships."""
    return Model(load_model(path), device)
