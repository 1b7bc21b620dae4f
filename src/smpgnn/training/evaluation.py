"""Metrics and predictions of a trained network on the graphs of a store."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from smpgnn.capture.steps import can_capture
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.errors import InputError
from smpgnn.training.loader import BatchLoader
from smpgnn.training.prepare import Prepared
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.steps import EvaluationStep
from smpgnn.training.tasks import Task

#: Capturing a CUDA graph takes about as long as so many batches.
_MANY = 20


def evaluate_store(
    network: nn.Module,
    task: Task,
    store: GraphStore,
    batch_size: int,
    device: torch.device,
    batch_rows: int = 0,
    keep: Callable[[Any, GraphBatch], None] = lambda output, batch: None,
) -> dict[str, float]:
    """The metrics of a network on all graphs of a store; a target that is never known has none.

    `keep` is given every output and its batch, in the order of the store.
    """
    metrics = task.metrics().to(device)
    network, store = network.to(device).eval(), store.to(device)
    many = batch_rows == 0 and len(store) >= _MANY * batch_size
    step = EvaluationStep(network, store, batch_size, capture=many and can_capture(network, device))
    known = 0
    for graphs in BatchLoader(store, batch_size, batch_rows=batch_rows):
        out, batch = step(graphs)
        known += task.known(batch)
        task.update(metrics, out, batch)
        keep(out, batch)
    if known == 0:
        raise InputError("the evaluation data have no known target: fill the target column.")
    values = {name: float(value) for name, value in task.results(metrics).items()}
    return {name: value for name, value in values.items() if not math.isnan(value)}


class TestPredictions:
    """Predictions for the test rows beside their targets."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.targets: list[list[Any]] = []
        self.predicted: list[list[Any]] = []

    def keep(self, output: Any, batch: GraphBatch) -> None:
        self.targets += self.task.shown_targets(batch)
        self.predicted += self.task.predict(output)

    def write(self, folder: RunFolder, prepared: Prepared) -> None:
        table, test = prepared.split_table().of("test"), prepared.splits.test
        if table.node is not None:  # of all nodes those of the test split
            nodes = (test.node_ptr[table.row] + table.node).tolist()
            self.targets = [self.targets[node] for node in nodes]
            self.predicted = [self.predicted[node] for node in nodes]
        elif self.task.node_outputs and not self.task.graph_outputs:
            table = table.with_nodes(test.num_nodes)
        taken = {"row", "node", *self.task.columns()}
        names = [f"target_{n}" if n in taken else n for n in self.task.target_names()]
        lines = zip(self.targets, self.predicted, strict=True)
        folder.write_predictions(
            table,
            [*names, *self.task.columns()],
            [[_short(value) for value in (*known, *said)] for known, said in lines],
        )


def _short(value: Any) -> Any:
    """Numbers in as many digits as float32 has, nothing where there is none."""
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else str(np.float32(value))
