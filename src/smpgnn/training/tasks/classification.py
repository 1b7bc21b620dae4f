"""Predict classes: one of several, or several labels of two classes each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.data.store import GraphBatch
from smpgnn.training.tasks.base import OneLevelTask
from smpgnn.training.tasks.part import Part


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

    @cached_property
    def target_parts(self) -> tuple[Part, ...]:
        columns = tuple(range(len(self.classes)))
        return (Part(self.name, columns, self.classes, class_weights=self.class_weights),)

    def loss(self, output: Tensor, batch: GraphBatch) -> Tensor:
        target, output = self.target(batch)[:, 0].nan_to_num(-1.0).long(), output.float()
        weights = filled(self.class_weights, output) if self.class_weights else None
        if batch.weight is None:
            total = F.cross_entropy(output, target, weights, ignore_index=-1, reduction="sum")
        else:
            each = F.cross_entropy(output, target, weights, ignore_index=-1, reduction="none")
            total = (each * batch.weight[:, 0].float()).sum()
        return total / (target >= 0).sum().clamp(min=1)


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

    @cached_property
    def target_parts(self) -> tuple[Part, ...]:
        weights = self.class_weights or ((),) * len(self.names)
        each = enumerate(zip(self.names, self.classes, weights, strict=True))
        return tuple(
            Part(name, (number,), labels, class_weights=own) for number, (name, labels, own) in each
        )

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
