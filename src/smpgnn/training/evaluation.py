"""Metrics and test predictions of a trained network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from smpgnn.capture.steps import can_capture
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.errors import InputError
from smpgnn.training.loader import BatchLoader
from smpgnn.training.prepare import Prepared
from smpgnn.training.run_data import SplitTable
from smpgnn.training.steps import EvaluationStep
from smpgnn.training.tasks import Task

if TYPE_CHECKING:
    import pandas as pd

#: Capturing a CUDA graph takes about as long as this many batches.
MANY = 20


def evaluate_store(
    network: nn.Module,
    task: Task,
    store: GraphStore,
    batch_size: int,
    device: torch.device,
    batch_rows: int = 0,
    keep: Callable[[Any, GraphBatch], None] = lambda output, batch: None,
) -> dict[str, float]:
    """The metrics of a network on all graphs of a store; a target that is never known is left out.

    `keep` is called with every output and its batch, in the order of the store.
    """
    if len(store) == 0:
        raise InputError(
            "there are no test rows: name labelled data, as in evaluate RUN --data FILE."
        )
    metrics = task.metrics().to(device)
    known = 0
    for out, batch in outputs_of(network, store, batch_size, device, batch_rows):
        known += task.known(batch)
        task.update(metrics, out, batch)
        keep(out, batch)
    if known == 0:
        raise InputError("the evaluation data have no known target: fill the target column.")
    return task.defined(metrics)


def outputs_of(
    network: nn.Module,
    store: GraphStore,
    batch_size: int,
    device: torch.device,
    batch_rows: int = 0,
) -> Iterator[tuple[Any, GraphBatch]]:
    """The output of a network for each batch of a store, in order."""
    network, store = network.to(device).eval(), store.to(device)
    many = batch_rows == 0 and len(store) >= MANY * batch_size
    step = EvaluationStep(network, store, batch_size, capture=many and can_capture(network, device))
    for graphs in BatchLoader(store, batch_size, batch_rows=batch_rows):
        yield step(graphs)


def test_table(prepared: Prepared, task: Task, rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    """A line for each test row (or node); `rows` has the targets and predictions of all of them."""
    whole, test = prepared.split_table(), prepared.splits.test
    assert isinstance(whole, SplitTable)  # folds are shown by their members
    table = whole.of("test")
    if table.node is not None:  # of all nodes, those of the test split
        rows = [rows[node] for node in (test.node_ptr[table.row] + table.node).tolist()]
    elif task.node_outputs and not task.graph_outputs:
        table = table.with_nodes(test.num_nodes)
    return prediction_table(task, table, task.columns(), rows, prepared.smiles)


def prediction_table(
    task: Task,
    table: SplitTable,
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    smiles: Sequence[str],
) -> pd.DataFrame:
    """One line for each row (or node) of `table`: its number, SMILES, targets and predictions.

    `rows` has the targets and the values of `columns`; they get as many digits as float32 has.
    `smiles` are those of all rows of a table of molecules.
    """
    import pandas as pd

    taken = {"row", "node", "smiles", *columns}
    names = [f"target_{name}" if name in taken else name for name in task.target_names()]
    values = pd.DataFrame(rows, columns=[*names, *columns])
    values = values.astype(dict.fromkeys(values.select_dtypes("float64").columns, "float32"))
    for name, column in values.items():
        if column.dtype == object:  # numbers and bounds
            short = [np.float32(v) if isinstance(v, float) else v for v in column]
            values[name] = pd.Series(short, dtype=object)
    numbers = table.frame().drop(columns="split")
    if smiles:
        numbers.insert(1, "smiles", [smiles[row] for row in table.row.tolist()])
    frame: pd.DataFrame = pd.concat([numbers, values], axis=1)
    return frame
