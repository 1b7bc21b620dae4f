"""Pretrained models by name: the weights NAME.safetensors and the record NAME.json.

`docs/ship.py` copies both into the package. This module does not import torch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smpgnn.config.options import TrainOptions, from_config
from smpgnn.errors import InputError

FOLDER = Path(__file__).parent
#: The pretrained models, and the command that each is for.
NAMES = {
    "zinc": "smpgnn predict zinc FILE",
    "general": "smpgnn train molecules FILE --targets NAME --from general",
}


@dataclass(frozen=True)
class Shipped:
    """A pretrained model: its file, the content of its run.json, and all settings of the run."""

    name: str
    file: Path
    run: dict[str, Any]
    config: dict[str, Any]

    @property
    def options(self) -> TrainOptions:
        return from_config(self.config, f"{self.name}.json")


def named(word: str | Path) -> str | None:
    """The name of the pretrained model that a word refers to; None for a path.

    A file or run folder takes precedence over a pretrained model of the same name; any other
    folder of that name does not.
    """
    path = Path(word)
    ours = any((path / file).exists() for file in ("model.safetensors", "config.yaml"))
    return str(word) if str(word) in NAMES and not path.is_file() and not ours else None


def shipped(name: str) -> Shipped:
    """The pretrained model of this name; an error if this version has none."""
    file, record = FOLDER / f"{name}.safetensors", FOLDER / f"{name}.json"
    if not (file.exists() and record.exists()):
        raise InputError(
            f"{name}: this version has no pretrained model of that name: name a run "
            "folder or model file."
        )
    content = json.loads(record.read_text(encoding="utf-8"))
    return Shipped(name, file, content["run"], content["config"])


def model_path(word: str | Path) -> Path:
    """The file or folder of the model that a word refers to, a path or a pretrained name."""
    name = named(word)
    return Path(word) if name is None else shipped(name).file
