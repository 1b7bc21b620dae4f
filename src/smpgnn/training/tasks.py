"""Tasks: the meaning of a network's outputs, their loss and metrics, and how they are shown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torchmetrics import MeanAbsoluteError, MeanSquaredError, Metric, MetricCollection
from torchmetrics.classification import BinaryAccuracy, MulticlassAccuracy

from smpgnn.config.plain import from_plain
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.data.tables import free_names
from smpgnn.errors import InputError
from smpgnn.training.metrics import LogMSEBySize
from smpgnn.training.objective import LogErrors, Objective


@dataclass(frozen=True)
class Task(ABC):
    """A kind of target; `monitor` is the validation metric that selects the best weights."""

    monitor: str = ""
    larger_is_better: bool = False

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
    def metrics(self) -> MetricCollection: ...

    @abstractmethod
    def update(self, metrics: MetricCollection, output: Any, batch: GraphBatch) -> None: ...

    def results(self, metrics: MetricCollection) -> dict[str, Tensor]:
        """The values of the metrics, by their names for users."""
        values: dict[str, Tensor] = metrics.compute()
        return values

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
    """Targets that all belong to graphs or all to nodes (`level`)."""

    level: str = "graph"

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number of outputs per graph or node."""

    @property
    def node_outputs(self) -> int:
        return self.outputs if self.level == "node" else 0

    @property
    def graph_outputs(self) -> int:
        return self.outputs if self.level == "graph" else 0

    @abstractmethod
    def score_names(self) -> list[str]:
        """Column names of `scores`."""

    @abstractmethod
    def scores(self, output: Tensor) -> Tensor:
        """The unbounded numbers behind a prediction, which can be explained, [R, T]."""

    def target(self, batch: GraphBatch) -> Tensor:
        """The targets of a batch; NaN: unknown."""
        target = batch.y if self.level == "graph" else batch.y_node
        assert target is not None
        return target

    def known(self, batch: GraphBatch) -> int:
        return int((~self.target(batch).isnan()).sum())


@dataclass(frozen=True)
class Regression(OneLevelTask):
    r"""One or several numbers per graph or node; the network predicts them standardised.

    The loss is the mean of the absolute errors :math:`e` in standard deviations. The objective
    'mae+huber' gives large errors up to five times the weight:

    .. math:: e + 2 h(e), \qquad h(e) = e^2/2 \text{ if } e < 2, \text{ else } 2 e - 2

    Missing targets (NaN) are ignored in the loss and the metrics.
    """

    names: tuple[str, ...] = ("y",)
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    monitor: str = "mae"
    larger_is_better: bool = False
    objective: str = "mae"

    @classmethod
    def fit(
        cls,
        names: tuple[str, ...],
        store: GraphStore,
        level: str = "graph",
        objective: str = "mae",
    ) -> Regression:
        """Mean and standard deviation from the training data."""
        target = store.y if level == "graph" else store.y_node
        assert target is not None
        means, scales = [], []
        for name, column in zip(names, target.double().unbind(1), strict=True):
            known = column[~column.isnan()]
            if known.numel() == 0:
                raise InputError(
                    f"target '{name}' has no value in the training split: split differently."
                )
            means.append(known.mean().item())
            scales.append(known.std(correction=0).item() or 1.0)
        return cls(
            names=names, mean=tuple(means), scale=tuple(scales), level=level, objective=objective
        )

    @property
    def outputs(self) -> int:
        return len(self.names)

    def loss(self, output: Tensor, batch: GraphBatch) -> Tensor:
        target = self.target(batch)
        known = ~target.isnan()
        output = output.float()  # in bfloat16 the mean is less precise than the scale
        # numbers, not tensors: a captured step cannot create tensors from Python values
        parts = zip(target.float().unbind(1), self.mean, self.scale, strict=True)
        wanted = torch.stack([(part - mean) / scale for part, mean, scale in parts], dim=1)
        gap = (output - torch.where(known, wanted, output.detach())).abs()
        if self.objective == "mae+huber":
            gap = gap + 2 * torch.where(gap < 2, gap.square() / 2, 2 * gap - 2)
        return gap.sum() / known.sum().clamp(min=1)

    def metrics(self) -> MetricCollection:
        single: dict[str, Metric | MetricCollection] = {
            "mae": MeanAbsoluteError(),
            "mse": MeanSquaredError(),
        }
        if len(self.names) > 1:
            # by index: a name may contain a dot, which torch does not allow here
            single |= {f"mae {number}": MeanAbsoluteError() for number in range(len(self.names))}
        return MetricCollection(single, compute_groups=False)

    def update(self, metrics: MetricCollection, output: Tensor, batch: GraphBatch) -> None:
        target, values = self.target(batch).float(), self.values(output)
        known = ~target.isnan()
        metrics["mae"].update(values[known], target[known])
        metrics["mse"].update(values[known], target[known])
        if len(self.names) > 1:
            for number in range(len(self.names)):
                there = known[:, number]
                metrics[f"mae {number}"].update(values[there, number], target[there, number])

    def results(self, metrics: MetricCollection) -> dict[str, Tensor]:
        shown = {f"mae {number}": f"mae {name}" for number, name in enumerate(self.names)}
        return {shown.get(key, key): value for key, value in super().results(metrics).items()}

    def values(self, output: Tensor) -> Tensor:
        """The prediction in the units of the targets, float32."""
        output = output.float()
        return output * output.new_tensor(self.scale) + output.new_tensor(self.mean)

    def score_names(self) -> list[str]:
        return list(self.names)

    def scores(self, output: Tensor) -> Tensor:
        return self.values(output)

    def columns(self) -> list[str]:
        return [f"predicted_{name}" for name in self.names]

    def predict(self, output: Tensor) -> list[list[Any]]:
        rows: list[list[Any]] = self.values(output).tolist()
        return rows

    def target_names(self) -> list[str]:
        return list(self.names)

    def shown_targets(self, batch: GraphBatch) -> list[list[Any]]:
        rows: list[list[Any]] = self.target(batch).float().tolist()
        return rows


