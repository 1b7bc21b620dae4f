"""The members of a run: which there are, by its settings. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from smpgnn.config.options import MoleculesOptions, TableOptions, TrainOptions
from smpgnn.errors import InputError
from smpgnn.pretrained import named

#: The folder of the members' run folders inside that of the run.
MEMBERS = "members"
#: What a member does not inherit from its run.
_ALONE: dict[str, Any] = {
    "folds": 0, "repeats": 1, "ensemble": 1, "calibration": 0.0, "jobs": 0, "report": False,
}  # fmt: skip


def has_members(path: str | Path) -> bool:
    """Whether this is the folder of a run with members."""
    return named(path) is None and (Path(path) / MEMBERS).is_dir()


@dataclass(frozen=True)
class Member:
    """One of the models of a run. `fold` and `repeat` count from 1; 0 if there are no folds.

    The `first` of those that are trained on the same rows fits the baseline.
    """

    name: str
    seed: int
    fold: int = 0
    repeat: int = 0
    first: bool = True

    @property
    def group(self) -> tuple[int, int]:
        """Members of a group are trained on the same rows."""
        return self.repeat, self.fold

    def folder(self, run: str | Path) -> Path:
        return Path(run) / MEMBERS / self.name

    def options(self, run: TableOptions) -> TableOptions:
        """The settings of this member of a run."""
        alone = replace(run, **_ALONE, seed=self.seed, output=str(self.folder(run.output)))
        if isinstance(alone, MoleculesOptions) and not self.first:
            return replace(alone, baseline=False)
        return alone


def members(options: TrainOptions) -> tuple[Member, ...]:
    """The members of a run with these settings; none if it trains a single model.

    A run with calibration rows has a member even if it trains only one model.
    """
    if not isinstance(options, TableOptions):
        return ()
    if options.folds == 1:
        raise InputError("--folds 1: give 2 or more folds, or leave it out.")
    if options.repeats > 1 and not options.folds:
        raise InputError(
            f"--repeats {options.repeats}: repeats a cross-validation: add --folds, or use "
            "--ensemble for several models on one split."
        )
    if not (options.folds or options.ensemble > 1 or options.calibration):
        return ()
    if options.folds:
        _check_folds(options)
    if options.devices * options.nodes > 1:
        raise InputError(
            f"--devices {options.devices} --nodes {options.nodes}: each member trains on one "
            "device: leave them out."
        )
    repeats, folds = (range(1, n + 1) for n in (options.repeats, options.folds))
    groups = list(product(repeats, folds)) or [(0, 0)]
    found: list[Member] = []
    for repeat, fold in groups:
        for number in range(1, options.ensemble + 1):
            names = [f"fold{fold}"] if fold else []
            names += [f"repeat{repeat}"] if options.repeats > 1 else []
            names += [f"member{number}"] if options.ensemble > 1 or not fold else []
            seed = (options.seed + len(found)) % 2**32
            found.append(Member("-".join(names), seed, fold, repeat, first=number == 1))
    return tuple(found)


def refuse_members(options: TrainOptions, what: str) -> None:
    """Refuse settings of several members for `what`, which trains single models."""
    if members(options):
        raise InputError(
            f"{what}: trains single models: leave out folds, ensemble and calibration."
        )


def _check_folds(options: TableOptions) -> None:
    """Refuse settings that contradict folds."""
    if options.calibration:
        raise InputError(
            f"--calibration {options.calibration:g}: the held-out folds are for calibration "
            "already: leave it out."
        )
    if options.split_column and options.repeats > 1:
        raise InputError(
            f"--repeats {options.repeats}: a column gives the same folds every time: leave it out, "
            "or use --ensemble."
        )
    if options.split == "time" and not options.split_column:
        raise InputError(
            "--folds: with --split time most folds would be older than their training rows: leave "
            "one of them out."
        )
