"""One target of a task: how it is learned, averaged, measured, explained and shown."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from smpgnn.config.metrics import METRICS
from smpgnn.data.columns import SHOWN
from smpgnn.training.scores import classification_scores, is_defined, regression_scores

#: Smallest probability; its logarithm is finite.
_LEAST = 1e-30


@dataclass(frozen=True)
class Part:
    """One target: a number, or one of several classes.

    `columns` are its indices among the outputs of the network: one of a number, and of classes one
    each, the logits; two classes may have only that of the second. `classes` is empty for a number.
    With `log10` the number is a logarithm. The network predicts numbers minus `mean`, divided by
    `scale`. `class_weights` are those of the classes in the loss; empty: 1.

    Members of an ensemble average *quantities*, one for each output: the numbers as they are
    learned, and the probabilities of the classes.
    """

    name: str
    columns: tuple[int, ...]
    classes: tuple[str, ...] = ()
    log10: bool = False
    mean: float = 0.0
    scale: float = 1.0
    class_weights: tuple[float, ...] = ()

    @property
    def meaning(self) -> tuple[object, ...]:
        """Equal for outputs that predict the same, up to mean and scale."""
        return self.name, self.classes, len(self.columns), self.log10

    @property
    def own(self) -> slice:
        """The columns as a slice."""
        return slice(self.columns[0], self.columns[-1] + 1)

    def headers(self) -> list[str]:
        """The names of the columns of `predicted`."""
        labels = self.classes[-len(self.columns) :]
        return [f"predicted_{self.name}", *(f"probability_{self.name}_{one}" for one in labels)]

    def predicted(self, values: Tensor) -> list[list[Any]]:
        """The columns of a table of predictions from the quantities of the task.

        They are the number, or the class and its probabilities.
        """
        if not self.classes:
            return [self.shown(values[:, self.columns[0]]).tolist()]
        shares = values[:, self.own].T.tolist()
        if len(shares) == 1:
            best = [int(share > 0.5) for share in shares[0]]
        else:
            best = values[:, self.own].argmax(1).tolist()
        return [[self.classes[number] for number in best], *shares]

    def known(self, values: list[Any], side: Tensor | None) -> list[Any]:
        """The targets as in the user's table; None or NaN: unknown. `side` [R]: of bounds."""
        if self.classes:
            return [self.classes[int(value)] if value >= 0 else None for value in values]
        for row in () if side is None else side.nonzero()[:, 0].tolist():
            values[row] = f"{SHOWN[int(side[row])]}{values[row]:.7g}"  # type: ignore[index]
        return values

    def shown(self, values: Tensor) -> Tensor:
        """Quantities of a number in the units of the table."""
        return torch.pow(10.0, values) if self.log10 else values

    def probabilities(self, values: Tensor) -> Tensor:
        """The probabilities of all classes, [R, C], from the quantities of the task."""
        shares = values[:, self.own]
        return shares if shares.size(1) > 1 else torch.cat([1 - shares, shares], dim=1)

    def score_names(self) -> list[str]:
        """What explanations call the columns of `scores`."""
        if not self.classes:
            return [f"log10({self.name})" if self.log10 else self.name]
        labels = self.classes[1:] if len(self.classes) == 2 else self.classes
        return [f"{self.name}={label}" for label in labels]

    def scores(self, values: Tensor) -> Tensor:
        """The unbounded numbers behind a prediction: the number, or the log odds of the classes.

        Of two classes only those of the second. Shape [R, names]; `values` as of `measures`.
        """
        own = values[:, self.own]
        if own.size(1) == 1:
            return own
        if len(self.classes) == 2:
            return own[:, 1:] - own[:, :1]
        one = torch.eye(len(self.classes), dtype=torch.bool, device=own.device)
        return own - own.unsqueeze(1).masked_fill(one, float("-inf")).logsumexp(2)

    def hits(self, values: Tensor, target: Tensor) -> Tensor:
        """Whether the class with the highest logit is the known one, of rows with a known class."""
        known = target >= 0
        return self._logits(values)[known].argmax(1) == target[known]

    def _logits(self, values: Tensor) -> Tensor:
        """The logits of all classes, [R, C]."""
        own = values[:, self.own]
        return own if own.size(1) > 1 else torch.cat([torch.zeros_like(own), own], dim=1)

    def measures(
        self, metrics: Collection[str], values: Tensor, target: Tensor
    ) -> dict[str, Tensor]:
        """Those of the metrics that this kind of target has and that its known values define.

        `relative_error` compares numbers with classes: :math:`\\text{RMSE} / \\sigma` with the
        standard deviation of the training targets, and :math:`2 (1 - \\text{AUC})`. It is 0 for
        perfect and 1 for constant predictions.

        Args:
            metrics: their names.
            values: of `OneLevelTask.measured`, [R, outputs].
            target: of this target, [R]; NaN: unknown.
        """
        known = ~target.isnan()
        if not known.any():
            return {}
        values, real = values[known], target[known]
        if self.classes:
            found = classification_scores(self._logits(values), real.long())
            relative = {"relative_error": 2 * (1 - found["auc"])} if "auc" in found else {}
        else:
            found = regression_scores(values[:, self.own.start], real)
            relative = {"relative_error": found["rmse"] / self.scale}
        kind = METRICS["classification" if self.classes else "regression"]
        found = {name: found[name] for name in kind if is_defined(name, real)}
        return {name: value for name, value in (found | relative).items() if name in metrics}


def measured_of(parts: Sequence[Part], output: Tensor) -> Tensor:
    """The numbers in an output of the network, in their units, and the logits of the classes."""
    columns = [part for part in parts for _ in part.columns]
    scaled = output * output.new_tensor([part.scale for part in columns])
    return scaled + output.new_tensor([part.mean for part in columns])


def quantities_of(parts: Sequence[Part], output: Tensor) -> Tensor:
    """The quantities of an output of the network, [R, Q]."""
    values, found = measured_of(parts, output), []
    for kind, own in _at_once(parts):
        if kind == "number":
            found.append(values[:, own])
        else:
            found.append(values[:, own].sigmoid() if kind == "label" else values[:, own].softmax(1))
    return torch.cat(found, dim=1)


def with_quantities(parts: Sequence[Part], values: Tensor) -> Tensor:
    """An output of the network with these quantities, [R, Q]."""
    columns, found = [part for part in parts for _ in part.columns], []
    numbers = values - values.new_tensor([part.mean for part in columns])
    numbers = numbers / values.new_tensor([part.scale for part in columns])
    for kind, own in _at_once(parts):
        logs = values[:, own].clamp(min=_LEAST).log()
        if kind == "label":
            logs = logs - (1 - values[:, own]).clamp(min=_LEAST).log()
        found.append(numbers[:, own] if kind == "number" else logs)
    return torch.cat(found, dim=1)


def _at_once(parts: Sequence[Part]) -> Iterator[tuple[str, slice]]:
    """Columns that are computed at once: of several numbers, of several labels, or of classes."""
    for (kind, _), group in groupby(parts, key=_kind):
        found = list(group)
        yield kind, slice(found[0].own.start, found[-1].own.stop)


def _kind(part: Part) -> tuple[str, int]:
    if len(part.columns) > 1:
        return "classes", part.own.start  # alone
    return "label" if part.classes else "number", 0
