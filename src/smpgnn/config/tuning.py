"""Settings of a search, and the space that it searches. Needs neither torch nor Optuna."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from smpgnn.config.options import TrainOptions
from smpgnn.config.setting import RUN, option
from smpgnn.config.settings import Options, flat

#: How hopeless trials are found: Optuna's median rule or its successive halving.
PRUNERS = ("median", "halving", "none")


@dataclass(frozen=True)
class TuneOptions(Options):
    """Settings of `smpgnn tune`, in addition to those of its trainings."""

    trials: int = option(
        30, RUN, "number of finished trials, earlier ones included", at_least=1, at_most=10**6
    )
    pruner: str = option("median", RUN, "how to find hopeless trials, which are stopped", PRUNERS)
    storage: str = option(
        "", RUN,
        "journal file or database URL that several machines share; default: study.log in --output",
    )  # fmt: skip
    study: str = option("", RUN, "name in the storage; default: that of the output folder")


@dataclass(frozen=True)
class Choice:
    """A setting that is searched: some `values`, or all from `low` to `high`.

    The range is of integers if both ends are; `log`: its logarithm is searched.
    """

    name: str
    values: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0
    log: bool = False

    def with_default(self, value: Any) -> Choice:
        """The choice, extended if it does not contain the default `value`."""
        if self.values:
            kept = value in self.values
            return self if kept else replace(self, values=(*self.values, value))
        return replace(self, low=min(self.low, value), high=max(self.high, value))

    def __str__(self) -> str:
        if self.values:
            return ", ".join(map(str, self.values))
        return f"{self.low:g} to {self.high:g}{' (logarithmic)' if self.log else ''}"


#: What is searched unless it is given.
SPACE = (
    Choice("hidden_channels", (16, 32, 48, 64, 96)),
    Choice("num_layers", low=2, high=8),
    Choice("context_radius", low=2, high=5),
    Choice("readout", ("mean", "scaled-sum", "mean+scaled-sum", "max", "mean+max")),
    Choice("dropout", low=0.0, high=0.5),
    Choice("loss", ("mae", "mse", "huber")),
    Choice("lr", low=3e-4, high=1e-2, log=True),
    Choice("batch_size", (16, 32, 64, 128)),
    Choice("weight_decay", (0.0, 1e-5, 1e-4, 1e-3, 1e-2)),
)


def search_space(options: TrainOptions, given: Collection[str], loss: str) -> tuple[Choice, ...]:
    """What to search: `SPACE` without what is `given` or has no effect.

    Args:
        options: the defaults, which are always part of the space.
        given: names of settings that are not searched.
        loss: the default loss; empty if the targets have only one.
    """
    values = {**flat(options), "loss": loss}
    fixed = {*given}
    if options.network.identifiers != "local":
        fixed.add("context_radius")
    if not loss:
        fixed.add("loss")
    return tuple(
        choice.with_default(values[choice.name]) for choice in SPACE if choice.name not in fixed
    )
