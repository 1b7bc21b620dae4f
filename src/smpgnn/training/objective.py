"""Objectives: what a training makes small, with what it remembers from one step to the next."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smpgnn.data.store import GraphBatch

#: Squared errors below this count alike: they are rounding, and their logarithms have no bound.
LEAST_ERROR = 1e-7

Loss = Callable[[Any, GraphBatch], Tensor]


class Objective(nn.Module):
    """The loss of each batch by itself.

    Args:
        loss: of the outputs of a network and their batch.
    """

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, output: Any, batch: GraphBatch) -> Tensor:
        return self.loss(output, batch)


class LogErrors(Objective):
    r"""The mean over targets of the logarithm of their mean error over the last batches.

    .. math:: \frac1T \sum_t \log_{10} \bar e_t, \qquad
              \bar e_t = \text{running mean of the errors } e_t \text{ of the batches}

    The gradient is that of :math:`\sum_t e_t / \bar e_t`: all targets count alike, however well
    they are learnt. The logarithm of the error of a batch would not do: it hardly minds a large
    error in one batch of many, and so gives up the rare graphs.

    Args:
        loss: the errors of the targets of a batch, [T].
        targets: their number T.
        decay: of the running mean, a step.
    """

    def __init__(self, loss: Loss, targets: int, decay: float = 0.99) -> None:
        super().__init__(loss)
        self.decay = decay
        self.total: Tensor
        self.weight: Tensor
        self.register_buffer("total", torch.zeros(targets))
        self.register_buffer("weight", torch.zeros(()))

    def forward(self, output: Any, batch: GraphBatch) -> Tensor:
        errors = self.loss(output, batch)
        with torch.no_grad():
            self.total.mul_(self.decay).add_(errors.detach(), alpha=1 - self.decay)
            self.weight.mul_(self.decay).add_(1 - self.decay)
            mean = (self.total / self.weight).clamp(min=LEAST_ERROR)
        share = errors / mean
        return (mean.log10() + (share - share.detach()) / math.log(10)).mean()
