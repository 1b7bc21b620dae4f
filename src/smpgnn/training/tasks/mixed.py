"""Predict several targets of different kinds: numbers and classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.training.tasks.base import OneLevelTask, one_target, targets_only
from smpgnn.training.tasks.classification import Classification
from smpgnn.training.tasks.part import Part
from smpgnn.training.tasks.regression import Regression


@dataclass(frozen=True)
class MixedTargets(OneLevelTask):
    r"""Several targets, each with a task of its own in `parts`: numbers, or one of several classes.

    The loss is the mean over all known targets of the loss of each in units of `scales`, those of a
    constant prediction (`constant_loss`), so each kind begins at about 1.

    The metric `relative_error` (`Part.measures`) compares numbers with classes.
    """

    parts: tuple[OneLevelTask, ...] = ()
    scales: tuple[float, ...] = ()
    monitor: str = "relative_error"

    @classmethod
    def fit(cls, parts: Sequence[OneLevelTask], store: GraphStore, level: str) -> MixedTargets:
        """The scales from the training data."""
        made = cls(parts=tuple(parts), level=level)
        scales = [constant_loss(part, own) for part, own, _ in made._pieces(targets_only(store))]
        return replace(made, scales=tuple(scales))

    def _pieces(self, batch: GraphBatch) -> Iterator[tuple[OneLevelTask, GraphBatch, slice]]:
        """Each task, the batch with its target only, and its outputs."""
        start = 0
        for number, task in enumerate(self.parts):
            yield task, one_target(batch, number), slice(start, start + task.outputs)
            start += task.outputs

    @cached_property
    def target_parts(self) -> tuple[Part, ...]:
        found: list[Part] = []
        start = 0
        for task in self.parts:
            for part in task.target_parts:
                columns = tuple(start + column for column in part.columns)
                found.append(replace(part, columns=columns))
            start += task.outputs
        return tuple(found)

    def loss(self, output: Tensor, batch: GraphBatch) -> Tensor:
        total = count = output.new_zeros((), dtype=torch.float32)
        for (task, own, columns), scale in zip(self._pieces(batch), self.scales, strict=True):
            known = (~task.target(own).isnan()).sum()
            total = total + task.loss(output[:, columns], own) * known / scale
            count = count + known
        return total / count.clamp(min=1)

    def metric_groups(self) -> list[tuple[tuple[str, ...], list[str]]]:
        groups: list[tuple[tuple[str, ...], list[str]]] = []
        if "relative_error" in self.metric_names:
            groups.append((("relative_error",), self.target_names()))
        for kind in (Regression, Classification):
            parts = [part for part in self.parts if isinstance(part, kind)]
            names = [name for part in parts for name in part.target_names()]
            groups += [(parts[0].metric_names, names)] if parts else []
        return groups

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "parts": [part.to_dict() for part in self.parts]}


def constant_loss(task: OneLevelTask, batch: GraphBatch) -> float:
    """The loss of a constant prediction: the mean, or the frequencies of the classes.

    With weights of the classes, which make all count alike, it is that of equal probabilities.
    """
    target = task.target(batch)
    output = target.new_zeros(len(target), task.outputs, dtype=torch.float32)
    if isinstance(task, Classification) and not task.class_weights:
        known = target[~target.isnan()].long()
        output += torch.bincount(known, minlength=task.outputs).clamp(min=1).log()
    return float(task.loss(output, batch)) or 1.0
