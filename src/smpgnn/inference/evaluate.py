"""Metrics of a trained model on your own data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from smpgnn.data.store import GraphStore
from smpgnn.data.targets import TargetSpec, encode_targets, make_spec
from smpgnn.errors import InputError
from smpgnn.inference.domain import Domain, domain_file
from smpgnn.inference.predict import Model, batch_rows
from smpgnn.training.evaluation import evaluate_store
from smpgnn.training.own_data import left_out
from smpgnn.training.own_task import exact_targets
from smpgnn.training.tasks import Classification, MixedTargets, MultiLabel, Regression, Task

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.data.tables import Table


def evaluate_file(
    model: Model,
    path: str | Path | pd.DataFrame,
    *,
    labels: Table | None = None,
    smiles_column: str | None = None,
    separator: str | None = None,
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Metrics on a table of molecules or on graph files with targets, and notes on the data."""
    notes: tuple[str, ...] = ()
    name = str(path) if isinstance(path, str | Path) else "data"
    if model.reads_smiles:
        store, notes = _molecules(model, path, smiles_column, separator)
    elif isinstance(path, str | Path):
        store = _graphs(model, path, labels)
    else:
        raise InputError("this model was trained on graphs: give it graphs, not a DataFrame.")
    level = model.saved.spec.level
    target = store.y_node if level == "node" else store.y
    if target is None or bool(exact_targets(store, level).isnan().all()):
        raise InputError(f"{name}: has no known target: fill the column or give --labels.")
    return _metrics(model, store), notes


def evaluate_graphs(model: Model, graphs: list[Any]) -> dict[str, float]:
    """Metrics on PyG graphs, whose targets are in `y`."""
    import pandas as pd

    from smpgnn.data.pyg import graphs_from_pyg

    level = model.saved.spec.level
    store = graphs_from_pyg(graphs, level=cast(Any, level))
    target = store.y if level == "graph" else store.y_node
    if target is None:
        raise InputError("data: the graphs have no targets: add 'y' to each.")
    spec = target_spec(model.task)
    if target.size(1) != len(spec.names):
        raise InputError(
            f"data: the graphs have {target.size(1)} targets, but the model has {len(spec.names)}."
        )
    frame = pd.DataFrame(target.double().numpy(), columns=list(spec.names))
    return _metrics(model, encode_targets(frame, spec, source="data").added(store, level))


def _metrics(model: Model, store: GraphStore) -> dict[str, float]:
    store = model.encoded(store)
    rows = batch_rows(model.device)
    with model.threads():
        return evaluate_store(model.network, model.task, store, 128, model.device, batch_rows=rows)


def target_spec(task: Task) -> TargetSpec:
    """The targets of a task, as columns of a table."""
    if isinstance(task, Regression):
        return TargetSpec("regression", task.names, log10=task.log10)
    if isinstance(task, Classification):
        return TargetSpec("classification", (task.name,), (task.classes,))
    if isinstance(task, MultiLabel):
        return TargetSpec("classification", task.names, task.classes)
    if isinstance(task, MixedTargets):
        specs = [target_spec(part) for part in task.parts]
        names = tuple(name for spec in specs for name in spec.names)
        labels = [labels for spec in specs for labels in spec.labels]
        return make_spec(names, labels, log10=any(spec.log10 for spec in specs))
    raise InputError(
        "this model has node and graph targets, which no table has: leave the file out."
    )


def _molecules(
    model: Model, path: str | Path | pd.DataFrame, smiles_column: str | None, separator: str | None
) -> tuple[GraphStore, tuple[str, ...]]:
    from smpgnn.data.tables import read_table, select_columns

    spec = target_spec(model.task)
    column, *more = model.table_columns(smiles_column, path)
    source, columns = "data", [column, *spec.names, *more]
    if isinstance(path, str | Path):
        source, frame = str(path), read_table(path, columns, separator=separator)
    else:
        frame = select_columns(path, columns, source)
    targets = encode_targets(frame, spec, source=source)
    found = model.featurize(frame[column].tolist(), frame)
    if len(found.store) == 0:
        raise InputError(
            f"{source}: no row of column '{column}' is a valid molecule: check --smiles-column."
        )
    notes = (*left_out(found, frame, source), *_seen_in_training(model, found.smiles, source))
    return targets.of(found.index).added(found.store), notes


def _seen_in_training(model: Model, smiles: list[str], source: str) -> tuple[str, ...]:
    """A note on molecules that the model was trained on, if its run folder tells them."""
    if model.path is None or not domain_file(model.path).exists():
        return ()
    from smpgnn.data.molecule_splits import canonical_smiles

    known = {canonical_smiles(text)[0] for text in Domain.load(model.path).smiles}
    seen = sum(canonical_smiles(text)[0] in known for text in smiles)
    if not seen:
        return ()
    rows = "row has a molecule" if seen == 1 else "rows have molecules"
    return (
        f"{source}: {seen:,} {rows} of the training data: the metrics are better than for new "
        "molecules.",
    )


def _graphs(model: Model, path: str | Path, labels: Table | None) -> GraphStore:
    from smpgnn.data.graphs import read_graphs

    schema = model.schema("evaluate it with smpgnn.load(RUN).evaluate(graphs)")
    if schema.targets is None:
        schema = replace(schema, targets=target_spec(model.task))
    return read_graphs(path, labels=labels, schema=schema).store
