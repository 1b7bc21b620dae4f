"""Predict for the pieces of a table in several processes, in order."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from torch import nn

from smpgnn.processes import FEW_ROWS, in_processes, suitable_processes

if TYPE_CHECKING:
    import pandas as pd

    from smpgnn.inference.predict import Model

#: SMILES, and the columns of descriptors.
_Given: TypeAlias = "tuple[list[Any], pd.DataFrame | None]"


def predicted(
    model: Model, frames: Iterable[pd.DataFrame], columns: list[str], processes: int
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """Pieces of a table and their predictions, in order.

    On a GPU, the processes featurise and this one predicts; without one they do both. Each piece is
    predicted by itself, so the results do not depend on the number of processes.

    Args:
        frames: pieces of at most `PIECE_ROWS` rows.
        columns: of the SMILES, then those of descriptors.
        processes: number of processes; 0: as many as there are idle processors, for long tables.
    """
    frames = iter(frames)
    first: list[pd.DataFrame] = []
    if not processes:
        while sum(map(len, first)) < FEW_ROWS and (frame := next(frames, None)) is not None:
            first.append(frame)
        processes = suitable_processes() if sum(map(len, first)) >= FEW_ROWS else 1
    pieces = ((frame, _given(frame, columns)) for frame in chain(first, frames))
    if processes == 1:
        for frame, given in pieces:
            yield frame, model.predict_smiles(*given)
    elif model.device.type == "cpu":
        for frame, found in in_processes(model.predict_smiles, pieces, processes):
            yield frame, found
    else:
        for frame, found in in_processes(_without_network(model).featurize, pieces, processes):
            yield frame, model.predict_molecules(found, len(frame))


def _given(frame: pd.DataFrame, columns: list[str]) -> _Given:
    """The SMILES, and the table of descriptors if there are any."""
    smiles, *descriptors = columns
    return frame[smiles].tolist(), frame[descriptors] if descriptors else None


def _without_network(model: Model) -> Model:
    """A model that can featurise, for another process."""
    light = copy.copy(model)
    light.network = nn.Identity()
    light.saved = replace(model.saved, network=light.network)
    return light
