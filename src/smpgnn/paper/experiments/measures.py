"""From a trained network to the values of the cells of its training."""

from __future__ import annotations

from typing import Any, cast

from smpgnn.config.options import CyclesOptions, PropertiesOptions, TrainOptions
from smpgnn.data.cycles import cycle_splits
from smpgnn.data.properties import extrapolation_splits
from smpgnn.data.store import GraphStore
from smpgnn.paper.experiments.records import BySize
from smpgnn.paper.experiments.table import Table
from smpgnn.training.evaluation import evaluate_store, outputs_of
from smpgnn.training.metrics import LogMSEBySize
from smpgnn.training.prepare import Prepared
from smpgnn.training.saved import pick_device
from smpgnn.training.train import Result


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
) -> dict[str, dict[str, Any]]:
    """What the records of the cells say, by the name of the cell.

    `value` and `validation`; `by_size`, the values on larger graphs, if the table asks for them.
    `samples` is the number of test graphs of a reduced run.
    """
    cells = [cell.name for cell in table.training(training).cells]
    if table.measure.startswith("targets"):
        by_size = table.measure == "targets by size"
        return dict(zip(cells, _targets(options, prepared, result, by_size, samples), strict=True))
    monitor, scale = result.saved.task.monitor, scale_of(table)
    values = [result.test[monitor]]
    if table.measure == "sizes":
        values.insert(0, _at_training_size(options, result))
    validation = scale * result.validation[monitor]
    return {
        cell: {"value": scale * value, "validation": validation}
        for cell, value in zip(cells, values, strict=True)
    }


def _at_training_size(options: TrainOptions, result: Result) -> float:
    """Accuracy on the test graphs of the size of the training graphs."""
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
) -> list[dict[str, Any]]:
    """log10 MSE: the mean of the six targets, then each of them."""
    network, splits = result.saved.network, prepared.splits
    test, validation = (_by_target(network, part, options) for part in (splits.test, splits.val))
    found = [{"value": v, "validation": w} for v, w in zip(test, validation, strict=True)]
    if not by_size:
        return found
    assert isinstance(options, PropertiesOptions)
    # in a reduced run, so many of five sizes together
    number = {} if samples is None else {"graphs_per_size": max(1, samples // 5)}
    larger = extrapolation_splits(connected=cast(Any, options.connected), **number).larger
    ranges = [name.split("-") for name in larger]
    sizes = splits.test.num_nodes
    least = (int(sizes.min()), *(int(low) for low, _ in ranges))
    most = (int(sizes.max()), *(int(high) for _, high in ranges))
    columns = [test, *(_by_target(network, store, options) for store in larger.values())]
    return [
        {**one, "by_size": BySize(least, most, tuple(values))}
        for one, values in zip(found, zip(*columns, strict=True), strict=True)
    ]


def _by_target(network: Any, store: GraphStore, options: TrainOptions) -> list[float]:
    """log10 MSE: the mean of the six targets, then each of them."""
    device = pick_device(options.device)
    metric = LogMSEBySize().to(device)
    for (nodes, graphs), batch in outputs_of(
        network, store, options.batch_size, device, options.batch_rows
    ):
        metric.update(nodes.float(), graphs.float(), batch)
    values: list[float] = metric.by_target().tolist()
    return [sum(values) / len(values), *values]
