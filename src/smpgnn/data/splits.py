"""Split rows into training, validation and test: random, stratified, by time, group or column.

Splits of molecules, by scaffold or cluster, are in `molecule_splits`.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.data.columns import as_column, place, texts_of
from smpgnn.data.tables import listing
from smpgnn.errors import InputError, shown

if TYPE_CHECKING:
    from smpgnn.data.columns import Column

#: An index per row.
Rows = NDArray[np.int64]
FRACTIONS = (0.8, 0.1, 0.1)
PARTS = ("train", "val", "test")
_NAMES = {
    name: number
    for number, names in enumerate(("train training", "val valid validation dev", "test testing"))
    for name in names.split()
}


@dataclass(frozen=True, eq=False)
class Split:
    """Ascending row indices of the three splits; each row is in exactly one."""

    train: Tensor
    val: Tensor
    test: Tensor

    def __iter__(self) -> Iterator[Tensor]:
        return iter((self.train, self.val, self.test))


def random_split(
    n: int, fractions: Sequence[float] = FRACTIONS, seed: int = 0, groups: Rows | None = None
) -> Split:
    """Shuffle the rows and split them by the fractions; each split gets at least one row.

    Args:
        n: number of rows.
        fractions: of training, validation and test rows.
        seed: of the shuffle.
        groups: [n] the group of each row from 0, as of `group_rows`; groups are not divided.
    """
    sizes = _sizes(n, _checked(fractions))
    groups = np.arange(n) if groups is None else groups
    counts = np.bincount(groups)
    order = np.random.default_rng(seed).permutation(counts.size)
    what = f"{n} rows in {counts.size} groups"
    return _dealt(groups, order, _filled(counts[order], sizes), what)


def stratified_split(
    labels: Sequence[Any] | Tensor,
    fractions: Sequence[float] = FRACTIONS,
    seed: int = 0,
    groups: Rows | None = None,
) -> Split:
    """Split each class by the fractions, at least one row per split if it has three rows.

    A class with two rows has one in training and the other in test or validation, alternately; a
    class with one row is in training. Rows without a label (NaN, None) form a separate class.
    With `groups` [n], as of `random_split`, a group has the class of its first labelled row.
    """
    fractions = _checked(fractions)
    values = labels.flatten().tolist() if isinstance(labels, Tensor) else list(labels)
    groups = np.arange(len(values)) if groups is None else groups
    label: dict[int, Any] = {}
    for group, value in zip(groups.tolist(), values, strict=True):
        if label.get(group) is None:
            label[group] = None if _missing(value) else value
    classes: dict[Any, list[int]] = {}
    for group, value in label.items():
        classes.setdefault(value, []).append(group)
    random, counts = np.random.default_rng(seed), np.bincount(groups)
    part = np.zeros(counts.size, dtype=np.int64)
    pairs = 0
    for members in classes.values():
        shuffled = random.permutation(members)
        if len(members) >= 3:
            sizes = _sizes(int(counts[shuffled].sum()), fractions)
            part[shuffled] = _filled(counts[shuffled], sizes)
        elif len(members) == 2:
            part[shuffled[1]] = 2 - pairs % 2
            pairs += 1
    return _split(part[groups], f"{len(values)} rows in {len(classes)} classes")


def quantile_bins(values: Tensor, fractions: Sequence[float] = FRACTIONS) -> Tensor:
    """Classes for `stratified_split` of a regression target: at most ten bins of equal size.

    The smallest split gets about one row of each bin. Unknown values (NaN) remain NaN.

    Shapes: values and result [n].
    """
    known = values[~values.isnan()].double()
    count = max(1, min(10, int(known.numel() * min(_checked(fractions)))))
    inner = torch.arange(1, count, dtype=torch.float64) / count
    edges = torch.from_numpy(np.quantile(known.numpy(), inner.numpy()))
    bins = torch.searchsorted(edges, values.double().contiguous(), right=True).double()
    return torch.where(values.isnan(), torch.nan, bins)


def time_split(
    times: NDArray[np.float64],
    fractions: Sequence[float] = FRACTIONS,
    seed: int = 0,
    groups: Rows | None = None,
) -> Split:
    """Split by time: the oldest rows are for training, the newest for test.

    Rows of equal time are in random order. With `groups` [n], as of `random_split`, all rows of a
    group have its earliest time.

    Shapes: times [n].
    """
    sizes = _sizes(len(times), _checked(fractions))
    groups = np.arange(len(times)) if groups is None else groups
    counts = np.bincount(groups)
    what = f"{len(times)} rows in {counts.size} groups"
    if counts.size < 3:
        return _split(np.zeros_like(groups), what)
    earliest = np.full(counts.size, np.inf)
    np.minimum.at(earliest, groups, times)
    shuffled = np.random.default_rng(seed).permutation(counts.size)
    order = shuffled[np.argsort(earliest[shuffled], kind="stable")]
    ends = counts[order].cumsum()
    limits = np.searchsorted(ends, np.cumsum(sizes)[:2], side="right")
    train = int(np.clip(limits[0], 1, counts.size - 2))
    val = int(np.clip(limits[1], train + 1, counts.size - 1)) - train
    part = np.repeat(np.arange(3), (train, val, counts.size - train - val))
    return _dealt(groups, order, part, what)


def cluster_split(
    groups: Rows, fractions: Sequence[float] = FRACTIONS, seed: int = 0, *, what: str
) -> Split:
    """Split by groups of similar rows, so that test groups are new; `what` names the groups.

    Groups are assigned from the largest to the smallest, groups of equal size in random order: each
    to the first of train, validation and test with enough capacity, or to train if none has.

    Shapes: groups [n], from 0.
    """
    sizes, counts = _sizes(len(groups), _checked(fractions)), np.bincount(groups)
    shuffled = np.random.default_rng(seed).permutation(counts.size)
    order = shuffled[np.argsort(-counts[shuffled], kind="stable")]
    what = f"{len(groups)} molecules with {counts.size} {what}"
    return _dealt(groups, order, _filled(counts[order], sizes), what)


def group_rows(keys: Iterable[Hashable]) -> Rows:
    """The group of each row, where equal keys are a group; groups count in order of appearance."""
    number: dict[Hashable, int] = {}
    return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.int64)


def given_split(values: Column, source: str = "the split column") -> Split:
    """The split given by a column: train, val (valid, validation, dev) or test, in any case.

    There may be no test rows.
    """
    column = as_column(values)
    part = np.empty(len(column), dtype=np.int64)
    for row, text in enumerate(texts_of(column)):
        if text.casefold() not in _NAMES:
            found = f"'{shown(text)}'" if text else "empty"
            raise InputError(
                f"{source}, {place(column, row)}: the split is {found}, but must be 'train', "
                "'val' or 'test'."
            )
        part[row] = _NAMES[text.casefold()]
    split = _split(part)
    for name, rows in zip(PARTS, split, strict=True):
        if rows.numel() == 0 and name != "test":
            raise InputError(f"{source} has no row '{name}': mark some rows as '{name}'.")
    return split


def _checked(fractions: Sequence[float]) -> tuple[float, float, float]:
    given = tuple(float(f) for f in fractions)
    if len(given) != 3 or not all(f > 0 for f in given) or abs(sum(given) - 1) > 1e-6:
        raise InputError(
            f"The fractions are {listing(fractions)}, but must be three positive numbers that sum "
            "to 1."
        )
    return given


def _sizes(n: int, fractions: Sequence[float]) -> tuple[int, int, int]:
    """Rows of each split; validation and test are rounded, but have at least one."""
    if n < 3:
        raise InputError(f"{n} rows are too few for three splits: give at least three.")
    val = min(max(1, round(n * fractions[1])), n - 2)
    test = min(max(1, round(n * fractions[2])), n - 1 - val)
    return n - val - test, val, test


def _filled(counts: Rows, sizes: tuple[int, int, int]) -> Rows:
    """The split of each group: the first with enough capacity, or train if none has.

    No split stays empty if there are three groups: it gets the smallest group of a split that has
    several, all groups assigned from the largest to the smallest.

    Shapes: counts [G], the rows of each group; result [G].
    """
    if bool((counts == 1).all()):
        return np.repeat(np.arange(3), sizes)
    part = _assigned(counts, sizes)
    if np.unique(part).size == 3:
        return part
    order = np.argsort(-counts, kind="stable")
    part[order] = _assigned(counts[order], sizes)
    for empty in range(3):
        of_part = np.bincount(part, minlength=3)
        if of_part[empty] == 0 and of_part.max() > 1:
            several = np.flatnonzero(of_part[part] > 1)
            part[several[np.argmin(counts[several])]] = empty
    return part


def _assigned(counts: Rows, sizes: tuple[int, int, int]) -> Rows:
    """Each group, in order, in the first split with enough capacity left, or in train."""
    capacity, part = list(sizes), np.zeros(counts.size, dtype=np.int64)
    for group, count in enumerate(counts.tolist()):
        part[group] = next((p for p in range(3) if count <= capacity[p]), 0)
        capacity[part[group]] -= count
    return part


def _dealt(groups: Rows, order: Rows, part: Rows, what: str) -> Split:
    """The split in which the groups, in this order, belong to these parts."""
    return _split(part[np.argsort(order)][groups], what)


def _split(part: NDArray[Any], what: str = "") -> Split:
    """The rows of each split, given the split of each row; `what` names the rows in messages."""
    split = Split(*(torch.from_numpy(np.flatnonzero(part == p)) for p in range(3)))
    for name, rows in zip(PARTS, split, strict=True):
        if what and rows.numel() == 0:
            raise InputError(
                f"{what} leave the split '{name}' empty: give more rows or use a random split."
            )
    return split


def _missing(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # comparing pandas' NA gives NA
        return True
    except ValueError:  # comparing arrays gives an array
        return False
