"""The task of the graph-properties benchmark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smpgnn.data.store import GraphBatch
from smpgnn.training.objective import LogErrors, Objective
from smpgnn.training.tasks.base import Task

if TYPE_CHECKING:
    from torchmetrics import Metric


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

    def metrics(self) -> Metric:
        from smpgnn.training.metrics import LogMSEBySize

        return LogMSEBySize()

    def update(self, metrics: Metric, output: tuple[Tensor, Tensor], batch: GraphBatch) -> None:
        metrics.update(output[0].float(), output[1].float(), batch)

    def results(self, metrics: Metric) -> dict[str, Tensor]:
        return {"log_mse": metrics.compute()}

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
