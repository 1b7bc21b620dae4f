"""What every task has: outputs, loss, metrics, and how predictions are shown."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.data.tables import free_names
from smpgnn.data.targets import exact
from smpgnn.errors import InputError
from smpgnn.training.objective import Objective
from smpgnn.training.tasks.part import Part, measured_of, quantities_of, with_quantities

if TYPE_CHECKING:
    from torchmetrics import Metric

Graphs = TypeVar("Graphs", GraphStore, GraphBatch)


@dataclass(frozen=True)
class Task(ABC):
    """A kind of target.

    Args:
        monitor: the validation metric that selects the best weights.
        larger_is_better: whether larger values of it are better.
        tie: a metric that decides where it is equal, smaller is better; '': none.
        metric_names: the metrics of your own data, the monitored one first; empty for the paper's
            tasks and models of earlier versions, which have the metrics of that time.
    """

    monitor: str = ""
    larger_is_better: bool = False
    tie: str = ""
    metric_names: tuple[str, ...] = ()

    def rank(self, values: Mapping[str, float]) -> tuple[float, float]:
        """How good these metrics are, for comparisons: smaller is better."""
        value = values[self.monitor]
        tie = values[self.tie] if self.tie else 0.0
        return (-value if self.larger_is_better else value), tie

    @property
    @abstractmethod
    def node_outputs(self) -> int: ...

    @property
    @abstractmethod
    def graph_outputs(self) -> int: ...

    @abstractmethod
    def loss(self, output: Any, batch: GraphBatch) -> Tensor: ...

    def make_objective(self) -> Objective:
        """The objective that training minimises."""
        return Objective(self.loss)

    @abstractmethod
    def known(self, batch: GraphBatch) -> int:
        """The number of known targets in a batch, over which the loss is a mean."""

    @abstractmethod
    def metrics(self) -> Metric:
        """What collects outputs and targets (`update`) and measures them (`results`)."""

    @abstractmethod
    def update(self, metrics: Metric, output: Any, batch: GraphBatch) -> None: ...

    def results(self, metrics: Metric) -> dict[str, Tensor]:
        """The values of the metrics, by their names for users."""
        values: dict[str, Tensor] = metrics.compute()
        return values

    def defined(self, metrics: Metric) -> dict[str, float]:
        """The results as numbers, without metrics that are undefined on these targets."""
        numbers = {name: float(value) for name, value in self.results(metrics).items()}
        return {name: value for name, value in numbers.items() if not math.isnan(value)}

    def metric_groups(self) -> list[tuple[tuple[str, ...], list[str]]]:
        """Metrics that are shown together, and the targets that have them."""
        return [(self.metric_names, self.target_names())]

    def units(self) -> str:
        """A sentence on the units of the metrics, if they are not those of the targets."""
        return ""

    @abstractmethod
    def columns(self) -> list[str]:
        """Column names of a table of predictions."""

    @abstractmethod
    def predict(self, output: Any) -> list[list[Any]]:
        """The values of `columns` for each graph (or node, if targets belong to nodes)."""

    @abstractmethod
    def target_names(self) -> list[str]:
        """Column names of `shown_targets`."""

    @abstractmethod
    def shown_targets(self, batch: GraphBatch) -> list[list[Any]]:
        """The targets as in the user's table, with the rows of `predict`; None or NaN: unknown."""

    def to_dict(self) -> dict[str, Any]:
        return {"kind": type(self).__name__, **asdict(self)}


