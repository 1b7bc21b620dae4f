"""Models that ship with the package, by name: NAME.safetensors, and NAME.json, how it was made.

Both are put here by `docs/ship_zinc.py`, from the folder of a run. Needs no torch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smpgnn.config.options import TrainOptions, from_config
from smpgnn.errors import InputError

FOLDER = Path(__file__).parent
NAMES = ("zinc",)


@dataclass(frozen=True)
class Shipped:
    """A model that ships: its file, what its run.json said, and all settings of the run."""

    name: str
    file: Path
    run: dict[str, Any]
    config: dict[str, Any]

    @property
    def options(self) -> TrainOptions:
        return from_config(self.config, f"{self.name}.json")


def named(word: str | Path) -> str | None:
    """The name of a shipped model that a word means, None for a path.

    A file, or the folder of a run, is taken before a shipped model of the same name; a folder of
    that name which holds something else does not count.
    """
    path = Path(word)
    ours = any((path / file).exists() for file in ("model.safetensors", "config.yaml"))
    return str(word) if str(word) in NAMES and not path.is_file() and not ours else None


def shipped(name: str) -> Shipped:
    """The model of this name; refused where this copy of the package has none."""
    file, record = FOLDER / f"{name}.safetensors", FOLDER / f"{name}.json"
    if not (file.exists() and record.exists()):
        raise InputError(
            f"{name}: no trained model of this name ships with this version: train one with "
            f"'smpgnn train {name}' and name its folder."
        )
    content = json.loads(record.read_text(encoding="utf-8"))
    return Shipped(name, file, content["run"], content["config"])


def model_path(word: str | Path) -> Path:
    """Where the model is that a word means: a path, or the name of one that ships."""
    name = named(word)
    return Path(word) if name is None else shipped(name).file
