"""Predict numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smpgnn.data.columns import SHOWN
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.data.targets import exact
from smpgnn.errors import InputError
from smpgnn.training.scores import collection, of_targets, regression_scores
from smpgnn.training.tasks.base import OneLevelTask

if TYPE_CHECKING:
    from torchmetrics import Metric, MetricCollection


@dataclass(frozen=True)
class Regression(OneLevelTask):
    r"""One or several numbers per graph or node; the network predicts them standardised.

    The loss is the mean over known targets of a function of the absolute error :math:`e` in
    standard deviations, times the weight of the row:

    .. math:: \text{mae: } e, \quad \text{mse: } e^2, \quad \text{huber: } h_1(e), \quad
              \text{mae+huber: } e + 2 h_2(e), \qquad
              h_d(e) = e^2/2 \text{ if } e < d, \text{ else } d e - d^2/2

    Missing targets (NaN) are ignored in the loss and the metrics. A target of which only a bound is
    known (`GraphStore.side`) has no loss on the right side of it, and is ignored in the metrics.
    With `log10` the network learns the logarithms of the targets, and the metrics compare these.
    """

    names: tuple[str, ...] = ("y",)
    mean: tuple[float, ...] = (0.0,)
    scale: tuple[float, ...] = (1.0,)
    monitor: str = "mae"
    larger_is_better: bool = False
    objective: str = "mae"
    log10: bool = False

    @classmethod
    def fit(
        cls,
        names: tuple[str, ...],
        store: GraphStore,
        level: str = "graph",
        objective: str = "mae",
        *,
        log10: bool = False,
    ) -> Regression:
        """Mean and standard deviation from the training data; bounds count as values."""
        target = store.y if level == "graph" else store.y_node
        assert target is not None
        means, scales = [], []
        target = target.double().log10() if log10 else target.double()
        for name, column in zip(names, target.unbind(1), strict=True):
            known = column[~column.isnan()]
            if known.numel() == 0:
                raise InputError(
                    f"target '{name}' has no value in the training split: split differently."
                )
            means.append(known.mean().item())
            scales.append(known.std(correction=0).item() or 1.0)
        return cls(
            names=names,
            mean=tuple(means),
            scale=tuple(scales),
            level=level,
            objective=objective,
            log10=log10,
        )

    @property
    def outputs(self) -> int:
        return len(self.names)

    def loss(self, output: Tensor, batch: GraphBatch) -> Tensor:
        target = self._learned(batch)
        known = ~target.isnan()
        output = output.float()  # in bfloat16 the mean is less precise than the scale
        # numbers, not tensors: a captured step cannot create tensors from Python values
        parts = zip(target.unbind(1), self.mean, self.scale, strict=True)
        wanted = torch.stack([(part - mean) / scale for part, mean, scale in parts], dim=1)
        gap = output - torch.where(known, wanted, output.detach())
        if batch.side is not None:
            gap = gap.masked_fill(gap * batch.side > 0, 0.0)  # on the right side of a bound
        gap = gap.abs()
        if self.objective == "mse":
            gap = gap.square()
        elif self.objective == "huber":
            gap = torch.where(gap < 1, gap.square() / 2, gap - 0.5)
        elif self.objective == "mae+huber":
            gap = gap + 2 * torch.where(gap < 2, gap.square() / 2, 2 * gap - 2)
        if batch.weight is not None:
            gap = gap * batch.weight.float()
        return gap.sum() / known.sum().clamp(min=1)

    def metrics(self) -> MetricCollection:
        if self.metric_names:
            return collection(self.measures)
        from torchmetrics import MeanAbsoluteError, MeanSquaredError, MetricCollection

        single: dict[str, Metric | MetricCollection] = {
            "mae": MeanAbsoluteError(),
            "mse": MeanSquaredError(),
        }
        if len(self.names) > 1:
            # by index: a name may contain a dot, which torch does not allow here
            single |= {f"mae {number}": MeanAbsoluteError() for number in range(len(self.names))}
        return MetricCollection(single, compute_groups=False)

    def update(self, metrics: MetricCollection, output: Tensor, batch: GraphBatch) -> None:
        target, values = self.exact(batch), self.measured(output)
        if self.metric_names:
            metrics["scores"].update(values, target)
            return
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

    def measures(self, values: Tensor, target: Tensor) -> dict[str, Tensor]:
        def score(number: int, known: Tensor) -> dict[str, Tensor]:
            return regression_scores(values[known, number], target[known, number])

        return of_targets(self.metric_names, self.names, target, score)

    def units(self) -> str:
        many = len(self.names) > 1
        return f"The metrics are those of log10 of the target{'s' * many}." if self.log10 else ""

    def _learned(self, batch: GraphBatch) -> Tensor:
        target = self.target(batch).float()
        return target.log10() if self.log10 else target

    def exact(self, batch: GraphBatch) -> Tensor:
        return exact(self._learned(batch), batch.side)

    def measured(self, output: Tensor) -> Tensor:
        """The prediction in the units of the targets, or their logarithms, float32."""
        output = output.float()
        return output * output.new_tensor(self.scale) + output.new_tensor(self.mean)

    def values(self, output: Tensor) -> Tensor:
        """The prediction in the units of the targets, float32."""
        values = self.measured(output)
        return torch.pow(10.0, values) if self.log10 else values

    def score_names(self) -> list[str]:
        return [f"log10({name})" if self.log10 else name for name in self.names]

    def scores(self, output: Tensor) -> Tensor:
        return self.measured(output)

    def columns(self) -> list[str]:
        return [f"predicted_{name}" for name in self.names]

    def predict(self, output: Tensor) -> list[list[Any]]:
        rows: list[list[Any]] = self.values(output).tolist()
        return rows

    def target_names(self) -> list[str]:
        return list(self.names)

    def shown_targets(self, batch: GraphBatch) -> list[list[Any]]:
        target = self.target(batch).float()
        rows: list[list[Any]] = target.tolist()
        if batch.side is not None:
            for row, column in batch.side.nonzero().tolist():
                sign = SHOWN[int(batch.side[row, column])]
                rows[row][column] = f"{sign}{rows[row][column]:.7g}"
        return rows
