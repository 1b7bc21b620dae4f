"""`smpgnn serve`: a page and a JSON interface for a trained model.

One process answers requests (`server`, `app`) and another one has the model (`worker`, `jobs`). A
request passes `access` (who may ask), then `gate` (how much, how long and how many at a time), then
`service`, which cuts it into pieces for the worker. This module does not import torch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Molecules whose atoms are explained in one request: drawings are large.
EXPLAINED = 50
#: Level of the intervals where the run has calibration rows and no other level is given.
LEVEL = 0.9


@dataclass(frozen=True)
class Limits:
    """Limits of a request, and of the requests at a time."""

    molecules: int = 1_000
    characters: int = 1_000  # of a SMILES
    bytes: int = 2 << 20
    requests: int = 100
    seconds: int = 60


@dataclass(frozen=True)
class Settings:
    """What to serve, where, and to whom."""

    run: str  # run folder, model file, or the name of a pretrained model
    device: str = "auto"
    level: float | None = None  # of the intervals; None: `LEVEL`, if enough calibration rows exist
    host: str = "127.0.0.1"
    port: int = 8000  # 0: any free one
    names: tuple[str, ...] = ()  # further host names under which browsers reach the server
    token: str = ""  # what requests must carry; '': none
    limits: Limits = field(default_factory=Limits)
