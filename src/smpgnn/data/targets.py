"""Encode target columns: numbers and bounds, or class indices with their labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.data.columns import Values, place, read_bounds, texts_of, to_numbers
from smpgnn.data.store import GraphStore
from smpgnn.data.tables import listing, require_columns
from smpgnn.errors import InputError, shown

if TYPE_CHECKING:
    import pandas as pd

Task = Literal["regression", "classification", "mixed"]
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

    `classes` has the labels of each column in the order of their indices; none for a column of
    numbers; it is empty if all columns have numbers. With `log10`, networks learn the logarithm of
    the numbers, which are positive.
    """

    task: Task
    names: tuple[str, ...]
    classes: tuple[tuple[str, ...], ...] = ()
    log10: bool = False

    @property
    def labels(self) -> tuple[tuple[str, ...], ...]:
        """The classes of each column, empty for numbers."""
        return self.classes or ((),) * len(self.names)

    @property
    def kinds(self) -> tuple[str, ...]:
        """'classification' or 'regression' for each column."""
        return tuple("classification" if found else "regression" for found in self.labels)


@dataclass(frozen=True, eq=False)
class Targets:
    """Targets of the rows of a table.

    Shapes: values [rows, T] in float64, numbers or class indices, NaN if unknown; side [rows, T],
    as in `GraphStore`, None without bounds.
    """

    values: Tensor
    spec: TargetSpec
    side: Tensor | None = None

    def of(self, rows: Tensor) -> Targets:
        """The targets of these rows."""
        return Targets(self.values[rows], self.spec, None if self.side is None else self.side[rows])

    def added(self, store: GraphStore, level: str = "graph") -> GraphStore:
        """The store with these targets of its graphs or nodes."""
        if level == "graph":
            return replace(store, y=self.values, side=self.side)
        if self.side is not None:
            column = int(self.side.bool().any(0).nonzero()[0])
            raise InputError(
                f"target '{self.spec.names[column]}' has bounds such as '>5', which only targets "
                "of graphs can have: leave these cells empty."
            )
        return replace(store, y_node=self.values)


def exact(values: Tensor, side: Tensor | None) -> Tensor:
    """The values, NaN where only a bound is known."""
    return values if side is None else values.masked_fill(side != 0, torch.nan)


def parse_targets(
    frame: pd.DataFrame,
    names: Sequence[str],
    task: str = "auto",
    *,
    log10: bool = False,
    source: str = "the table",
) -> Targets:
    """Read the columns `names` as targets and infer their type.

    With task="auto" a column has classes if most of its known cells are not numbers (text, True and
    False), or if it has exactly two different values, both whole numbers. Otherwise it has numbers.
    Three or more classes that are numbers need task="classification".

    Cells such as '>10000' or '≤ 0.1' in a column of numbers are bounds. Labels are sorted as
    numbers if all are numbers, else as text; 1, 1.0 and "1" are one label. Messages name rows by
    the frame's index.
    """
    if task not in TASKS:
        raise InputError(f"task is '{task}', but must be one of {listing(TASKS)}.")
    if len(names) == 0:
        raise InputError("No target column is given: name at least one.")
    chosen = require_columns(names, list(frame.columns), source)
    classes: list[tuple[str, ...]] = []
    for name in chosen:
        plain = None if task == "classification" else _plain_numbers(frame[name])
        if plain is not None and (task == "regression" or not _two_whole(plain[~np.isnan(plain)])):
            classes.append(())
            continue
        texts = texts_of(frame[name])
        if not _known(texts):
            raise InputError(f"{source}: target '{name}' has no value in any row: fill the column.")
        kind = _guess(texts) if task == "auto" else task
        classes.append(_classes(name, texts, source) if kind == "classification" else ())
    spec = make_spec(chosen, classes, log10=log10)
    if log10 and spec.task == "classification":
        raise InputError(
            f"--log-target: is for numbers, but '{chosen[0]}' has classes: leave it out."
        )
    targets = encode_targets(frame, spec, source=source)
    for name, kind, column in zip(chosen, spec.kinds, targets.values.T, strict=True):
        if kind == "regression":
            _refuse_constant(frame, name, column, source)
    return targets


