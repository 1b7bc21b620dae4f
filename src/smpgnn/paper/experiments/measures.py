"""From a trained network to the values of the cells that its training answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
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

PERCENT = 100.0
_TARGETS = ("dist", "ecc", "lap", "conn", "diam", "rad")


@dataclass(frozen=True)
class Score:
    """The value of a cell on the test data, and that on the validation data.

    `by_size` is the former and how it goes on with larger graphs, where it was measured.
    """

    test: float
    validation: float
    by_size: BySize | None = None


def scale_of(table: Table) -> float:
    """What the metric of training is multiplied with to be in the unit of the table."""
    return PERCENT if table.measure in ("accuracy", "sizes") else 1.0


def measure(
    table: Table,
    training: str,
    options: TrainOptions,
    prepared: Prepared,
    result: Result,
    samples: int | None = None,
) -> dict[str, Score]:
    """The score of each cell, by name; `samples` are the graphs to test a reduced run on."""
    if table.measure == "targets by size":
        return _targets_by_size(options, prepared, result, samples)
    measures: dict[str, Callable[[TrainOptions, Prepared, Result], dict[str, Score]]] = {
        "accuracy": _monitored,
        "mae": _monitored,
        "sizes": _sizes,
        "targets": _targets,
    }
    scores = measures[table.measure](options, prepared, result)
    cells = table.training(training).cells
    if len(cells) == 1:
        scores = {cells[0].name: next(iter(scores.values()))}
    scale = scale_of(table)
    return {
        name: Score(scale * score.test, scale * score.validation) for name, score in scores.items()
    }


def _monitored(options: TrainOptions, prepared: Prepared, result: Result) -> dict[str, Score]:
    monitor = result.saved.task.monitor
    return {monitor: Score(result.test[monitor], result.validation[monitor])}


def _sizes(options: TrainOptions, prepared: Prepared, result: Result) -> dict[str, Score]:
    """Accuracy on the largest size, and on the test graphs of the size of training."""
    from smpgnn.data.cycles import cycle_splits

    assert isinstance(options, CyclesOptions)
    near = cycle_splits(
        options.k,
        options.n,
        balance="matched" if options.balance == "matched" else "independent",
        seed=options.seed,
        train=1,
        val=1,
        test=options.test_samples,
    ).test
    saved = result.saved
    inside = evaluate_store(
        saved.network,
        saved.task,
        near,
        options.batch_size,
        pick_device(options.device),
        options.batch_rows,
    )
    monitor = saved.task.monitor
    validation = result.validation[monitor]
    return {
        f"in {options.k}": Score(inside[monitor], validation),
        f"out {options.k}": Score(result.test[monitor], validation),
    }


def _targets(options: TrainOptions, prepared: Prepared, result: Result) -> dict[str, Score]:
    """log10 MSE of each of the six targets, and their mean."""
    parts = [
        _by_target(result.saved.network, part, options)
        for part in (prepared.splits.test, prepared.splits.val)
    ]
    test, validation = ([sum(part) / len(part), *part] for part in parts)
    names = ("average", *_TARGETS)
    return {name: Score(a, b) for name, a, b in zip(names, test, validation, strict=True)}


def _targets_by_size(
    options: TrainOptions, prepared: Prepared, result: Result, samples: int | None
) -> dict[str, Score]:
    """The same with curves that begin with the test graphs and go on to larger ones."""
    assert isinstance(options, PropertiesOptions)
    scores = _targets(options, prepared, result)
    sizes = prepared.splits.test.num_nodes
    least, most = [int(sizes.min())], [int(sizes.max())]
    values = {name: [score.test] for name, score in scores.items()}
    for name, store in _larger(options.connected, samples).items():
        low, high = name.split("-")
        least.append(int(low))
        most.append(int(high))
        found = _by_target(result.saved.network, store, options)
        for target, value in zip(values, [sum(found) / len(found), *found], strict=True):
            values[target].append(value)
    return {
        name: replace(score, by_size=BySize(tuple(least), tuple(most), tuple(values[name])))
        for name, score in scores.items()
    }


@lru_cache(maxsize=1)
def _larger(connected: str, samples: int | None) -> dict[str, GraphStore]:
    """Test graphs larger than those of training; of each five sizes `samples` for a reduced run."""
    from smpgnn.data.properties import extrapolation_splits

    if samples is None:
        return extrapolation_splits(connected=cast(Any, connected)).larger
    count = max(1, samples // 5)
    return extrapolation_splits(connected=cast(Any, connected), graphs_per_size=count).larger


def _by_target(network: Any, store: GraphStore, options: TrainOptions) -> list[float]:
    device = pick_device(options.device)
    metric = LogMSEBySize().to(device)
    step = EvaluationStep(network.to(device).eval(), store.to(device), options.batch_size)
    for indices in BatchLoader(store, options.batch_size, batch_rows=options.batch_rows):
        (nodes, graphs), batch = step(indices)
        metric.update(nodes.float(), graphs.float(), batch)
    values: list[float] = metric.by_target().tolist()
    return values
