"""Metrics of a trained model on a file of one's own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from smpgnn.data.store import GraphStore
from smpgnn.data.targets import TargetSpec, encode_targets
from smpgnn.errors import InputError
from smpgnn.training.predict import Model
from smpgnn.training.tasks import Classification, MultiLabel, Regression, Task
from smpgnn.training.train import evaluate_store


def evaluate_file(
    model: Model,
    path: str | Path,
    *,
    labels: str | Path | None = None,
    smiles_column: str | None = None,
) -> dict[str, float]:
    """Metrics on a table of molecules or on graphs whose targets are known."""
    store = (
        _molecules(model, path, smiles_column)
        if model.reads_smiles
        else _graphs(model, path, labels)
    )
    return evaluate_store(model.network, model.task, store, 128, model.device)


def target_spec(task: Task) -> TargetSpec:
    """The targets that a task was trained on, as a table names them."""
    if isinstance(task, Regression):
        return TargetSpec("regression", task.names)
    if isinstance(task, Classification):
        return TargetSpec("classification", (task.name,), (task.classes,))
    if isinstance(task, MultiLabel):
        return TargetSpec("classification", task.names, task.classes)
    raise InputError("this model has targets that no table holds: leave the file out.")


def _molecules(model: Model, path: str | Path, smiles_column: str | None) -> GraphStore:
    from smpgnn.data.tables import read_table

    spec = target_spec(model.task)
    column = smiles_column or str(model.saved.source["smiles_column"])
    frame = read_table(path, [column, *spec.names])
    values = encode_targets(frame, spec, source=str(path))
    found = model.featurize(frame[column].tolist())
    if len(found.store) == 0:
        raise InputError(f"{path}: no row of column '{column}' is a molecule the model can read.")
    return replace(found.store, y=values[found.index].float())


def _graphs(model: Model, path: str | Path, labels: str | Path | None) -> GraphStore:
    from smpgnn.data.graph_schema import GraphSchema
    from smpgnn.data.graphs import read_graphs

    if "schema" not in model.saved.source:
        raise InputError("this model was trained from Python: evaluate it from Python, too.")
    schema = GraphSchema.from_dict(model.saved.source["schema"])
    if schema.targets is None:
        schema = replace(schema, targets=target_spec(model.task))
    store = read_graphs(path, labels=labels, schema=schema).store
    if (store.y if schema.level == "graph" else store.y_node) is None:
        raise InputError(f"{path}: the targets are not known: give them with --labels.")
    return store
