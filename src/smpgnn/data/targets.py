"""Target columns to numbers: regression values, or class numbers with the labels they stand for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from smpgnn.data.tables import listing, require_columns
from smpgnn.errors import InputError, shown

if TYPE_CHECKING:
    import pandas as pd

Task = Literal["regression", "classification"]
TASKS = ("auto", "regression", "classification")
# Text that means "not known"; for numbers also 'none', which may well name a class.
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "<na>"})
_MISSING_NUMBER = _MISSING | {"none"}
# Numbers whose squares float32 can hold; errors are squared.
_LARGEST, _SMALLEST = 1e18, 1e-18
# What float32 may change in a target, in widths of the range of its column.
_LOST = 1e-2


@dataclass(frozen=True)
class TargetSpec:
    """What the targets of a data set mean; enough to encode another table in the same way.

    `classes` holds the labels of every column in the order of their numbers; it is empty for
    regression. One column may have any number of classes, several columns have two each.
    """

    task: Task
    names: tuple[str, ...]
    classes: tuple[tuple[str, ...], ...] = ()

    @property
    def num_classes(self) -> int:
        """Classes of a single-column classification; 2 for several columns; 0 for regression."""
        return max((len(labels) for labels in self.classes), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            "task": self.task,
            "names": list(self.names),
            "classes": [list(labels) for labels in self.classes],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TargetSpec:
        return cls(
            task=values["task"],
            names=tuple(values["names"]),
            classes=tuple(tuple(labels) for labels in values["classes"]),
        )


@dataclass(frozen=True, eq=False)
class Targets:
    """`values` [rows, T] in float64: numbers, or class numbers from 0; NaN where not known."""

    values: Tensor
    spec: TargetSpec


def parse_targets(
    frame: pd.DataFrame, names: Sequence[str], task: str = "auto", *, source: str = "the table"
) -> Targets:
    """Read the columns `names` as targets and work out what they mean.

    With task="auto" the columns are classes if in most of their known cells there is no number
    (text, True and False), or if each column has two different values only, both whole numbers;
    they are regression values otherwise. Numbered classes, three or more, must be asked for with
    task="classification".

    Labels are sorted by number where all are numbers, as text otherwise; 1, 1.0 and "1" are one
    label. Messages name the row by the frame's index.
    """
    if task not in TASKS:
        raise InputError(f"task is '{task}', but must be one of {listing(TASKS)}.")
    if len(names) == 0:
        raise InputError("No target column is named: give at least one.")
    chosen = require_columns(names, list(frame.columns), source)
    texts = [_texts(frame[name]) for name in chosen]
    for name, column in zip(chosen, texts, strict=True):
        if all(text.casefold() in _MISSING for text in column):
            raise InputError(f"{source}: target '{name}' has no value in any row: fill the column.")
    if task == "auto":
        task = _guess(texts)
    if task == "regression":
        spec = TargetSpec("regression", chosen)
        values = encode_targets(frame, spec, source=source)
        for name, column_values in zip(chosen, values.T, strict=True):
            _refuse_constant(name, column_values, source)
            _refuse_lost(frame, name, column_values, source)
        return Targets(values, spec)
    classes = tuple(
        _classes(name, column, len(chosen), source)
        for name, column in zip(chosen, texts, strict=True)
    )
    spec = TargetSpec("classification", chosen, classes)
    return Targets(encode_targets(frame, spec, source=source), spec)


def encode_targets(frame: pd.DataFrame, spec: TargetSpec, *, source: str = "the table") -> Tensor:
    """The targets of `frame` in the meaning of `spec`: [rows, T] float64, NaN where not known."""
    require_columns(spec.names, list(frame.columns), source)
    values = np.empty((len(frame), len(spec.names)))
    for column, name in enumerate(spec.names):
        texts = _texts(frame[name])
        if spec.task == "regression":
            values[:, column] = _numbers(frame, name, texts, source)
        else:
            values[:, column] = _class_numbers(frame, name, texts, spec.classes[column], source)
    return torch.from_numpy(values)


def place(frame: pd.DataFrame | pd.Series[Any], row: int) -> str:
    """How a message names a row: by the name of the frame's index and its entry there."""
    return f"{frame.index.name or 'row'} {frame.index[row]}"


def _texts(column: pd.Series[Any]) -> list[str]:
    """Every cell as stripped text, '' where missing."""
    missing = column.isna().to_numpy()
    return ["" if gap else str(v).strip() for v, gap in zip(column.tolist(), missing, strict=True)]


