"""The settings of BREC's protocol. Needs no torch."""

from __future__ import annotations

from dataclasses import dataclass

from smpgnn.config.network import NetworkOptions
from smpgnn.config.options import TrainOptions
from smpgnn.config.settings import nested


@dataclass(frozen=True)
class BrecOptions(TrainOptions, task_name="brec"):
    """Tell pairs of graphs apart by training a network for each."""

    network: NetworkOptions = nested(
        TrainOptions.network, hidden_channels=32, num_layers=8, norm="layer"
    )
    epochs: int = 20
    batch_size: int = 16
    optimizer: str = "adam"
    lr: float = 1e-4
    weight_decay: float = 1e-4
    schedule: str = "plateau"
    decay: float = 0.1
    decay_epochs: int = 10
    clip: float = 0.0
    precision: str = "float32"


@dataclass(frozen=True)
class UntrainedBrecOptions(BrecOptions, task_name="brec-untrained"):
    """Tell pairs of graphs apart by networks with random weights, in float64."""
