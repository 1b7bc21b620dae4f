"""Predict numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.errors import InputError
from smpgnn.training.tasks.base import OneLevelTask, targets_of
from smpgnn.training.tasks.part import Part


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
        means, scales = [], []
        target = targets_of(store, level).double()
        target = target.log10() if log10 else target
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

    @cached_property
    def target_parts(self) -> tuple[Part, ...]:
        values = zip(self.names, self.mean, self.scale, strict=True)
        return tuple(
            Part(name, (number,), log10=self.log10, mean=mean, scale=scale)
            for number, (name, mean, scale) in enumerate(values)
        )

    def loss(self, output: Tensor, batch: GraphBatch) -> Tensor:
        target = self.learned(batch)
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
