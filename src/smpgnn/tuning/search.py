"""Search for the settings with the best validation metric; test rows play no part.

The data are read and featurised once per process. Each trial is a training run without test rows
in OUTPUT/trials/NUMBER, so it can be looked at like any other run.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smpgnn.config.options import TrainOptions
from smpgnn.config.settings import flat
from smpgnn.config.tuning import TuneOptions, search_space
from smpgnn.errors import InputError, one_sentence
from smpgnn.files import file_name
from smpgnn.training.member_plan import refuse_members
from smpgnn.training.prepare import Prepared, prepare
from smpgnn.training.resume import settings
from smpgnn.training.run_folder import RunFolder
from smpgnn.training.tasks import Regression
from smpgnn.training.train import train_run
from smpgnn.tuning.results import (
    best_options,
    best_trial,
    draw_study,
    trials_table,
    write_results,
)
from smpgnn.tuning.storage import (
    alone,
    check_same,
    open_study,
    repeat_dead_trials,
    trial_folder,
    trial_lock,
)
from smpgnn.tuning.trials import Reporter, pruner, sampler, suggest, with_options, without_test

if TYPE_CHECKING:
    import pandas as pd
    from optuna import Study, Trial
    from optuna.trial import FrozenTrial


@dataclass(frozen=True, eq=False)
class TuneResult:
    """The result of a search.

    Args:
        folder: contains best.yaml, trials.csv and study.png.
        metric: the validation metric that was optimised.
        value: its best value.
        default: its value with the default settings; None if that trial did not finish.
        options: the best settings.
        best: of these, the ones that were searched.
        trials: one row per trial.
    """

    folder: Path
    metric: str
    value: float
    default: float | None
    options: TrainOptions
    best: dict[str, Any]
    trials: pd.DataFrame


def default_folder(options: TrainOptions) -> str:
    """A folder under runs/, the same for the same data and targets."""
    path, targets = getattr(options, "path", ""), getattr(options, "targets", ())
    parts = ("tune", options.task_name(), Path(path).stem, *targets)
    return str(Path("runs") / file_name(" ".join(parts))[:100])


def tune_run(
    options: TrainOptions,
    plan: TuneOptions,
    *,
    given: Collection[str] = (),
    prepared: Prepared | None = None,
    quiet: bool = False,
) -> TuneResult:
    """Start or continue a search, until `plan.trials` trials have finished.

    Args:
        options: the default settings; `output` is the folder of the search.
        plan: the settings of the search.
        given: names of settings that are not searched.
        prepared: your own data, instead of those that the options name.
        quiet: print nothing.
    """
    if options.devices * options.nodes > 1:
        raise InputError(
            "--devices and --nodes: a trial uses one device: start several processes instead."
        )
    refuse_members(options, "tune")
    folder = Path(options.output or default_folder(options))
    RunFolder(folder).refuse_old()
    prepared = prepare(options) if prepared is None else prepared
    with _quiet_optuna():
        return _Search(options, plan, given, prepared, folder, quiet).run()


@dataclass
class _Search:
    """A search in this process."""

    options: TrainOptions
    plan: TuneOptions
    given: Collection[str]
    prepared: Prepared
    folder: Path
    quiet: bool
    number: int = -1  # of the last trial of this process

    def __post_init__(self) -> None:
        options, task = self.options, self.prepared.task
        self.content = self.prepared.content(options.task_name())
        self.say(*self.prepared.notes)
        self.prepared = without_test(self.prepared)
        loss = task.objective if isinstance(task, Regression) and "loss" in flat(options) else ""
        self.space = search_space(options, self.given, loss)
        defaults = {**flat(options), "loss": loss}
        self.defaults = {choice.name: defaults[choice.name] for choice in self.space}
        self.metric, self.upward = task.monitor, task.larger_is_better

    def say(self, *lines: str) -> None:
        if not self.quiet:
            print(*lines, sep="\n", file=sys.stderr, flush=True)

    def run(self) -> TuneResult:
        """Train trials until enough have finished."""
        if not self.space:
            raise InputError("all settings that could be searched are given: leave some out.")
        with alone(self.folder):
            study = self._begin()
        try:
            while self._missing(study):
                study.pruner = pruner(self.plan.pruner, self.options.epochs)
                study.sampler = sampler(self.options.seed, len(study.get_trials(deepcopy=False)))
                study.optimize(lambda trial: self._trial(study, trial), n_trials=1)
                self._report(study, study.get_trials(deepcopy=False)[self.number])
        finally:
            with alone(self.folder):
                write_results(study, self.options, self.metric, self.folder)
                draw_study(study, self.metric, self.folder / "study.png")
        best = best_trial(study)
        if best is None or best.value is None:
            notes = [t.user_attrs.get("note") for t in study.get_trials(deepcopy=False)]
            reason = next((note for note in notes if note), "all were stopped")
            raise InputError(f"{self.folder}: no trial finished ({reason.rstrip('.')}).")
        first = next((t for t in study.trials if t.params == self.defaults), None)
        return TuneResult(
            self.folder,
            self.metric,
            best.value,
            first.value if first is not None and first.state.name == "COMPLETE" else None,
            best_options(self.options, best),
            best.params,
            trials_table(study, self.metric),
        )

    def _begin(self) -> Study:
        """The study; a new one begins with the defaults, an old one repeats what was killed."""
        from optuna.study import StudyDirection

        direction = StudyDirection.MAXIMIZE if self.upward else StudyDirection.MINIMIZE
        study = open_study(self.plan, self.folder, direction)
        about = {
            "task": self.options.task_name(),
            "metric": self.metric,
            **settings(self.options),
            "space": {choice.name: str(choice) for choice in self.space},
            "data": self.content.fingerprint.sha256,
        }
        check_same(study, about, str(self.folder))
        if not study.get_trials(deepcopy=False):
            study.enqueue_trial(self.defaults)
        lines = [f"  {choice.name}: {choice}" for choice in self.space]
        self.say(f"Search in {self.folder} for the best validation {self.metric}:", *lines)
        return study

    def _missing(self, study: Study) -> bool:
        """Whether trials are missing that no living process of this machine trains."""
        with alone(self.folder):
            living = repeat_dead_trials(study, self.folder)
            states = [trial.state.name for trial in study.get_trials(deepcopy=False)]
        finished = states.count("COMPLETE") + states.count("PRUNED")
        return finished + living < self.plan.trials

    def _trial(self, study: Study, trial: Trial) -> float:
        """Train with the settings that the trial suggests; returns its validation metric."""
        from optuna import TrialPruned

        self.number = trial.number
        params = {choice.name: suggest(trial, choice) for choice in self.space}
        output = trial_folder(self.folder, trial.number)
        lock = trial_lock(self.folder, trial.number)
        try:
            with lock:
                options = replace(self.options.changed(**params), output=str(output), report=False)
                result = train_run(
                    options,
                    prepared=with_options(self.prepared, options, params.get("loss")),
                    quiet=True,
                    callbacks=[Reporter(trial, self.metric)],
                )
        except InputError as error:  # diverged, or too large for the memory
            trial.set_user_attr("note", one_sentence(str(error)))
            raise TrialPruned from error
        except KeyboardInterrupt:
            study.enqueue_trial(params)
            shutil.rmtree(output, ignore_errors=True)
            raise
        finally:
            Path(lock.lock_file).unlink(missing_ok=True)
        trial.set_user_attr("best_epoch", result.best_epoch)
        count = sum(p.numel() for p in result.saved.network.parameters())
        trial.set_user_attr("parameters", count)
        return result.validation[self.metric]

    def _report(self, study: Study, trial: FrozenTrial) -> None:
        with alone(self.folder):
            write_results(study, self.options, self.metric, self.folder)
        best = best_trial(study)
        text = f"stopped after epoch {trial.last_step}"
        if trial.state.name == "COMPLETE":
            text = f"validation {self.metric} {trial.value:.4f}"
        elif "note" in trial.user_attrs:
            text = trial.user_attrs["note"]
        if best is not None:
            text += f"  best {best.value:.4f} (trial {best.number})"
        self.say(f"trial {trial.number}: {text}")


@contextlib.contextmanager
def _quiet_optuna() -> Iterator[None]:
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="optuna.*")
            yield
    finally:
        optuna.logging.set_verbosity(before)
