"""Read the weights of rows in the loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from smpgnn.data.targets import place
from smpgnn.errors import InputError, shown

if TYPE_CHECKING:
    import pandas as pd

#: Larger weights are surely mistakes; their sums would not fit into float32.
_LARGEST = 1e9


def read_weights(column: pd.Series[Any], source: str) -> Tensor:
    """The weights in a column, [rows, 1]: numbers from 0 on, one in each row.

    Messages name rows by the index of the column.
    """
    import pandas as pd

    numbers = pd.to_numeric(column.astype(object), errors="coerce").to_numpy(np.float64)
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers <= _LARGEST)))
    if wrong.size:
        row = int(wrong[0])
        cell = column.iloc[row]
        text = "missing" if pd.isna(cell) else f"'{shown(str(cell))}'"
        raise InputError(
            f"{source}, {place(column, row)}: the weight '{column.name}' is {text}, but must be a "
            f"number from 0 to {_LARGEST:g}."
        )
    return torch.tensor(numbers).unsqueeze(1)