@dataclass(frozen=True)
class Classification(OneLevelTask):
    """One of several classes per graph or node."""

    name: str = "y"
    classes: tuple[str, ...] = ("0", "1")
    monitor: str = "accuracy"
    larger_is_better: bool = True

    @property
    def outputs(self) -> int:
        return len(self.classes)

    def _class_indices(self, batch: GraphBatch) -> Tensor:
        """Class indices, [R]; −1: unknown."""
        column = self.target(batch)[:, 0]
        if column.is_floating_point():
            column = column.nan_to_num(-1.0)
        return column.long()

    def loss(self, output: Tensor, batch: GraphBatch) -> Tensor:
        target = self._class_indices(batch)
        total = F.cross_entropy(output.float(), target, ignore_index=-1, reduction="sum")
        return total / (target >= 0).sum().clamp(min=1)

    def metrics(self) -> MetricCollection:
        accuracy = MulticlassAccuracy(len(self.classes), average="micro", ignore_index=-1)
        return MetricCollection({"accuracy": accuracy})

    def update(self, metrics: MetricCollection, output: Tensor, batch: GraphBatch) -> None:
        metrics["accuracy"].update(output.float().argmax(1), self._class_indices(batch))

    def score_names(self) -> list[str]:
        shown = self.classes[1:] if len(self.classes) == 2 else self.classes
        return [f"{self.name}={label}" for label in shown]

    def scores(self, output: Tensor) -> Tensor:
        """The log odds of each class; of two classes, only of the second."""
        output = output.float()
        if len(self.classes) == 2:
            return output[:, 1:] - output[:, :1]
        own = torch.eye(len(self.classes), dtype=torch.bool, device=output.device)
        others = output.unsqueeze(1).masked_fill(own, float("-inf")).logsumexp(2)
        return output - others

    def columns(self) -> list[str]:
        shares = [f"probability_{self.name}_{label}" for label in self.classes]
        return free_names([f"predicted_{self.name}", *shares])

    def predict(self, output: Tensor) -> list[list[Any]]:
        shares = output.float().softmax(1)
        best = shares.argmax(1).tolist()
        return [[self.classes[top], *row] for top, row in zip(best, shares.tolist(), strict=True)]

    def target_names(self) -> list[str]:
        return [self.name]

    def shown_targets(self, batch: GraphBatch) -> list[list[Any]]:
        labels = (*self.classes, None)  # −1 is the last
        return [[labels[number]] for number in self._class_indices(batch).tolist()]


