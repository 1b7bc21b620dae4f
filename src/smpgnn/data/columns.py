"""Read the columns of a table: texts, numbers, bounds, times and weights.

Messages name a cell by its row: the name of the column's index and the row's entry.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.errors import InputError, shown

if TYPE_CHECKING:
    import pandas as pd

    Column = Sequence[Any] | pd.Series[Any]

Values = NDArray[np.float64]

_SIGNS = {">": 1, ">=": 1, "≥": 1, "<": -1, "<=": -1, "≤": -1}
_BOUND = re.compile(r"(>=|<=|[<>≤≥])\s*(.*)", re.DOTALL)
#: How a bound is shown, by its side.
SHOWN = {1: ">", -1: "<"}
#: Larger weights are surely mistakes; their sums would not fit into float32.
_LARGEST_WEIGHT = 1e9


def place(frame: pd.DataFrame | pd.Series[Any], row: int) -> str:
    """The name of a row in messages."""
    return f"{frame.index.name or 'row'} {frame.index[row]}"


def as_column(values: Column) -> pd.Series[Any]:
    """A column as it is, or a list as one whose rows count from 1."""
    import pandas as pd

    if isinstance(values, pd.Series):
        return values
    return pd.Series(values, pd.RangeIndex(1, len(values) + 1), dtype=object)


def texts_of(column: pd.Series[Any]) -> list[str]:
    """Each cell as stripped text, '' if missing."""
    missing = column.isna().to_numpy()
    return ["" if gap else str(v).strip() for v, gap in zip(column.tolist(), missing, strict=True)]


def to_numbers(values: Column) -> Values:
    """The cells as numbers, NaN if they are none."""
    import pandas as pd

    numbers = pd.to_numeric(pd.Series(values, dtype=object), errors="coerce")
    found: Values = numbers.to_numpy(np.float64)
    return found


def read_bounds(texts: Sequence[str]) -> tuple[Values, NDArray[np.int8]]:
    """The numbers in the texts, NaN if they are none, and the side of each.

    The side of '>5', '>=5' and '≥ 5' is 1: the true value is at least 5. That of '<5' is -1, and
    that of a number is 0.
    """
    plain, side = list(texts), np.zeros(len(texts), dtype=np.int8)
    for row, text in enumerate(texts):
        found = _BOUND.fullmatch(text)
        if found:
            side[row], plain[row] = _SIGNS[found[1]], found[2]
    numbers = to_numbers(plain)
    return numbers, np.where(np.isnan(numbers), 0, side).astype(np.int8)


def read_times(values: Column, source: str = "the time column") -> Values:
    """Numbers, or dates such as 2024-03-31 or 2024-03-31T12:30 (ISO 8601), as numbers.

    Other forms of dates are refused: 03/04/2024 has two meanings.
    """
    import pandas as pd

    column = as_column(values)
    texts = texts_of(column)
    numbers = to_numbers(texts)
    number = np.isfinite(numbers)
    if number.all():
        return numbers
    cells = pd.Series(texts, dtype=object)
    dates = pd.to_datetime(cells, format="ISO8601", errors="coerce", utc=True)
    date = dates.notna().to_numpy()
    if date.all():
        return np.asarray(dates.astype("int64"), dtype=np.float64)
    # Of neither kind: name the first row that is unlike most.
    of_dates = date.sum() > number.sum()
    row = int(np.argmin(date if of_dates else number))
    found = f"'{shown(texts[row])}'" if texts[row] else "empty"
    kind = "a date such as 2024-03-31" if of_dates else "a number, or all dates like 2024-03-31"
    raise InputError(f"{source}, {place(column, row)}: the time is {found}, but must be {kind}.")


def read_weights(column: pd.Series[Any], source: str) -> Tensor:
    """The weights of rows in the loss, [rows, 1]: numbers from 0 on, one in each row."""
    numbers = to_numbers(column)
    right = (numbers >= 0) & (numbers <= _LARGEST_WEIGHT)
    if not right.all():
        row = int(np.argmin(right))
        text = texts_of(column)[row]
        cell = f"'{shown(text)}'" if text else "missing"
        raise InputError(
            f"{source}, {place(column, row)}: the weight '{column.name}' is {cell}, but must be a "
            f"number from 0 to {_LARGEST_WEIGHT:g}."
        )
    return torch.tensor(numbers).unsqueeze(1)
