"""How the rows of a table are trained: two protocols by name, and the settings of a training.

All rows of a table share the protocol: optimiser, schedule, epochs, batches. Under `modern` the
learning rate of every row, also of SMP, is chosen on held-out training data
(`smpgnn.paper.experiments.search`).
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

from smpgnn.config.options import TASKS, TrainOptions
from smpgnn.config.presets import PAPER as PAPER_PRESETS
from smpgnn.config.settings import REMOVED, plain, with_values
from smpgnn.paper.experiments.brec_options import BrecOptions, UntrainedBrecOptions
from smpgnn.paper.experiments.table import Row, Table, Training
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.training.run_folder import PLACE


@dataclass(frozen=True)
class Search:
    """Rates to try, and the share of the epochs of each trial.

    With `readouts`, each rate is tried with each of them, except for rows with a readout of their
    own.
    """

    rates: tuple[float, ...]
    share: float = 0.2
    readouts: tuple[str, ...] = ()

    @property
    def rule(self) -> str:
        """The rule as text, as in the records."""
        return (
            "best value on held-back training graphs (two of twenty) after "
            f"{self.share:.0%} of the epochs, seed 0"
        )


@dataclass(frozen=True)
class Protocol:
    """Settings by table, and of single trainings; a table without a search has one rate."""

    name: str
    text: str
    settings: dict[str, dict[str, Any]]
    by_training: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    search: dict[str, Search] = field(default_factory=dict)


#: The settings of each task; the last ones are trained by tables only.
KINDS: dict[str, type[TrainOptions]] = {
    **TASKS,
    **{kind.task_name(): kind for kind in (BrecOptions, UntrainedBrecOptions)},
}
#: Settings that the search chooses.
CHOSEN = ("lr", "readout")

_MODERN: dict[str, Any] = {
    "optimizer": "adamw",
    "schedule": "cosine",
    "warmup_epochs": 2.0,
    "weight_decay": 1e-4,
    "batch_size": 64,
    "clip": 1.0,
}
_PROPERTIES: dict[str, Any] = {
    **_MODERN,
    "epochs": 200,
    "lr": 3e-3,
    "batch_size": 32,
    "norm_place": "after",
    "objective": "log-mse",
}
#: SMP has 6 layers of 48 channels in place of the paper's 12 of 32.
_ZINC: dict[str, Any] = {
    **_MODERN,
    "epochs": 200,
    "batch_size": 128,
    "lr": 2e-3,
    "identifiers": "onehot",
    "features": "own",
    "own_terms": False,
    "readout": "mean+scaled-sum",
    "num_layers": 6,
    "hidden_channels": 48,
    "towers": 4,
    "extractor_channels": 64,
}
_CYCLES = Search(rates=(3e-4, 1e-3, 3e-3), readouts=("mean", "max"))
#: Tables whose rows differ little and all have the rate of the protocol.
_ONE_RATE = ("zinc_parts", "zinc_recipe", "zinc_family", "properties_parts")
_SEARCH = {
    "cycles": _CYCLES,
    "properties": Search(rates=(1e-3, 3e-3, 1e-2), share=0.1),
    "zinc": Search(rates=(1e-3, 2e-3, 4e-3), share=0.1),
}

PROTOCOLS: dict[str, Protocol] = {
    "paper": Protocol(
        name="paper",
        text="optimiser, schedule, epochs and batches of the authors' code; one learning rate",
        settings={
            name: dict(PAPER_PRESETS[table.task])
            for name, table in TABLES.items()
            if table.task in PAPER_PRESETS
        },
    ),
    "modern": Protocol(
        name="modern",
        text="AdamW, cosine schedule with warm-up, batches of 64 (graph properties: 32, ZINC: "
        "128); the learning rate of each row, and for cycles the readout of each baseline (mean or "
        "max), is chosen on held-back training data",
        settings={
            "cycle_detection": {**_MODERN, "epochs": 25, "lr": 1e-3},
            "cycle_generalization": {**_MODERN, "epochs": 25, "lr": 1e-3},
            "cycle_less_data": {**_MODERN, "epochs": 40, "lr": 1e-3},
            "cycle_detection_matched": {**_MODERN, "epochs": 25, "lr": 1e-3},
            "graph_properties": _PROPERTIES,
            "properties_parts": {**_PROPERTIES, "epochs": 40},
            "zinc": _ZINC,
            "zinc_batches": {**_ZINC, "batch_size": 64},
            "zinc_beyond": {**_ZINC, "epochs": 400},
            "zinc_500k": {**_ZINC, "epochs": 400},
            "zinc_parts": {**_ZINC, "epochs": 60},
            "zinc_recipe": {**_ZINC, "epochs": 80, "lr": 4e-3},
        },
        # fewer graphs mean fewer steps per epoch
        by_training={
            "cycle_less_data": {
                "200": {"epochs": 200},
                "500": {"epochs": 120},
                "1000": {"epochs": 80},
            }
        },
        search={
            **{
                name: _SEARCH[table.task]
                for name, table in TABLES.items()
                if table.task in _SEARCH and name not in _ONE_RATE
            },
            "cycle_less_data": replace(_CYCLES, share=0.5),
        },
    ),
    "benchmark": Protocol(
        name="benchmark",
        text="optimiser, schedule, epochs and batches of the benchmark, which are the defaults of "
        "its task",
        settings={},
    ),
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


def run_options(
    table: Table,
    row: Row,
    training: Training,
    protocol: Protocol,
    seed: int,
    reduction: Reduction,
) -> TrainOptions:
    """All settings of one training: of task, protocol, training and row; later ones win."""
    values: dict[str, Any] = {
        **_of_table(protocol.settings, table),
        **training.settings,
        **_of_table(protocol.by_training, table).get(training.name, {}),
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


def _of_table(settings: dict[str, dict[str, Any]], table: Table) -> dict[str, Any]:
    """The settings for a table, or for the one that it is like."""
    return settings.get(table.name, settings.get(table.like, {}))


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
