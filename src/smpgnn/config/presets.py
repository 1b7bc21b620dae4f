"""The settings of the paper's experiments, by task. Needs no torch."""

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

Options = TypeVar("Options", bound=TrainOptions)


def paper_preset(options: Options) -> Options:
    """The options with the settings of the paper's experiment."""
    task = options.task_name()
    if task not in PAPER:
        raise InputError(f"--preset paper: the paper has no experiment '{task}': leave it out.")
    return options.changed(**PAPER[task])
