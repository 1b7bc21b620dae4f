"""Predict classes: one of several, or several labels of two classes each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.data.store import GraphBatch
from smpgnn.data.tables import free_names
from smpgnn.training.scores import classification_scores, collection, of_targets
from smpgnn.training.tasks.base import OneLevelTask

if TYPE_CHECKING:
    from torchmetrics import MetricCollection


@dataclass(frozen=True)
class Classification(OneLevelTask):
    """One of several classes per graph or node.

    The loss is the cross-entropy, times the weights of class and row. `class_weights` has one
    weight per class; empty: 1.
    """

    name: str = "y"
    classes: tuple[str, ...] = ("0", "1")
    class_weights: tuple[float, ...] = ()
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
        target, output = self._class_indices(batch), output.float()
        weights = filled(self.class_weights, output) if self.class_weights else None
        if batch.weight is None:
            total = F.cross_entropy(output, target, weights, ignore_index=-1, reduction="sum")
        else:
            each = F.cross_entropy(output, target, weights, ignore_index=-1, reduction="none")
            total = (each * batch.weight[:, 0].float()).sum()
        return total / (target >= 0).sum().clamp(min=1)

    def metrics(self) -> MetricCollection:
        if self.metric_names:
            return collection(self.measures)
        from torchmetrics import MetricCollection
        from torchmetrics.classification import MulticlassAccuracy

        accuracy = MulticlassAccuracy(len(self.classes), average="micro", ignore_index=-1)
        return MetricCollection({"accuracy": accuracy})

    def update(self, metrics: MetricCollection, output: Tensor, batch: GraphBatch) -> None:
        if self.metric_names:
            metrics["scores"].update(self.measured(output), self.exact(batch))
            return
        metrics["accuracy"].update(output.float().argmax(1), self._class_indices(batch))

    def measures(self, values: Tensor, target: Tensor) -> dict[str, Tensor]:
        def score(number: int, known: Tensor) -> dict[str, Tensor]:
            return classification_scores(values[known], target[known, 0].long())

        return of_targets(self.metric_names, (self.name,), target, score)

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
    """Several binary labels per graph or node; missing ones are ignored in loss and metric.

    The loss is the cross-entropy, times the weights of class and row. `class_weights` has the
    weights of both classes per label; empty: 1.
    """

    names: tuple[str, ...] = ("y",)
    classes: tuple[tuple[str, str], ...] = (("0", "1"),)
    class_weights: tuple[tuple[float, float], ...] = ()
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
        if self.class_weights:
            pairs = zip(*self.class_weights, strict=True)
            first, second = (filled(weights, gap) for weights in pairs)
            gap = gap * torch.where(target > 0.5, second, first)
        if batch.weight is not None:
            gap = gap * batch.weight.float()
        return (gap * known).sum() / known.sum().clamp(min=1)

    def metrics(self) -> MetricCollection:
        if self.metric_names:
            return collection(self.measures)
        from torchmetrics import MetricCollection
        from torchmetrics.classification import BinaryAccuracy

        return MetricCollection({"accuracy": BinaryAccuracy(ignore_index=-1)})

    def update(self, metrics: MetricCollection, output: Tensor, batch: GraphBatch) -> None:
        if self.metric_names:
            metrics["scores"].update(self.measured(output), self.exact(batch))
            return
        target = self.target(batch).float().nan_to_num(-1.0)
        metrics["accuracy"].update((output > 0).long(), target.long())

    def measures(self, values: Tensor, target: Tensor) -> dict[str, Tensor]:
        def score(number: int, known: Tensor) -> dict[str, Tensor]:
            second = values[known, number]
            both = torch.stack([torch.zeros_like(second), second], dim=1)
            return classification_scores(both, target[known, number].long())

        return of_targets(self.metric_names, self.names, target, score)

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


def filled(values: Sequence[float], like: Tensor) -> Tensor:
    """The values as a tensor, without the copy from the CPU that a captured step cannot make."""
    return torch.stack([like.new_full((), value) for value in values])


def balanced_weights(target: Tensor, classes: int) -> tuple[float, ...]:
    """Weights with which all classes count alike and the mean weight of the rows is 1.

    A class without a row has weight 1. `target` [R] has class indices; NaN if unknown.
    """
    count = torch.bincount(target[~target.isnan()].long(), minlength=classes).double()
    there = int((count > 0).sum())
    weights = torch.where(count > 0, count.sum() / (there * count.clamp(min=1)), 1.0)
    return tuple(weights.tolist())
