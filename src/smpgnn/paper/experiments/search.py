"""How every row gets its learning rate; test data are not used.

Of every twenty training graphs the last two are held out. Each candidate (a rate, in some tables
with a readout) trains on the others with seed 0 for a share of the epochs, and the best value on
the held-out graphs wins. A tie goes to the earlier epoch, then to the rate nearest to that of the
protocol, then to the first readout. A candidate that diverges loses. If it diverges only in the
final training, which is longer at a high rate, all seeds are trained with the next best candidate.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from smpgnn.config.options import TrainOptions
from smpgnn.errors import InputError
from smpgnn.files import write_text
from smpgnn.paper.experiments.protocol import settings_of
from smpgnn.paper.experiments.records import Choice, Trial
from smpgnn.paper.experiments.table import Row, Search
from smpgnn.paper.json_data import read_json

if TYPE_CHECKING:
    from smpgnn.data.base import Splits

SEED = 0
_PERIOD, _HELD = 20, 2


def trial_options(options: TrainOptions, search: Search, row: Row) -> list[TrainOptions]:
    """The settings of all candidates, from those of the training at which the choice is made."""
    epochs = max(1, round(search.share * options.epochs))
    warmup = options.warmup_epochs * epochs / options.epochs
    short = replace(options, epochs=epochs, warmup_epochs=warmup, seed=SEED)
    readouts = search.readouts
    if not readouts or "readout" in row.settings:
        readouts = (options.network.readout,)
    return [
        short.changed(lr=rate, readout=readout) for readout in readouts for rate in search.rates
    ]


def best_trial(trials: tuple[Trial, ...], larger_is_better: bool, usual: float) -> Trial:
    """The winner; raises `InputError` if no trial has a value."""
    sign = -1 if larger_is_better else 1
    ranked = [
        (sign * trial.validation, trial.best_epoch, abs(math.log(trial.lr / usual)), place)
        for place, trial in enumerate(trials)
        if trial.validation is not None
    ]
    if not ranked:
        first = trials[0].error if trials else "there is no candidate"
        raise InputError(f"no learning rate of the search works; the first: {first}")
    return trials[min(ranked)[-1]]


def next_best(choice: Choice, larger_is_better: bool, error: str) -> Choice:
    """The choice after a final training with the chosen candidate has diverged."""
    lost = choice.chosen, choice.chosen_readout
    trials = tuple(
        replace(trial, validation=None, error=f"in the training proper: {error}")
        if (trial.lr, trial.readout) == lost
        else trial
        for trial in choice.trials
    )
    best = best_trial(trials, larger_is_better, choice.chosen)
    return replace(choice, trials=trials, chosen=best.lr, chosen_readout=best.readout)


def held_back(splits: Splits) -> Splits:
    """Training graphs split into those to train on and those to choose on.

    The held-out graphs also take the place of the test split.
    """
    import torch

    from smpgnn.data.base import Splits

    place = torch.arange(len(splits.train)) % _PERIOD
    held = place >= _PERIOD - _HELD
    if not bool(held.any()):
        raise InputError(
            f"{len(splits.train)} training graphs are too few to hold some back: use --no-search, "
            f"or at least {_PERIOD} --samples."
        )
    kept, rest = (splits.train.select(torch.nonzero(part).flatten()) for part in (~held, held))
    return Splits(kept, rest, rest)


def write_trial(folder: Path, trial: Trial) -> None:
    write_text(folder / "trial.json", json.dumps(asdict(trial), indent=1) + "\n")


def read_trial(folder: Path) -> Trial | None:
    """The result of a trial; None if it has not ended."""
    trial: Trial | None = read_json(
        folder / "trial.json", Trial, "delete its folder to try it again"
    )
    return trial


def settings_hash(options: TrainOptions, *more: object) -> str:
    """A short text that differs if settings differ."""
    text = json.dumps([settings_of(options), *map(str, more)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:10]