@dataclass(frozen=True)
class OneLevelTask(Task):
    """Targets that all belong to graphs or all to nodes (`level`).

    A kind of task has its `target_parts` and a loss; all else follows from these.
    """

    level: str = "graph"

    @property
    @abstractmethod
    def target_parts(self) -> tuple[Part, ...]:
        """Each target."""

    @property
    def outputs(self) -> int:
        """Number of outputs per graph or node."""
        return sum(len(part.columns) for part in self.target_parts)

    @property
    def node_outputs(self) -> int:
        return self.outputs if self.level == "node" else 0

    @property
    def graph_outputs(self) -> int:
        return self.outputs if self.level == "graph" else 0

    def target(self, batch: GraphBatch) -> Tensor:
        """The targets of a batch, [R, T]; NaN: unknown."""
        return targets_of(batch, self.level)

    def learned(self, batch: GraphBatch) -> Tensor:
        """The targets, or their logarithms if these are learned; float32."""
        target, parts = self.target(batch).float(), self.target_parts
        if not any(part.log10 for part in parts):
            return target
        pairs = zip(parts, target.unbind(1), strict=True)
        return torch.stack([own.log10() if part.log10 else own for part, own in pairs], dim=1)

    def exact(self, batch: GraphBatch) -> Tensor:
        """The targets of a batch in the units of the metrics, [R, T]; NaN: unknown, or a bound."""
        return exact(self.learned(batch), batch.side)

    def known(self, batch: GraphBatch) -> int:
        return int((~self.target(batch).isnan()).sum())

    def measured(self, output: Tensor) -> Tensor:
        """The numbers that are compared with `exact`, and the logits of classes; float32."""
        return measured_of(self.target_parts, output.float())

    def metrics(self) -> Metric:
        from smpgnn.training.metrics import Scores

        return Scores(self.measures)

    def update(self, metrics: Metric, output: Tensor, batch: GraphBatch) -> None:
        metrics.update(self.measured(output), self.exact(batch))

    def measures(self, values: Tensor, target: Tensor) -> dict[str, Tensor]:
        """The metrics: the mean of each over the targets, and with several targets also each.

        Args:
            values: of `measured`, [R, outputs] in float64.
            target: of `exact`, [R, T] in float64.
        """
        parts = tuple(zip(self.target_parts, target.unbind(1), strict=True))
        if not self.metric_names:
            return self._old_measures(parts, values)
        found = {part.name: part.measures(self.metric_names, values, own) for part, own in parts}
        means, single = dict[str, Tensor](), dict[str, Tensor]()
        for metric in self.metric_names:
            own = {name: each[metric] for name, each in found.items() if metric in each}
            if own:
                means[metric] = torch.stack(list(own.values())).mean()
            if len(parts) > 1:
                single |= {f"{metric} {name}": value for name, value in own.items()}
        return means | single

    @staticmethod
    def _old_measures(parts: tuple[tuple[Part, Tensor], ...], values: Tensor) -> dict[str, Tensor]:
        """The metrics of the paper's tasks and of earlier versions, over all targets together."""
        if parts[0][0].classes:
            hits = torch.cat([part.hits(values, own) for part, own in parts])
            return {"accuracy": hits.double().mean()}
        gaps = [(values[:, part.own][:, 0] - own)[~own.isnan()] for part, own in parts]
        every = torch.cat(gaps)
        found = {"mae": every.abs().mean(), "mse": every.square().mean()}
        if len(parts) > 1:
            pairs = zip(parts, gaps, strict=True)
            found |= {f"mae {part.name}": gap.abs().mean() for (part, _), gap in pairs}
        return found

    def units(self) -> str:
        parts = self.target_parts
        names = [part.name for part in parts if part.log10]
        if names and len(names) == len(parts):
            return f"The metrics are those of log10 of the target{'s' * (len(parts) > 1)}."
        return f"The metrics of {', '.join(names)} are those of log10." if names else ""

    def score_names(self) -> list[str]:
        """Column names of `scores`."""
        return free_names([name for part in self.target_parts for name in part.score_names()])

    def scores(self, output: Tensor) -> Tensor:
        """The unbounded numbers behind a prediction, which can be explained, [R, names]."""
        values = self.measured(output)
        return torch.cat([part.scores(values) for part in self.target_parts], dim=1)

    def columns(self) -> list[str]:
        return free_names([name for part in self.target_parts for name in part.headers()])

    def predict(self, output: Tensor) -> list[list[Any]]:
        values = quantities_of(self.target_parts, output.float())
        return _rows([column for part in self.target_parts for column in part.predicted(values)])

    def target_names(self) -> list[str]:
        return [part.name for part in self.target_parts]

    def shown_targets(self, batch: GraphBatch) -> list[list[Any]]:
        target, side = self.target(batch).float(), batch.side
        sides = [None] * target.size(1) if side is None else side.unbind(1)
        columns = zip(self.target_parts, target.T.tolist(), sides, strict=True)
        return _rows([part.known(own, bound) for part, own, bound in columns])


def _rows(columns: list[list[Any]]) -> list[list[Any]]:
    return [list(row) for row in zip(*columns, strict=True)]


def parts_of(task: Task) -> tuple[Part, ...]:
    """Each target."""
    if not isinstance(task, OneLevelTask):
        raise TypeError(type(task))
    return task.target_parts


def numbers(task: Task) -> list[Part]:
    """The targets that are numbers."""
    return [part for part in parts_of(task) if not part.classes]


def quantities(task: Task, output: Tensor) -> Tensor:
    """The quantities (`Part`) of an output of the network, [R, Q] in float64."""
    if not isinstance(task, OneLevelTask):
        raise InputError("members need your own data, with targets of graphs or of nodes.")
    return quantities_of(task.target_parts, output.double())


def output_of(task: Task, values: Tensor) -> Tensor:
    """An output with these quantities, which the task shows and measures; float32."""
    return with_quantities(parts_of(task), values).float()


def targets_of(of: Graphs, level: str) -> Tensor:
    """The targets of graphs, or of their nodes."""
    target = of.y if level == "graph" else of.y_node
    assert target is not None
    return target


def one_target(of: Graphs, number: int) -> Graphs:
    """A store or batch with one of its targets only."""
    cut = {
        name: value[:, number : number + 1]
        for name in ("y", "y_node", "side")
        if (value := getattr(of, name)) is not None
    }
    return replace(of, **cut)


def targets_only(store: GraphStore, rows: Tensor | None = None) -> GraphBatch:
    """A batch of targets and weights without the graphs; `rows`: of some graphs (or nodes) only."""
    given = {
        name: value if rows is None else value[rows]
        for name in ("y", "y_node", "weight", "side")
        if (value := getattr(store, name)) is not None
    }
    none = torch.zeros(0, dtype=torch.long)
    count = len(store) if rows is None else len(rows)
    return GraphBatch(None, none.view(2, 0), None, none, count, **given)
