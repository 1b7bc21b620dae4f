"""From a trained network to the values of the cells of its training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from smpgnn.config.options import CyclesOptions, PropertiesOptions, TrainOptions
from smpgnn.data.store import GraphStore
from smpgnn.paper.experiments.records import BySize
from smpgnn.paper.experiments.table import Table
from smpgnn.training.evaluation import evaluate_store
from smpgnn.training.loader import BatchLoader
from smpgnn.training.metrics import LogMSEBySize
from smpgnn.training.prepare import Prepared
from smpgnn.training.saved import pick_device
from smpgnn.training.steps import EvaluationStep
from smpgnn.training.train import Result


@dataclass(frozen=True)
class Score:
    """The value of a cell on the test data and on the validation data.

    `by_size` has values on larger graphs, too, if they were measured.
    """

    test: float
    validation: float
    by_size: BySize | None = None


def scale_of(table: Table) -> float:
    """The factor between the metric of training and the unit of the table."""
    return 100.0 if table.measure in ("accuracy", "sizes") else 1.0


def measure(
    table: Table,
    training: str,
    options: TrainOptions,
    prepared: Prepared,
    result: Result,
    samples: int | None = None,
) -> dict[str, Score]:
    """The score of each cell by name; `samples` is the number of test graphs of a reduced run."""
    cells = [cell.name for cell in table.training(training).cells]
    if table.measure.startswith("targets"):
        by_size = table.measure == "targets by size"
        return dict(zip(cells, _targets(options, prepared, result, by_size, samples), strict=True))
    monitor, scale = result.saved.task.monitor, scale_of(table)
    values = [result.test[monitor]]
    if table.measure == "sizes":
        values.insert(0, _at_training_size(options, result))
    return {
        cell: Score(scale * value, scale * result.validation[monitor])
        for cell, value in zip(cells, values, strict=True)
    }


def _at_training_size(options: TrainOptions, result: Result) -> float:
    """Accuracy on the test graphs of the size of the training graphs."""
    from smpgnn.data.cycles import cycle_splits

    assert isinstance(options, CyclesOptions)
    near = cycle_splits(
        options.k,
        options.n,
        balance=cast(Any, options.balance),
        seed=options.seed,
        train=1,
        val=1,
        test=options.test_samples,
    ).test
    saved, device = result.saved, pick_device(options.device)
    found = evaluate_store(
        saved.network, saved.task, near, options.batch_size, device, options.batch_rows
    )
    return found[saved.task.monitor]


def _targets(
    options: TrainOptions, prepared: Prepared, result: Result, by_size: bool, samples: int | None
) -> list[Score]:
    """log10 MSE: the mean of the six targets, then each of them."""
    network, splits = result.saved.network, prepared.splits
    test, validation = (_by_target(network, part, options) for part in (splits.test, splits.val))
    if not by_size:
        return [Score(*values) for values in zip(test, validation, strict=True)]
    assert isinstance(options, PropertiesOptions)
    sizes, values = splits.test.num_nodes, [test]
    least, most = [int(sizes.min())], [int(sizes.max())]
    for name, store in _larger(options.connected, samples).items():
        low, high = name.split("-")
        least.append(int(low))
        most.append(int(high))
        values.append(_by_target(network, store, options))
    return [
        Score(first, held_out, BySize(tuple(least), tuple(most), tuple(column)))
        for first, held_out, column in zip(test, validation, zip(*values, strict=True), strict=True)
    ]


def _larger(connected: str, samples: int | None) -> dict[str, GraphStore]:
    """Test graphs larger than those of training; in a reduced run, `samples` per five sizes."""
    from smpgnn.data.properties import extrapolation_splits

    number = {} if samples is None else {"graphs_per_size": max(1, samples // 5)}
    return extrapolation_splits(connected=cast(Any, connected), **number).larger


def _by_target(network: Any, store: GraphStore, options: TrainOptions) -> list[float]:
    """log10 MSE: the mean of the six targets, then each of them."""
    device = pick_device(options.device)
    metric = LogMSEBySize().to(device)
    step = EvaluationStep(network.to(device).eval(), store.to(device), options.batch_size)
    for indices in BatchLoader(store, options.batch_size, batch_rows=options.batch_rows):
        (nodes, graphs), batch = step(indices)
        metric.update(nodes.float(), graphs.float(), batch)
    values: list[float] = metric.by_target().tolist()
    return [sum(values) / len(values), *values]