def _to_numbers(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers where the text is one, NaN elsewhere."""
    import pandas as pd

    numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce")
    return cast("np.ndarray[Any, np.dtype[np.float64]]", numbers.to_numpy(np.float64))


def _guess(columns: Sequence[Sequence[str]]) -> Task:
    two_valued = True
    for texts in columns:
        known = [text for text in texts if text.casefold() not in _MISSING]
        numbers = _to_numbers(known)
        if np.isnan(numbers).sum() * 2 > len(known):
            return "classification"
        different = np.unique(numbers)
        whole = bool(np.all(different == np.round(different)))
        two_valued = two_valued and different.size == 2 and whole
    return "classification" if two_valued else "regression"


def _numbers(
    frame: pd.DataFrame, name: str, texts: Sequence[str], source: str
) -> np.ndarray[Any, np.dtype[np.float64]]:
    numbers = _to_numbers(texts)
    for row in np.flatnonzero(np.isnan(numbers)).tolist():
        text = texts[row]
        if text.casefold() not in _MISSING_NUMBER:
            hint = "write decimals with a point" if "," in text else "mend it or leave it empty"
            raise InputError(
                f"{source}, {place(frame, row)}: target '{name}' is '{shown(text)}', "
                f"which is not a number: {hint}, or use task='classification'."
            )
    for row in np.flatnonzero(np.abs(numbers) > _LARGEST).tolist():
        raise InputError(
            f"{source}, {place(frame, row)}: target '{name}' is '{shown(texts[row])}', infinite or "
            "too large for float32: leave the cell empty, or take logarithms of the column."
        )
    return numbers


def _refuse_constant(name: str, values: Tensor, source: str) -> None:
    known = values[~values.isnan()]
    if known.numel() == 0:
        raise InputError(f"{source}: target '{name}' has no value in any row: fill the column.")
    if bool((known == known[0]).all()):
        raise InputError(
            f"{source}: target '{name}' is {known[0].item():g} in every row, so there is nothing "
            "to learn: choose another column."
        )


def _refuse_lost(frame: pd.DataFrame, name: str, values: Tensor, source: str) -> None:
    """Networks work in float32, where 1e-300 is 0 and 1e9 + 1 is 1e9."""
    known = values[~values.isnan()]
    width = float(known.max() - known.min())
    lost = (values - values.float().double()).abs().nan_to_num()
    row = int(lost.argmax())
    if width < _SMALLEST or float(lost[row]) > _LOST * width:
        raise InputError(
            f"{source}, {place(frame, row)}: target '{name}' is {values[row].item():.15g}, but the "
            f"values of its column differ by {width:.3g} at most, too little for float32: scale "
            "the column, or subtract a constant."
        )


def _label(text: str) -> str:
    """The label a cell stands for: whole numbers lose their '.0'."""
    try:
        number = float(text.replace("_", "?"))  # 1_0 is a name here, not Python's ten
    except ValueError:
        return text
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else text


def _classes(name: str, texts: Sequence[str], columns: int, source: str) -> tuple[str, ...]:
    known = [text for text in texts if text.casefold() not in _MISSING]
    labels = sorted({_label(text) for text in set(known)})
    numbers = _to_numbers(labels)
    if not np.isnan(numbers).any():
        labels = [labels[i] for i in np.argsort(numbers, kind="stable")]
    if len(labels) == 1:
        raise InputError(
            f"{source}: target '{name}' has one class only, '{shown(labels[0])}': "
            "a classifier needs at least two."
        )
    if columns > 1 and len(labels) > 2:
        raise InputError(
            f"{source}: target '{name}' has {len(labels)} classes, but several classification "
            "targets need two each: train on it alone."
        )
    if len(labels) > 10 and 2 * len(labels) > len(known):
        raise InputError(
            f"{source}: target '{name}' has {len(labels)} different labels in {len(known)} rows, "
            "too many for classes: choose another column or task='regression'."
        )
    return tuple(labels)


def _class_numbers(
    frame: pd.DataFrame, name: str, texts: Sequence[str], classes: Sequence[str], source: str
) -> np.ndarray[Any, np.dtype[np.float64]]:
    number = {label: float(position) for position, label in enumerate(classes)}
    values = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        if text.casefold() in _MISSING:
            continue
        label = _label(text)
        if label not in number:
            raise InputError(
                f"{source}, {place(frame, row)}: target '{name}' is '{shown(text)}', "
                f"which is none of the classes {listing(classes)}."
            )
        values[row] = number[label]
    return values
