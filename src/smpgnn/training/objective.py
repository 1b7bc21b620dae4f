"""Objectives of training, with their state from step to step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from smpgnn.data.store import GraphBatch

#: Smaller squared errors are rounding; their logarithms are not bounded.
LEAST_ERROR = 1e-7

Loss = Callable[[Any, GraphBatch], Tensor]


class Objective(nn.Module):
    """The loss of each batch on its own.

    Args:
        loss: a function of the outputs of a network and their batch.
    """

    def __init__(self, loss: Loss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, output: Any, batch: GraphBatch) -> Tensor:
        return self.loss(output, batch)


class LogErrors(Objective):
    r"""The mean over targets of the log of their mean error over the last batches.

    .. math:: \frac1T \sum_t \log_{10} \bar e_t, \qquad
              \bar e_t = \text{running mean of the errors } e_t \text{ of the batches}

    The gradient is that of :math:`\sum_t e_t / \bar e_t`, so all targets have equal weight. The log
    of the error of each batch would neglect a large error in one batch of many, and so give up on
    rare graphs.

    Args:
        loss: the errors of the targets of a batch, [T].
        targets: their number T.
        decay: of the running mean, per step.
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
