"""One trial: the settings that Optuna suggests, its data, and when it is stopped."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl

from smpgnn.config.options import TrainOptions
from smpgnn.config.tuning import Choice
from smpgnn.data.splits import PARTS
from smpgnn.training.prepare import Prepared
from smpgnn.training.run_data import SplitTable
from smpgnn.training.tasks import Regression

if TYPE_CHECKING:
    from optuna import Trial
    from optuna.pruners import BasePruner
    from optuna.samplers import BaseSampler


class Reporter(pl.Callback):
    """Reports the validation metric of each epoch, and stops a trial that is hopeless."""

    def __init__(self, trial: Trial, metric: str) -> None:
        self.trial, self.metric = trial, metric

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        from optuna import TrialPruned

        value = float(trainer.callback_metrics[f"val_{self.metric}"])
        self.trial.report(value, trainer.current_epoch + 1)
        if self.trial.should_prune():
            raise TrialPruned


def without_test(prepared: Prepared) -> Prepared:
    """The data without test rows."""
    splits, table = prepared.splits, prepared.split_table()
    assert isinstance(table, SplitTable)
    kept = table.part != PARTS.index("test")
    node = None if table.node is None else table.node[kept]
    return replace(
        prepared,
        splits=replace(splits, test=splits.test.select([])),
        smiles=(),
        table=SplitTable(table.row[kept], table.part[kept], node),
    )


def with_options(prepared: Prepared, options: TrainOptions, loss: str | None) -> Prepared:
    """The data and task of all trials with the network, and the loss, of one."""
    task = prepared.task
    if loss is not None:
        assert isinstance(task, Regression)
        task = replace(task, objective=loss)
    return replace(prepared, task=task, spec=replace(prepared.spec, options=options.network))


def suggest(trial: Trial, choice: Choice) -> Any:
    if choice.values:
        return trial.suggest_categorical(choice.name, choice.values)
    if isinstance(choice.low, int) and isinstance(choice.high, int):
        return trial.suggest_int(choice.name, choice.low, choice.high)
    return trial.suggest_float(choice.name, choice.low, choice.high, log=choice.log)


def sampler(seed: int, trials: int) -> BaseSampler:
    """A sampler seeded by the number of trials, so a continued search repeats no random numbers."""
    from optuna.samplers import TPESampler

    return TPESampler(seed=(1_000_003 * seed + trials) % 2**32)


def pruner(name: str, epochs: int) -> BasePruner:
    from optuna import pruners

    if name == "median":  # neither the first trials nor the first fifth of a trial
        return pruners.MedianPruner(n_startup_trials=5, n_warmup_steps=max(1, epochs // 5))
    if name == "halving":
        return pruners.SuccessiveHalvingPruner(min_resource=max(1, epochs // 9), reduction_factor=3)
    return pruners.NopPruner()
