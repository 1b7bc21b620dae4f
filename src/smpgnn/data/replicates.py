"""Rows of the same molecule: one row instead of several, and rows that contradict each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from smpgnn.data.splits import Rows
from smpgnn.data.targets import Targets


@dataclass(frozen=True, eq=False)
class Merged:
    """One row per molecule: its first row, targets and weight."""

    first: Rows
    targets: Targets
    weight: Tensor | None


def merge_replicates(groups: Rows, targets: Targets, weight: Tensor | None = None) -> Merged:
    """Merge the rows of each group.

    A number is the mean of the known numbers, with `log10` their geometric mean. Bounds count only
    where no number is known: the tightest one, or none if they have both directions. A class is the
    most frequent one; it is unknown if several are. A weight is the mean of the weights.

    Shapes: groups [rows], from 0 in order of appearance; weight [rows, 1].
    """
    first = np.unique(groups, return_index=True)[1]
    values = np.empty((first.size, len(targets.spec.names)))
    side = np.zeros(values.shape, dtype=np.int8)
    for column, kind in enumerate(targets.spec.kinds):
        given = targets.values[:, column].numpy()
        if kind == "classification":
            values[:, column] = _most_frequent(groups, given)
            continue
        sides = np.zeros(len(given), np.int8)
        if targets.side is not None:
            sides = targets.side[:, column].numpy()
        exact = np.where(sides == 0, given, np.nan)
        if targets.spec.log10:
            values[:, column] = 10 ** _means(groups, np.log10(exact))
        else:
            values[:, column] = _means(groups, exact)
        for group in np.unique(groups[sides != 0]):
            mine = groups == group
            directions = np.unique(sides[mine & (sides != 0)])
            if np.isnan(values[group, column]) and directions.size == 1:
                bounds = given[mine & (sides != 0)]
                values[group, column] = bounds.max() if directions[0] > 0 else bounds.min()
                side[group, column] = directions[0]
    bounds_left = torch.from_numpy(side) if side.any() else None
    merged = Targets(torch.from_numpy(values), targets.spec, bounds_left)
    mean = None if weight is None else torch.from_numpy(_means(groups, weight[:, 0].numpy()))
    return Merged(first, merged, None if mean is None else mean.unsqueeze(1))


def conflicts(groups: Rows, targets: Targets) -> dict[str, list[Rows]]:
    """The rows of each molecule whose known classes differ, by target."""
    found: dict[str, list[Rows]] = {}
    for column, (name, kind) in enumerate(zip(targets.spec.names, targets.spec.kinds, strict=True)):
        if kind != "classification":
            continue
        given = targets.values[:, column].numpy()
        known = np.flatnonzero(~np.isnan(given))
        pairs = np.unique(np.stack([groups[known], given[known].astype(np.int64)]), axis=1)[0]
        several = np.flatnonzero(np.bincount(pairs, minlength=1) > 1)
        if several.size:
            found[name] = [known[groups[known] == group] for group in several]
    return found


def _means(groups: Rows, values: Rows) -> Rows:
    """The mean of the known values of each group; NaN if there is none."""
    known = ~np.isnan(values)
    size = groups.max() + 1
    count = np.bincount(groups[known], minlength=size)
    total = np.bincount(groups[known], values[known], minlength=size)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _most_frequent(groups: Rows, values: Rows) -> Rows:
    """The most frequent class of each group; NaN if there are several, or none."""
    known = ~np.isnan(values)
    found = np.full(groups.max() + 1, np.nan)
    if known.any():
        classes = int(values[known].max()) + 1
        cells = groups[known] * classes + values[known].astype(np.int64)
        counts = np.bincount(cells, minlength=found.size * classes).reshape(-1, classes)
        best = counts.max(1)
        clear = (best > 0) & ((counts == best[:, None]).sum(1) == 1)
        found[clear] = counts.argmax(1)[clear]
    return found
