r"""Prediction intervals: split conformal, normalised by the spread of the members.

On rows that no member was trained or chosen on, the score of a row is its absolute residual divided
by its difficulty. The interval of a new row with prediction y and difficulty d is

.. math:: [y - q d, y + q d], \quad q \text{ the } \lceil (n + 1) p \rceil \text{-th smallest of } n
          \text{ scores},

which contains the target with probability at least p if the new row is exchangeable with those n
(Papadopoulos et al. 2002; Lei et al. 2018). The difficulty is the spread plus `floor`, or 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smpgnn.errors import InputError

Values = NDArray[np.float64]

#: The level at which normalised and constant intervals are compared.
LEVEL = 0.9
#: Floors that are compared, in mean spreads.
_FLOORS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Intervals:
    """Calibrated intervals of one target.

    Args:
        name: of the target.
        scores: of the calibration rows, ascending.
        floor: added to the spread of a row; None: the intervals have a constant width.
    """

    name: str
    scores: tuple[float, ...]
    floor: float | None = None

    def half_width(self, level: float, spread: Values) -> Values:
        """Half the width of the interval of each row, [R], given its spread [R]."""
        found: Values = self.quantile(level) * difficulty(spread, self.floor)
        return found

    def quantile(self, level: float) -> float:
        """The factor on the difficulty."""
        count, rank = len(self.scores), self.rank(level)
        if rank > count:
            need = math.ceil(level / (1 - level) - 1e-9)
            raise InputError(
                f"--interval {level:g}: needs {need} calibration rows of '{self.name}', but the "
                f"run has {count}: choose a lower level, or train with a larger --calibration or "
                "--folds."
            )
        return self.scores[max(rank, 1) - 1]

    def rank(self, level: float) -> int:
        """The place of the factor among the scores, from 1."""
        # (n + 1) p is a whole number for many usual p, but not in binary fractions
        return math.ceil((len(self.scores) + 1) * level - 1e-9)


def difficulty(spread: Values, floor: float | None) -> Values:
    """The difficulty of each row, [R]."""
    return np.ones_like(spread) if floor is None else spread + floor


def fit_intervals(
    name: str, residual: Values, spread: Values | None = None, floor: float | None = None
) -> Intervals:
    """Intervals from the residuals and spreads of calibration rows, both [n].

    With a `floor` (see `narrowest`) their width grows with the spread; otherwise it is constant.
    """
    scores = np.sort(np.abs(residual) / difficulty(residual if spread is None else spread, floor))
    return Intervals(name, tuple(scores.tolist()), floor)


def narrowest(residual: Values, spread: Values) -> float | None:
    """The floor with which intervals at `LEVEL` are the narrowest on average over these rows.

    None for a constant width: if no other is narrower, or if a row has no spread (NaN), as with a
    single model. Rows that also calibrate the intervals would make these too narrow, by as much as
    the choice adapts to them.
    """
    plain = fit_intervals("", residual)
    if not np.isfinite(spread).all() or not spread.any() or plain.rank(LEVEL) > len(residual):
        return None
    widths: dict[float | None, float] = {None: plain.quantile(LEVEL)}
    for share in _FLOORS:
        floor = share * float(spread.mean())
        fitted = fit_intervals("", residual, spread, floor)
        widths[floor] = float(fitted.half_width(LEVEL, spread).mean())
    return min(widths, key=lambda floor: widths[floor])
