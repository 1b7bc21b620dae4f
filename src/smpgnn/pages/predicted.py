"""The test predictions of a run by target, as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from smpgnn.data.columns import Values, to_numbers
from smpgnn.errors import InputError
from smpgnn.pages.run_files import RunFiles
from smpgnn.training.tasks import Task
from smpgnn.training.tasks.base import parts_of
from smpgnn.training.tasks.part import Part

if TYPE_CHECKING:
    import pandas as pd

#: Columns before those of the targets.
_LEADING = ("row", "node", "smiles")
_LARGEST = 3e38  # larger numbers are beyond float32, and not drawn


@dataclass(frozen=True, eq=False)
class Predicted:
    """One target: the n test rows whose target is known (and no bound), and what is predicted."""

    part: Part
    row: NDArray[np.int64]  # of the table, from 1
    smiles: Sequence[str]  # of the rows; empty for other graphs
    real: Values  # in the units of the table, or the index of the class
    predicted: Values | None  # numbers; None for classes
    low: Values | None  # of 90 % intervals; None without
    high: Values | None
    shares: Values | None  # the probability of each class, [n, C]; None for numbers
    # predicted minus real (of logarithms, if the target is learned as such), or what the
    # probability of the real class lacks to 1
    error: Values
    similarity: Values | None  # to the nearest training molecule; None if unknown
    score: int  # the index of its score in explanations

    @property
    def name(self) -> str:
        return self.part.name

    @property
    def scores(self) -> int:
        """How many scores of explanations it has."""
        return len(self.part.columns) if len(self.part.classes) > 2 else 1


def predicted_targets(run: RunFiles) -> list[Predicted]:
    """The targets of a run that have test predictions."""
    frame = run.predictions
    if frame is None or frame.empty:
        return []
    try:
        return _targets(run, frame)
    except (KeyError, IndexError, ValueError) as error:
        raise InputError(
            f"{run.folder}: test_predictions.csv or similarity.csv does not fit to the model: "
            "write them again with --resume."
        ) from error


def parts(task: Task) -> tuple[Part, ...]:
    """The targets of any task; those of the paper's multi-task networks are numbers."""
    try:
        return parts_of(task)
    except TypeError:
        return tuple(Part(name, (k,)) for k, name in enumerate(task.target_names()))


def _targets(run: RunFiles, frame: pd.DataFrame) -> list[Predicted]:
    names, found = [str(name) for name in frame], parts(run.task)
    leading = 0
    while names[leading] in _LEADING:
        leading += 1
    own = leading + len(found)
    numbers = [part for part in found if not part.classes]
    more = own + len(run.task.columns())
    kinds = (len(names) - more) // max(1, len(numbers))  # low, high and std of each, or fewer
    row = frame["row"].to_numpy(np.int64)
    similarity = _similarity(run, row)
    smiles = frame["smiles"].tolist() if "smiles" in names[:leading] else []
    targets, score = [], 0
    for number, part in enumerate(found):
        text = frame.iloc[:, leading + number]
        width = 1 + len(part.columns) if part.classes else 1
        cells = frame.iloc[:, own : own + width]
        bars = None
        if not part.classes and kinds >= 2:
            at = more + kinds * numbers.index(part)
            bars = _numbers(frame.iloc[:, at : at + 2])
        one = _target(part, text, cells, bars)
        known = (np.abs(one["real"]) < _LARGEST) & (np.abs(one["error"]) < _LARGEST)
        one = {name: None if value is None else value[known] for name, value in one.items()}
        targets.append(
            Predicted(
                part=part,
                row=row[known],
                smiles=[smiles[at] for at in np.flatnonzero(known)] if smiles else [],
                similarity=None if similarity is None else similarity[known],
                score=score,
                **one,
            )
        )
        own, score = own + width, score + targets[-1].scores
    return targets


def _target(
    part: Part, text: pd.Series[Any], cells: pd.DataFrame, bars: Values | None
) -> Mapping[str, Any]:
    """The numbers of all rows; NaN where the target is unknown."""
    if part.classes:
        index = {label: float(k) for k, label in enumerate(part.classes)}
        real = np.array([index.get(value, np.nan) for value in text])
        shares = _numbers(cells.iloc[:, 1:])
        shares[(shares < 0) | (shares > 1)] = np.nan
        if shares.shape[1] == 1:
            shares = np.concatenate([1 - shares, shares], axis=1)
        of_real = np.take_along_axis(shares, np.nan_to_num(real).astype(int)[:, None], axis=1)
        error = np.where(np.isnan(real + shares.sum(1)), np.nan, 1 - of_real[:, 0])
        gap = dict.fromkeys(("predicted", "low", "high"))
        return {"real": real, "shares": shares, "error": error, **gap}
    real, predicted = _numbers(text.to_frame())[:, 0], _numbers(cells)[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.log10(predicted / real) if part.log10 else predicted - real
    low, high = (None, None) if bars is None else bars.T
    return {"real": real, "predicted": predicted, "low": low, "high": high, "shares": None,
            "error": error}  # fmt: skip


def _numbers(frame: pd.DataFrame) -> Values:
    """Cells as numbers; NaN for others, such as bounds."""
    return np.stack([to_numbers(frame[name]) for name in frame], axis=1)


def _similarity(run: RunFiles, row: NDArray[np.int64]) -> Values | None:
    if run.similarity is None:
        return None
    values = to_numbers(run.similarity["similarity"])
    known = dict(zip(run.similarity["row"].astype(int), values, strict=True))
    return np.array([known[one] for one in row.tolist()])
