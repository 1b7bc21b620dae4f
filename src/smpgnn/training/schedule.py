"""Learning rate schedules: functions of the step, and a plateau rule, the only one with state."""

from __future__ import annotations

import math
from dataclasses import dataclass

from smpgnn.config.options import TrainOptions


@dataclass
class Plateau:
    """Multiplies the rate by `factor` after more than `patience` epochs without improvement."""

    factor: float
    patience: int
    scale: float = 1.0
    best: float = math.inf
    waited: int = 0
    best_tie: float = -math.inf

    def report(self, value: float, tie: float = 0.0) -> None:
        """Report the monitored value of an epoch, and what decides ties; smaller is better."""
        if (value, tie) < (self.best, self.best_tie):
            self.best, self.best_tie, self.waited = value, tie, 0
            return
        self.waited += 1
        if self.waited > self.patience:
            self.scale, self.waited = self.scale * self.factor, 0


def rate_factor(options: TrainOptions, step: int, steps_per_epoch: int) -> float:
    """The factor on the learning rate at a step (counted from 0)."""
    epoch = step / max(1, steps_per_epoch)
    if options.schedule == "exponential":
        return math.pow(options.decay, int(epoch) / max(1, options.decay_epochs))
    if options.schedule == "step":
        return math.pow(options.decay, int(epoch) // max(1, options.decay_epochs))
    if options.schedule == "cosine":
        if epoch < options.warmup_epochs:
            return (epoch + 1 / max(1, steps_per_epoch)) / (
                options.warmup_epochs + 1 / max(1, steps_per_epoch)
            )
        rest = max(1e-9, options.epochs - options.warmup_epochs)
        done = min(1.0, (epoch - options.warmup_epochs) / rest)
        return 0.5 * (1 + math.cos(math.pi * done))
    return 1.0
