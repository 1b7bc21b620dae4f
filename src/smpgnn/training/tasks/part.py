"""One target of a task: how it is learned, averaged, measured, explained and shown."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smpgnn.config.metrics import METRICS
from smpgnn.data.bounds import SHOWN
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

    def predicted(self, output: Tensor) -> list[list[Any]]:
        """The columns of a table of predictions: the number, or the class and its probabilities."""
        values = self.quantities(output.float())
        if not self.classes:
            return [self.shown(values[:, 0]).tolist()]
        best = _of_both(values).argmax(1).tolist()
        return [[self.classes[number] for number in best], *values.T.tolist()]

    def known(self, target: Tensor, side: Tensor | None) -> list[Any]:
        """The targets [R] as in the user's table; None or NaN: unknown. `side`: of bounds."""
        values: list[Any] = target.tolist()
        if self.classes:
            return [self.classes[int(value)] if value >= 0 else None for value in values]
        for row in () if side is None else side.nonzero()[:, 0].tolist():
            values[row] = f"{SHOWN[int(side[row])]}{values[row]:.7g}"  # type: ignore[index]
        return values

    def shown(self, values: Tensor) -> Tensor:
        """Quantities of a number in the units of the table."""
        return torch.pow(10.0, values) if self.log10 else values

    def quantities(self, output: Tensor) -> Tensor:
        """The quantities of outputs of the task, [R, columns]."""
        output = output[:, self.own]
        if not self.classes:
            return output * self.scale + self.mean
        return output.sigmoid() if len(self.columns) == 1 else output.softmax(1)

    def output_of(self, values: Tensor) -> Tensor:
        """Outputs with these quantities, [R, columns]."""
        values = values[:, self.own]
        if not self.classes:
            return (values - self.mean) / self.scale
        logs = values.clamp(min=_LEAST).log()
        return logs - (1 - values).clamp(min=_LEAST).log() if len(self.columns) == 1 else logs

    def probabilities(self, values: Tensor) -> Tensor:
        """The probabilities of all classes, [R, C], from the quantities of the task."""
        return _of_both(values[:, self.own])

    def score_names(self) -> list[str]:
        """What explanations call the columns of `scores`."""
        if not self.classes:
            return [f"log10({self.name})" if self.log10 else self.name]
        labels = self.classes[1:] if len(self.classes) == 2 else self.classes
        return [f"{self.name}={label}" for label in labels]

    def scores(self, output: Tensor) -> Tensor:
        """The unbounded numbers behind a prediction: the number, or the log odds of the classes.

        Of two classes only those of the second. Shape [R, names].
        """
        if not self.classes:
            return self.quantities(output.float())
        output = output[:, self.own].float()
        if output.size(1) == 1:
            return output
        if len(self.classes) == 2:
            return output[:, 1:] - output[:, :1]
        own = torch.eye(len(self.classes), dtype=torch.bool, device=output.device)
        return output - output.unsqueeze(1).masked_fill(own, float("-inf")).logsumexp(2)

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


def _of_both(shares: Tensor) -> Tensor:
    """The probabilities of all classes, from those of all or of the second of two."""
    return shares if shares.size(1) > 1 else torch.cat([1 - shares, shares], dim=1)
