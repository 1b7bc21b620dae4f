"""Encode target columns: regression values, or class indices with their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.data.tables import listing, require_columns
from smpgnn.errors import InputError, shown

if TYPE_CHECKING:
    import pandas as pd

Task = Literal["regression", "classification"]
Values = NDArray[np.float64]
TASKS = ("auto", "regression", "classification")
# Text for missing values; for numbers also 'none', which may be the name of a class.
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "<na>"})
_MISSING_NUMBER = _MISSING | {"none"}
# Bounds of numbers whose squares fit into float32, because errors are squared.
_LARGEST, _SMALLEST = 1e18, 1e-18
# Maximum rounding error of a target in float32, relative to the range of its column.
_LOST = 1e-2


@dataclass(frozen=True)
class TargetSpec:
    """The meaning of the targets, with which other tables are encoded in the same way.

    `classes` has the labels of each column in the order of their indices; it is empty for
    regression. A single column may have any number of classes, several columns have two each.
    """

    task: Task
    names: tuple[str, ...]
    classes: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, eq=False)
class Targets:
    """`values` [rows, T] in float64: numbers or class indices; NaN if unknown."""

    values: Tensor
    spec: TargetSpec


def parse_targets(
    frame: pd.DataFrame, names: Sequence[str], task: str = "auto", *, source: str = "the table"
) -> Targets:
    """Read the columns `names` as targets and infer their type.

    With task="auto" the columns are classes if most known cells of one are not numbers (text, True
    and False), or if each column has exactly two different values, both whole numbers. Otherwise
    they are regression values. Three or more classes that are numbers need task="classification".

    Labels are sorted as numbers if all are numbers, else as text; 1, 1.0 and "1" are one label.
    Messages name rows by the frame's index.
    """
    if task not in TASKS:
        raise InputError(f"task is '{task}', but must be one of {listing(TASKS)}.")
    if len(names) == 0:
        raise InputError("No target column is given: name at least one.")
    chosen = require_columns(names, list(frame.columns), source)
    columns = {name: _texts(frame[name]) for name in chosen}
    for name, texts in columns.items():
        if not _known(texts):
            raise InputError(f"{source}: target '{name}' has no value in any row: fill the column.")
    if task == "auto":
        task = _guess(columns.values())
    if task == "regression":
        spec = TargetSpec("regression", chosen)
    else:
        classes = (_classes(name, texts, len(chosen), source) for name, texts in columns.items())
        spec = TargetSpec("classification", chosen, tuple(classes))
    values = encode_targets(frame, spec, source=source)
    if task == "regression":
        for name, column in zip(chosen, values.T, strict=True):
            _refuse_constant(frame, name, column, source)
    return Targets(values, spec)


def encode_targets(frame: pd.DataFrame, spec: TargetSpec, *, source: str = "the table") -> Tensor:
    """Encode the targets of `frame` by `spec`: [rows, T] float64, NaN if unknown."""
    require_columns(spec.names, list(frame.columns), source)
    values = np.empty((len(frame), len(spec.names)))
    for column, name in enumerate(spec.names):
        texts = _texts(frame[name])
        where = partial(_where, frame, name, texts, source)
        if spec.task == "regression":
            values[:, column] = _numbers(texts, where)
        else:
            values[:, column] = _class_numbers(texts, spec.classes[column], where)
    return torch.from_numpy(values)


def place(frame: pd.DataFrame | pd.Series[Any], row: int) -> str:
    """The name of a row in messages: the name of the frame's index and the row's entry."""
    return f"{frame.index.name or 'row'} {frame.index[row]}"


def _texts(column: pd.Series[Any]) -> list[str]:
    """Each cell as stripped text, '' if missing."""
    missing = column.isna().to_numpy()
    return ["" if gap else str(v).strip() for v, gap in zip(column.tolist(), missing, strict=True)]


def _to_numbers(texts: Sequence[str]) -> Values:
    """The texts as numbers, NaN if they are none."""
    import pandas as pd

    numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce")
    return cast(Values, numbers.to_numpy(np.float64))


def _known(texts: Iterable[str]) -> list[str]:
    return [text for text in texts if text.casefold() not in _MISSING]


def _where(frame: pd.DataFrame, name: str, texts: Sequence[str], source: str, row: int) -> str:
    """The beginning of a message on a cell."""
    return f"{source}, {place(frame, row)}: target '{name}' is '{shown(texts[row])}'"


def _guess(columns: Iterable[Sequence[str]]) -> Task:
    two_valued = True
    for texts in columns:
        known = _known(texts)
        numbers = _to_numbers(known)
        if np.isnan(numbers).sum() * 2 > len(known):
            return "classification"
        different = np.unique(numbers)
        whole = bool(np.all(different == np.round(different)))
        two_valued = two_valued and different.size == 2 and whole
    return "classification" if two_valued else "regression"


def _numbers(texts: Sequence[str], where: Callable[[int], str]) -> Values:
    numbers = _to_numbers(texts)
    for row in np.flatnonzero(np.isnan(numbers)).tolist():
        if texts[row].casefold() not in _MISSING_NUMBER:
            hint = "use a decimal point" if "," in texts[row] else "correct it or leave it empty"
            raise InputError(
                f"{where(row)}, which is not a number: {hint}, or use task='classification'."
            )
    for row in np.flatnonzero(np.abs(numbers) > _LARGEST).tolist():
        raise InputError(
            f"{where(row)}, infinite or too large for float32: leave the cell empty, or take the "
            "logarithm of the column."
        )
    return numbers


def _refuse_constant(frame: pd.DataFrame, name: str, values: Tensor, source: str) -> None:
    """Refuse columns whose values are equal, or as float32, which networks use, nearly equal."""
    known = values[~values.isnan()]
    if known.numel() == 0:
        raise InputError(f"{source}: target '{name}' has no value in any row: fill the column.")
    width = float(known.max() - known.min())
    if width == 0:
        raise InputError(
            f"{source}: target '{name}' is {known[0].item():g} in every row, so there is nothing "
            "to learn: choose another column."
        )
    lost = (values - values.float().double()).abs().nan_to_num()
    row = int(lost.argmax())
    if width < _SMALLEST or float(lost[row]) > _LOST * width:
        raise InputError(
            f"{source}, {place(frame, row)}: target '{name}' is {values[row].item():.15g}, but the "
            f"values of its column differ by at most {width:.3g}, too little for float32: scale "
            "the column or subtract a constant."
        )


def _label(text: str) -> str:
    """The label of a cell: whole numbers lose their '.0'."""
    try:
        number = float(text.replace("_", "?"))  # 1_0 is a label here, not the number 10
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else text


def _classes(name: str, texts: Sequence[str], columns: int, source: str) -> tuple[str, ...]:
    known = _known(texts)
    labels = sorted({_label(text) for text in set(known)})
    numbers = _to_numbers(labels)
    if not np.isnan(numbers).any():
        labels = [labels[i] for i in np.argsort(numbers, kind="stable")]
    if len(labels) == 1:
        raise InputError(
            f"{source}: target '{name}' has only one class, '{shown(labels[0])}': "
            "choose a column with at least two."
        )
    if columns > 1 and len(labels) > 2:
        raise InputError(
            f"{source}: target '{name}' has {len(labels)} classes, but several classification "
            "targets need two each: train on this one alone."
        )
    if len(labels) > 10 and 2 * len(labels) > len(known):
        raise InputError(
            f"{source}: target '{name}' has {len(labels)} different labels in {len(known)} rows, "
            "too many for a classification: choose another column or task='regression'."
        )
    return tuple(labels)


def _class_numbers(
    texts: Sequence[str], classes: Sequence[str], where: Callable[[int], str]
) -> Values:
    number = {label: float(position) for position, label in enumerate(classes)}
    values = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        if text.casefold() in _MISSING:
            continue
        label = _label(text)
        if label not in number:
            raise InputError(f"{where(row)}, which is not one of the classes {listing(classes)}.")
        values[row] = number[label]
    return values
