"""The memory of a training whose steps are recorded: batches of one size, all data on the GPU."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.capture.steps import data_rows
from smpgnn.data.base import Splits
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.estimate import StepMemory, step_memory
from smpgnn.training.loader import store_bytes
from smpgnn.training.row_counts import BatchRows

#: What cuBLAS keeps for itself on the streams of warm-up and recording, and for steps that are not
#: recorded: what the peaks of small networks leave over (`benchmarks/training_memory.py`).
LIBRARIES, LIBRARIES_BESIDE = 145 * 2**20, 96 * 2**20


@dataclass(frozen=True)
class RecordedMemory:
    """Bytes of a training at its fullest.

    Args:
        step: of the recorded step, which has room for nearly all batches.
        data: training and validation graphs and the tables that batches are cut from.
    """

    step: StepMemory
    data: float

    @property
    def total(self) -> int:
        return int(self.step.total + self.data + LIBRARIES)

    @property
    def beside(self) -> int:
        """What a batch that does not fit the room takes beside it, at least: a step of its own.

        The room of the recorded step stays reserved then, though no tensor is in it.
        """
        return int(self.step.kept + self.step.passing + LIBRARIES_BESIDE)


def recorded_memory(
    splits: Splits,
    spec: NetworkSpec,
    batch_size: int,
    *,
    optimizer: str = "adamw",
    precision: str = "float32",
) -> RecordedMemory:
    """What a training with recorded steps needs on a GPU."""
    with torch.random.fork_rng(devices=[]):
        network = spec.build()
    stores = splits.train, splits.val
    padded = []
    for store in stores:
        rows = data_rows(network, store)
        padded.append(PaddedStore(store, Capacity.of(store, batch_size, rows), rows))
    room, layers = padded[0].capacity, spec.num_layers
    batch = BatchRows(
        room.graphs,
        room.nodes,
        room.edges,
        rows=(room.rows,) * (layers + 1),
        messages=(max(room.messages, room.edges * room.rows / room.nodes),) * layers,
    )
    step = step_memory(spec, batch, torch.device("cuda"), optimizer=optimizer, precision=precision)
    data = sum(map(store_bytes, stores)) + sum(map(store_bytes, padded))
    return RecordedMemory(step, data)
