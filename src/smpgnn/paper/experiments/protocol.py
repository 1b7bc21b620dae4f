"""How the rows of a table are trained: protocols by name, and the settings of a training.

All rows of a table share the protocol: optimiser, schedule, epochs, batches. Under `modern` the
learning rate of every row, also of SMP, is chosen on held-out training data
(`smpgnn.paper.experiments.search`).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from smpgnn.config.options import TASKS, TrainOptions
from smpgnn.config.presets import PAPER as PAPER_PRESETS
from smpgnn.config.settings import REMOVED, plain, with_values
from smpgnn.paper.experiments.brec_options import BrecOptions, UntrainedBrecOptions
from smpgnn.paper.experiments.table import Row, Search, Table, Training
from smpgnn.training.run_folder import PLACE

#: The settings of each task; the last ones are trained by tables only.
KINDS: dict[str, type[TrainOptions]] = {
    **TASKS,
    **{kind.task_name(): kind for kind in (BrecOptions, UntrainedBrecOptions)},
}
#: Settings that the search chooses.
CHOSEN = ("lr", "readout")

#: Each protocol by name, in words.
PROTOCOLS = {
    "paper": "optimiser, schedule, epochs and batches of the authors' code; one learning rate",
    "modern": "AdamW, cosine schedule with warm-up, batches of 64 (graph properties: 32, ZINC: "
    "128); the learning rate of each row, and for cycles the readout of each baseline (mean or "
    "max), is chosen on held-back training data",
    "benchmark": "optimiser, schedule, epochs and batches of the benchmark, which are the defaults "
    "of its task",
}
#: The protocols that a request can choose; tables of other benchmarks have their own.
CHOICES = ("paper", "modern")


@dataclass(frozen=True)
class Reduction:
    """What makes a run smaller than in the table; its records are marked `reduced`.

    `settings` are words of the command line.
    """

    epochs: int | None = None
    samples: int | None = None
    settings: dict[str, str] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.epochs is not None or self.samples is not None or bool(self.settings)


def search_of(table: Table, protocol: str) -> Search | None:
    """How a protocol chooses the learning rate of a row; None if all rows have the same."""
    return table.search if protocol == "modern" else None


def run_options(
    table: Table,
    row: Row,
    training: Training,
    protocol: str,
    seed: int,
    reduction: Reduction,
) -> TrainOptions:
    """All settings of one training: of task, protocol, training and row; later ones win."""
    values: dict[str, Any] = {
        **(PAPER_PRESETS.get(table.task, {}) if protocol == "paper" else {}),
        **(table.modern if protocol == "modern" else {}),
        **training.settings,
        **(training.modern if protocol == "modern" else {}),
        "model": row.model,
        **row.settings,
        "seed": seed,
    }
    if reduction.epochs is not None:
        if "warmup_epochs" in values:
            values["warmup_epochs"] *= min(1.0, reduction.epochs / values["epochs"])
        values["epochs"] = reduction.epochs
    if reduction.samples is not None and table.task == "cycles":
        count = values.get("train_samples", reduction.samples)
        values["train_samples"] = min(count, reduction.samples)
        values["test_samples"] = reduction.samples
    options = with_values(KINDS[table.task](), values, f"{table.name}, {row.name}")
    given = {name: _parsed(word) for name, word in reduction.settings.items()}
    return with_values(options, given, "--set")


def _parsed(word: str) -> Any:
    """A word of the command line as a number, true or false, or text."""
    try:
        return json.loads(word)
    except ValueError:
        return word


def settings_of(options: TrainOptions) -> dict[str, Any]:
    """The settings of a run that affect its results."""
    return {name: value for name, value in plain(options).items() if name not in PLACE}


def same_settings(
    config: dict[str, Any], options: TrainOptions, without: Collection[str] = ()
) -> bool:
    """Whether a stored config has these values; missing settings have their default."""
    defaults = {**settings_of(type(options)()), **REMOVED}
    wanted = {**settings_of(options), **REMOVED}
    return all(
        config.get(name, defaults[name]) == value
        for name, value in wanted.items()
        if name not in without
    )
