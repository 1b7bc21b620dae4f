"""What every task has: outputs, loss, metrics, and how predictions are shown."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from smpgnn.data.store import GraphBatch
from smpgnn.training.objective import Objective

if TYPE_CHECKING:
    from torchmetrics import MetricCollection


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
    def metrics(self) -> MetricCollection: ...

    @abstractmethod
    def update(self, metrics: MetricCollection, output: Any, batch: GraphBatch) -> None: ...

    def results(self, metrics: MetricCollection) -> dict[str, Tensor]:
        """The values of the metrics, by their names for users."""
        values: dict[str, Tensor] = metrics.compute()
        return values

    def defined(self, metrics: MetricCollection) -> dict[str, float]:
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

    def measured(self, output: Tensor) -> Tensor:
        """The numbers that `measures` compares with `exact`, [R, K]."""
        return output.float()

    def exact(self, batch: GraphBatch) -> Tensor:
        """The targets of a batch in the units of the metrics, [R, T]; NaN: unknown, or a bound."""
        return self.target(batch)

    @abstractmethod
    def measures(self, values: Tensor, target: Tensor) -> dict[str, Tensor]:
        """The metrics in `metric_names`, of all of `measured` and `exact` in float64."""
