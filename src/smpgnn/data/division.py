"""Divide rows into parts of given shares, for cross-validation and calibration.

Unlike `splits`, which fills train, validation and test one after the other, parts may have any
number and equal shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from smpgnn.data.splits import Rows, group_rows
from smpgnn.errors import InputError


@dataclass(frozen=True, eq=False)
class Divider:
    """What rows are divided by.

    Args:
        groups: [n] groups that stay together, as of `group_rows`.
        labels: [n] classes, which every part has in equal shares; NaN: unknown; None: no classes.
        by_size: large groups first, as for scaffolds and clusters, else in random order.
        what: the name of the groups in messages.
    """

    groups: Rows
    labels: NDArray[np.float64] | None = None
    by_size: bool = False
    what: str = "molecules"

    def divide(self, rows: Rows, shares: Sequence[float], seed: int) -> Rows:
        """The part of each of these rows, [r].

        Groups are dealt in random order, class by class or by size: each to the part that is the
        least full for its share.
        """
        groups = group_rows(self.groups[rows].tolist())
        counts = np.bincount(groups)
        order = np.random.default_rng(seed).permutation(counts.size)
        if self.by_size:
            order = order[np.argsort(-counts[order], kind="stable")]
        elif self.labels is not None:
            labels = self._labels(groups, self.labels[rows])
            order = order[np.argsort(labels[order], kind="stable")]
        share, full = np.asarray(shares, dtype=np.float64), np.zeros(len(shares))
        part = np.empty(counts.size, dtype=np.int64)
        for group in order.tolist():
            chosen = int(np.argmin((full + counts[group] / 2) / share))
            part[group] = chosen
            full[chosen] += counts[group]
        if not full.all():
            raise InputError(
                f"{len(rows)} rows with {counts.size} {self.what} are too few for {len(shares)} "
                "parts: give more rows, or fewer folds."
            )
        return part[groups]

    @staticmethod
    def _labels(groups: Rows, labels: NDArray[np.float64]) -> NDArray[np.float64]:
        """The class of each group, that of its first labelled row; NaN if it has none."""
        found = np.full(int(groups.max()) + 1, np.nan)
        known = ~np.isnan(labels)
        found[groups[known][::-1]] = labels[known][::-1]
        return found