@dataclass(frozen=True)
class MultiLabel(OneLevelTask):
    """Several binary labels per graph or node; missing ones are ignored in loss and metric."""

    names: tuple[str, ...] = ("y",)
    classes: tuple[tuple[str, str], ...] = (("0", "1"),)
    monitor: str = "accuracy"
    larger_is_better: bool = True

    @property
    def outputs(self) -> int:
        return len(self.names)

    def loss(self, output: Tensor, batch: GraphBatch) -> Tensor:
        target = self.target(batch).float()
        known = ~target.isnan()
        gap = F.binary_cross_entropy_with_logits(
            output.float(), target.nan_to_num(), reduction="none"
        )
        return (gap * known).sum() / known.sum().clamp(min=1)

    def metrics(self) -> MetricCollection:
        return MetricCollection({"accuracy": BinaryAccuracy(ignore_index=-1)})

    def update(self, metrics: MetricCollection, output: Tensor, batch: GraphBatch) -> None:
        target = self.target(batch).float().nan_to_num(-1.0)
        metrics["accuracy"].update((output > 0).long(), target.long())

    def score_names(self) -> list[str]:
        pairs = zip(self.names, self.classes, strict=True)
        return free_names([f"{name}={labels[1]}" for name, labels in pairs])

    def scores(self, output: Tensor) -> Tensor:
        """The log odds of each label."""
        return output.float()

    def columns(self) -> list[str]:
        pairs = zip(self.names, self.classes, strict=True)
        return free_names(
            [
                column
                for name, labels in pairs
                for column in (f"predicted_{name}", f"probability_{name}_{labels[1]}")
            ]
        )

    def predict(self, output: Tensor) -> list[list[Any]]:
        rows = []
        for row in output.float().sigmoid().tolist():
            line: list[Any] = []
            for share, labels in zip(row, self.classes, strict=True):
                line += [labels[int(share > 0.5)], share]
            rows.append(line)
        return rows

    def target_names(self) -> list[str]:
        return list(self.names)

    def shown_targets(self, batch: GraphBatch) -> list[list[Any]]:
        return [
            [
                None if value != value else labels[int(value)]
                for value, labels in zip(row, self.classes, strict=True)
            ]
            for row in self.target(batch).float().tolist()
        ]


@dataclass(frozen=True)
class GraphProperties(Task):
    """The six targets of the graph-properties benchmark: three of nodes, three of graphs.

    The objective 'mse' minimises their mean squared error, 'log-mse' the mean log error, which is
    the reported metric (`LogErrors`).
    """

    objective: str = "mse"
    monitor: str = "log_mse"
    larger_is_better: bool = False

    @property
    def node_outputs(self) -> int:
        return 3

    @property
    def graph_outputs(self) -> int:
        return 3

    def loss(self, output: tuple[Tensor, Tensor], batch: GraphBatch) -> Tensor:
        return self.errors(output, batch).mean()

    def errors(self, output: tuple[Tensor, Tensor], batch: GraphBatch) -> Tensor:
        """The mean squared error of each target, [6]."""
        assert batch.y is not None
        assert batch.y_node is not None
        nodes = _known_mean_square(output[0], batch.y_node)
        graphs = _known_mean_square(output[1], batch.y)
        return torch.cat([nodes, graphs])

    def make_objective(self) -> Objective:
        if self.objective == "mse":
            return super().make_objective()
        return LogErrors(self.errors, self.node_outputs + self.graph_outputs)

    def known(self, batch: GraphBatch) -> int:
        return batch.num_graphs

    def metrics(self) -> MetricCollection:
        return MetricCollection({"log_mse": LogMSEBySize()}, compute_groups=False)

    def update(
        self, metrics: MetricCollection, output: tuple[Tensor, Tensor], batch: GraphBatch
    ) -> None:
        metric = metrics["log_mse"]
        metric.update(output[0].float(), output[1].float(), batch)

    def columns(self) -> list[str]:
        return ["predicted_conn", "predicted_diam", "predicted_rad"]

    def predict(self, output: tuple[Tensor, Tensor]) -> list[list[Any]]:
        rows: list[list[Any]] = output[1].float().tolist()
        return rows

    def target_names(self) -> list[str]:
        return ["conn", "diam", "rad"]

    def shown_targets(self, batch: GraphBatch) -> list[list[Any]]:
        assert batch.y is not None
        rows: list[list[Any]] = batch.y.float().tolist()
        return rows


def _known_mean_square(output: Tensor, target: Tensor) -> Tensor:
    """The mean squared error of each column over its known targets."""
    known = ~target.isnan()
    gap = (output.float() - target.float().nan_to_num()).square()
    return (gap * known).sum(0) / known.sum(0).clamp(min=1)


KINDS: dict[str, type[Task]] = {
    kind.__name__: kind for kind in (Regression, Classification, MultiLabel, GraphProperties)
}


def task_from_dict(content: dict[str, Any]) -> Task:
    """The task from the result of `to_dict`."""
    values = dict(content)
    kind = values.pop("kind", None)
    if kind not in KINDS:
        raise InputError(f"unknown task {kind!r}: it may be from a newer version")
    task = from_plain(KINDS[kind], values, "task")
    if isinstance(task, OneLevelTask) and task.level not in ("graph", "node"):
        raise InputError(f"task.level is {task.level!r}")
    by_name: tuple[tuple[Any, ...], ...] = ()
    if isinstance(task, Regression):
        by_name = (task.names, task.mean, task.scale)
    elif isinstance(task, MultiLabel):
        by_name = (task.names, task.classes)
    if len({len(values) for values in by_name}) > 1:
        raise InputError("the task has values for other targets")
    return task