def make_spec(
    names: tuple[str, ...], labels: Sequence[tuple[str, ...]], *, log10: bool = False
) -> TargetSpec:
    """The description of columns with these classes; those of numbers have none."""
    task: Task = "mixed"
    if all(labels) or not any(labels):
        task = "classification" if any(labels) else "regression"
    return TargetSpec(task, names, tuple(labels) if any(labels) else (), log10)


def encode_targets(frame: pd.DataFrame, spec: TargetSpec, *, source: str = "the table") -> Targets:
    """Encode the targets of `frame` by `spec`."""
    require_columns(spec.names, list(frame.columns), source)
    values = np.empty((len(frame), len(spec.names)))
    side = np.zeros(values.shape, dtype=np.int8)
    for column, (name, labels) in enumerate(zip(spec.names, spec.labels, strict=True)):
        plain = None if labels or spec.log10 else _plain_numbers(frame[name])
        if plain is not None:
            values[:, column] = plain
            continue
        texts = texts_of(frame[name])
        where = partial(_where, frame, name, texts, source)
        if labels:
            values[:, column] = _class_numbers(texts, labels, where)
        else:
            values[:, column], side[:, column] = _numbers(texts, where, positive=spec.log10)
    bounds = torch.from_numpy(side) if side.any() else None
    return Targets(torch.from_numpy(values), spec, bounds)


def _plain_numbers(column: pd.Series[Any]) -> Values | None:
    """The values of a column of floats or integers, a thousand times faster than by its texts.

    None if the type of the column differs, or if a cell has to be refused.
    """
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiu":
        values = column.to_numpy(np.float64)
        known = values[~np.isnan(values)]
        if known.size and np.abs(known).max() <= _LARGEST:
            return values
    return None


def _known(texts: Iterable[str]) -> list[str]:
    return [text for text in texts if text.casefold() not in _MISSING]


def _where(frame: pd.DataFrame, name: str, texts: Sequence[str], source: str, row: int) -> str:
    """The beginning of a message on a cell."""
    return f"{source}, {place(frame, row)}: target '{name}' is '{shown(texts[row])}'"


def _guess(texts: Sequence[str]) -> Task:
    known = _known(texts)
    numbers, side = read_bounds(known)
    text = np.isnan(numbers)
    # '<5' and '>5' alone are two classes
    if text.sum() * 2 > len(known) or bool((text | (side != 0)).all()):
        return "classification"
    return "classification" if _two_whole(numbers) and not side.any() else "regression"


def _two_whole(numbers: Values) -> bool:
    """Whether there are exactly two different values, both whole numbers; NaN is a value."""
    different = np.unique(numbers)
    return different.size == 2 and bool(np.all(different == np.round(different)))


def _numbers(
    texts: Sequence[str], where: Callable[[int], str], *, positive: bool
) -> tuple[Values, NDArray[np.int8]]:
    numbers, side = read_bounds(texts)
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
    for row in np.flatnonzero(numbers < _SMALLEST).tolist() if positive else ():
        raise InputError(
            f"{where(row)}, but --log-target needs positive numbers (from {_SMALLEST:g} on): leave "
            "the cell empty, or leave out --log-target."
        )
    return numbers, side


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


def _classes(name: str, texts: Sequence[str], source: str) -> tuple[str, ...]:
    known = _known(texts)
    labels = sorted({_label(text) for text in set(known)})
    numbers = to_numbers(labels)
    if not np.isnan(numbers).any():
        labels = [labels[i] for i in np.argsort(numbers, kind="stable")]
    if len(labels) == 1:
        raise InputError(
            f"{source}: target '{name}' has only one class, '{shown(labels[0])}': "
            "choose a column with at least two."
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
