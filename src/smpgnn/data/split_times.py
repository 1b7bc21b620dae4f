"""Read a column of dates or numbers, by which rows are split in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smpgnn.errors import InputError, shown


def read_times(
    values: Sequence[Any],
    *,
    source: str = "the time column",
    place: Callable[[int], str] = lambda row: f"row {row + 1}",
) -> NDArray[np.float64]:
    """Numbers, or dates such as 2024-03-31 or 2024-03-31T12:30 (ISO 8601), as float64, [n].

    Other forms of dates are refused: 03/04/2024 has two meanings. `source` and `place` name the
    column and a row in messages.
    """
    import pandas as pd

    column = pd.Series(list(values), dtype=object)
    missing = column.isna().to_numpy()
    texts = pd.Series(
        ["" if gap else str(v).strip() for v, gap in zip(values, missing, strict=True)],
        dtype=object,
    )
    numbers = pd.to_numeric(texts, errors="coerce").to_numpy(np.float64, copy=True)
    numbers[~np.isfinite(numbers)] = np.nan
    if not np.isnan(numbers).any():
        return numbers
    dates = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=True)
    if not dates.isna().any():
        return np.asarray(dates.astype("int64"), dtype=np.float64)
    # Of neither kind: name the first row that is unlike most.
    of_dates = int(dates.notna().sum()) > int((~np.isnan(numbers)).sum())
    wrong = dates.isna().to_numpy() if of_dates else np.isnan(numbers)
    row = int(np.flatnonzero(wrong)[0])
    found = f"'{shown(texts[row])}'" if texts[row] else "empty"
    kind = "a date such as 2024-03-31" if of_dates else "a number, or all dates like 2024-03-31"
    raise InputError(f"{source}, {place(row)}: the time is {found}, but must be {kind}.")
