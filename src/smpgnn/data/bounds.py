"""Read numbers, and bounds such as '>10000', from the cells of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

_SIGNS = {">": 1, ">=": 1, "≥": 1, "<": -1, "<=": -1, "≤": -1}
_BOUND = re.compile(r"(>=|<=|[<>≤≥])\s*(.*)", re.DOTALL)
#: How a bound is shown, by its side.
SHOWN = {1: ">", -1: "<"}


def to_numbers(texts: Sequence[str]) -> Values:
    """The texts as numbers, NaN if they are none."""
    import pandas as pd

    numbers = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce")
    return cast(Values, numbers.to_numpy(np.float64))


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
