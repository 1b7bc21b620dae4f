"""From a trained network to the values of the cells of its training."""

from __future__ import annotations

from typing import Any, cast

from smpgnn.config.options import CyclesOptions, PropertiesOptions, TrainOptions
from smpgnn.data.cycles import cycle_splits
from smpgnn.data.properties import extrapolation_splits
from smpgnn.data.store import GraphStore
from smpgnn.paper.experiments.plan import Job
from smpgnn.paper.experiments.records import BySize
from smpgnn.paper.experiments.table import Table
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.training.evaluation import evaluate_store, outputs_of
from smpgnn.training.metrics import LogMSEBySize
from smpgnn.training.prepare import Prepared
from smpgnn.training.saved import pick_device
from smpgnn.training.train import Result


def scale_of(table: Table) -> float:
    """The factor between the metric of training and the unit of the table."""
    return 100.0 if table.measure in ("accuracy", "sizes") else 1.0


def measure(job: Job, prepared: Prepared, result: Result) -> dict[str, dict[str, Any]]:
    """What the records of the cells say, by the name of the cell.

    `value` and `validation`; `by_size`, the values on larger graphs, if the table asks for them.
    """
    table, options = TABLES[job.table], job.options
    cells = [cell.name for cell in table.training(job.training).cells]
    if table.measure.startswith("targets"):
        targets = _targets(options, prepared, result)
        if table.measure == "targets by size":
            samples = job.request.reduction.samples
            targets = _by_size(targets, options, prepared, result, samples)
        return dict(zip(cells, targets, strict=True))
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


def _targets(options: TrainOptions, prepared: Prepared, result: Result) -> list[dict[str, Any]]:
    """log10 MSE: the mean of the six targets, then each of them."""
    parts = (prepared.splits.test, prepared.splits.val)
    columns = (_by_target(result.saved.network, part, options) for part in parts)
    return [{"value": v, "validation": w} for v, w in zip(*columns, strict=True)]


def _by_size(
    targets: list[dict[str, Any]],
    options: TrainOptions,
    prepared: Prepared,
    result: Result,
    samples: int | None,
) -> list[dict[str, Any]]:
    """The same with values on larger graphs; in a reduced run, `samples` of five sizes together."""
    assert isinstance(options, PropertiesOptions)
    number = {} if samples is None else {"graphs_per_size": max(1, samples // 5)}
    found = extrapolation_splits(connected=cast(Any, options.connected), **number)
    ranges = [name.split("-") for name in found.larger]
    sizes = prepared.splits.test.num_nodes
    least = (int(sizes.min()), *(int(low) for low, _ in ranges))
    most = (int(sizes.max()), *(int(high) for _, high in ranges))
    test, val = (
        zip(*(_by_target(result.saved.network, store, options) for store in stores), strict=True)
        for stores in (found.larger.values(), found.larger_val.values())
    )
    return [
        {
            **one,
            "by_size": BySize(least, most, (one["value"], *values), (one["validation"], *others)),
        }
        for one, values, others in zip(targets, test, val, strict=True)
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
