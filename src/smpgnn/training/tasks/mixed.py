"""Predict several targets of different kinds: numbers and classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.data.tables import free_names
from smpgnn.training.scores import collection
from smpgnn.training.tasks.base import OneLevelTask
from smpgnn.training.tasks.classification import Classification
from smpgnn.training.tasks.regression import Regression

if TYPE_CHECKING:
    from torchmetrics import MetricCollection


@dataclass(frozen=True)
class MixedTargets(OneLevelTask):
    r"""Several targets, each with a task of its own in `parts`: numbers, or one of several classes.

    The loss is the mean over all known targets of the loss of each in units of `scales`, those of a
    constant prediction (`constant_loss`), so each kind begins at about 1.

    The metrics of a target are those of its task. The metric `relative_error` compares numbers with
    classes; it is the mean over targets of

    .. math:: \text{RMSE} / \sigma \text{ (numbers)}, \quad 2 (1 - \text{AUC}) \text{ (classes)},

    with the standard deviation of the training targets: 0 if perfect, 1 for constant predictions.
    """

    parts: tuple[OneLevelTask, ...] = ()
    scales: tuple[float, ...] = ()
    monitor: str = "relative_error"

    @classmethod
    def fit(cls, parts: Sequence[OneLevelTask], store: GraphStore, level: str) -> MixedTargets:
        """The scales from the training data."""
        made = cls(parts=tuple(parts), scales=(1.0,) * len(parts), level=level)
        targets = GraphBatch(
            x=None,
            edge_index=torch.zeros(2, 0, dtype=torch.long),
            edge_attr=None,
            batch=torch.zeros(0, dtype=torch.long),
            num_graphs=len(store),
            y=store.y,
            y_node=store.y_node,
            side=store.side,
        )
        scales = [constant_loss(part, own) for part, own, _ in made._pieces(targets)]
        return replace(made, scales=tuple(scales))

    @property
    def outputs(self) -> int:
        return sum(part.outputs for part in self.parts)

    def _pieces(self, batch: GraphBatch) -> Iterator[tuple[OneLevelTask, GraphBatch, slice]]:
        """Each task, the batch with its target only, and its outputs."""
        for number, (part, columns) in enumerate(self.pieces()):
            own = slice(number, number + 1)
            cut = {
                name: value[:, own]
                for name in ("y", "y_node", "side")
                if (value := getattr(batch, name)) is not None
            }
            yield part, replace(batch, **cut), columns

    def pieces(self) -> Iterator[tuple[OneLevelTask, slice]]:
        """Each task and its outputs."""
        start = 0
        for part in self.parts:
            yield part, slice(start, start + part.outputs)
            start += part.outputs

    def loss(self, output: Tensor, batch: GraphBatch) -> Tensor:
        total = count = output.new_zeros((), dtype=torch.float32)
        for (part, own, columns), scale in zip(self._pieces(batch), self.scales, strict=True):
            known = (~part.target(own).isnan()).sum()
            total = total + part.loss(output[:, columns], own) * known / scale
            count = count + known
        return total / count.clamp(min=1)

    def metrics(self) -> MetricCollection:
        return collection(self.measures)

    def update(self, metrics: MetricCollection, output: Tensor, batch: GraphBatch) -> None:
        metrics["scores"].update(self.measured(output), self.exact(batch))

    def measured(self, output: Tensor) -> Tensor:
        return torch.cat([part.measured(output[:, own]) for part, own in self.pieces()], dim=1)

    def exact(self, batch: GraphBatch) -> Tensor:
        return torch.cat([part.exact(own).float() for part, own, _ in self._pieces(batch)], dim=1)

    def measures(self, values: Tensor, target: Tensor) -> dict[str, Tensor]:
        found: dict[str, dict[str, Tensor]] = {name: {} for name in self.metric_names}
        for number, (part, columns) in enumerate(self.pieces()):
            (name,) = part.target_names()
            own = part.measures(values[:, columns], target[:, number : number + 1])
            if isinstance(part, Regression) and "rmse" in own:
                own["relative_error"] = own["rmse"] / part.scale[0]
            elif "auc" in own:
                own["relative_error"] = 2 * (1 - own["auc"])
            for metric in own.keys() & found.keys():
                found[metric][name] = own[metric]
        means = {
            metric: torch.stack(list(by_name.values())).mean()
            for metric, by_name in found.items()
            if by_name
        }
        single = {
            f"{metric} {name}": value
            for metric, by_name in found.items()
            for name, value in by_name.items()
        }
        return means | single

    def units(self) -> str:
        units = [part.target_names()[0] for part in self.parts if part.units()]
        return f"The metrics of {', '.join(units)} are those of log10." if units else ""

    def score_names(self) -> list[str]:
        return free_names([name for part in self.parts for name in part.score_names()])

    def scores(self, output: Tensor) -> Tensor:
        return torch.cat(
            [part.scores(output[:, columns]) for part, columns in self.pieces()], dim=1
        )

    def columns(self) -> list[str]:
        return free_names([name for part in self.parts for name in part.columns()])

    def predict(self, output: Tensor) -> list[list[Any]]:
        return _side_by_side([part.predict(output[:, columns]) for part, columns in self.pieces()])

    def target_names(self) -> list[str]:
        return [name for part in self.parts for name in part.target_names()]

    def shown_targets(self, batch: GraphBatch) -> list[list[Any]]:
        return _side_by_side([part.shown_targets(own) for part, own, _ in self._pieces(batch)])

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


def _side_by_side(tables: Sequence[list[list[Any]]]) -> list[list[Any]]:
    return [[value for part in rows for value in part] for rows in zip(*tables, strict=True)]
