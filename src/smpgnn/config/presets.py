"""Named settings of a task: those of the paper's experiment, and a small network. No torch here."""

from __future__ import annotations

from typing import Any, TypeVar

from smpgnn.config.options import TrainOptions
from smpgnn.errors import InputError

#: Networks, optimisers and schedules as in the paper and the authors' code.
PAPER: dict[str, dict[str, Any]] = {
    "cycles": {
        "dropout": 0.5, "residual": False, "readout": "mean", "extractor_channels": 128,
        "epochs": 300, "batch_size": 16, "clip": 10.0,
        "optimizer": "sgd", "lr": 1e-3, "momentum": 0.5, "weight_decay": 1e-4,
        "schedule": "exponential", "decay": 0.995, "decay_epochs": 5,
    },
    "properties": {
        "residual": False, "set_scale": 0.1,
        "epochs": 3000, "patience": 1000, "batch_size": 16, "clip": 5.0,
        "optimizer": "adam", "lr": 1e-3, "weight_decay": 1e-6,
        "schedule": "step", "decay": 0.92, "decay_epochs": 50,
    },
    "zinc": {
        "hidden_channels": 32, "num_layers": 12, "identifiers": "onehot", "features": "own",
        "towers": 8, "own_terms": False, "residual": False, "update_residual": True,
        "set_scale": 0.1, "extractor_channels": 128, "readout": "mean",
        "epochs": 3000, "batch_size": 128, "clip": 10.0,
        "optimizer": "adam", "lr": 1e-3, "weight_decay": 1e-6,
        "schedule": "plateau", "decay": 0.5, "decay_epochs": 100, "min_lr": 5e-6,
    },
}  # fmt: skip

#: A network for molecules that trains several times faster on a CPU (docs/molecules.md).
SMALL: dict[str, dict[str, Any]] = {
    "molecules": {"hidden_channels": 32, "num_layers": 4, "context_radius": 2},
}

#: The settings of each preset, by task.
PRESETS = {"paper": PAPER, "small": SMALL}

Options = TypeVar("Options", bound=TrainOptions)


def presets(task: str) -> tuple[str, ...]:
    """The names of the presets of a task."""
    return tuple(name for name, tasks in PRESETS.items() if task in tasks)


def with_preset(options: Options, name: str) -> Options:
    """The options with the settings of a preset."""
    task = options.task_name()
    if name not in presets(task):
        known = " or ".join(presets(task))
        remedy = f"choose {known}, or leave it out" if known else "leave it out"
        raise InputError(f"--preset {name}: '{task}' has no preset of this name: {remedy}.")
    return options.changed(**PRESETS[name][task])
