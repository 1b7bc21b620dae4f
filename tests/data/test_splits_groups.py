"""Splits of rows in groups: no group is divided; time-ordered and stratified splits."""

from __future__ import annotations

import datetime
import math

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from smpgnn.data.columns import read_times
from smpgnn.data.splits import (
    Rows,
    Split,
    cluster_split,
    group_rows,
    quantile_bins,
    random_split,
    stratified_split,
    time_split,
)
from smpgnn.errors import InputError

KEYS = st.lists(st.integers(0, 12), min_size=3, max_size=60)


def assert_whole_groups(split: Split, groups: Rows) -> None:
    """Each row is in one split, no split is empty, and each group is in one split."""
    assert torch.cat(list(split)).sort().values.tolist() == list(range(len(groups)))
    parts = [set(groups[part.numpy()].tolist()) for part in split]
    assert all(parts)
    assert sum(map(len, parts)) == len(set(groups.tolist()))


def test_group_rows() -> None:
    assert group_rows(["b", "a", "b", "c"]).tolist() == [0, 1, 0, 2]


@given(KEYS, st.integers(0, 9))
def test_groups_stay_whole(keys: list[int], seed: int) -> None:
    groups = group_rows(keys)
    assume(groups.max() >= 2)
    labels = ["same"] * len(keys)
    for split in (
        random_split(len(keys), seed=seed, groups=groups),
        stratified_split(labels, seed=seed, groups=groups),
        cluster_split(groups, seed=seed, what="groups"),
        time_split(np.array(keys, dtype=float) % 5, seed=seed, groups=groups),
    ):
        assert_whole_groups(split, groups)


@given(st.integers(3, 200), st.integers(0, 9))
def test_groups_of_one_row_change_nothing(n: int, seed: int) -> None:
    alone = np.arange(n)
    labels = [row % 3 for row in range(n)]
    pairs = [(random_split(n, seed=seed), random_split(n, seed=seed, groups=alone))]
    if n >= 9:
        pairs.append(
            (
                stratified_split(labels, seed=seed),
                stratified_split(labels, seed=seed, groups=alone),
            )
        )
    for one, other in pairs:
        assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_sizes_with_many_duplicates() -> None:
    groups = np.repeat(np.arange(500), 2)
    split = random_split(1000, groups=groups)
    assert [part.numel() for part in split] == [800, 100, 100]
    with pytest.raises(InputError, match="6 rows in 2 groups leave the split"):
        random_split(6, groups=np.array([0, 0, 0, 1, 1, 1]))


def test_a_group_has_the_class_of_its_first_label() -> None:
    labels = [None, "a", "b", "b", "b", *["a"] * 7]
    groups = np.array([0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    split = stratified_split(labels, (0.34, 0.33, 0.33), groups=groups)
    assert_whole_groups(split, groups)
    assert all("b" in {labels[row] for row in part.tolist()} for part in split)


@given(st.lists(st.integers(0, 20), min_size=3, max_size=60), st.integers(0, 9))
def test_time_split_is_in_order(times: list[int], seed: int) -> None:
    split = time_split(np.array(times, dtype=float), seed=seed)
    train, val, test = ([times[row] for row in part.tolist()] for part in split)
    assert max(train) <= min(val)
    assert max(val) <= min(test)
    assert [len(train), len(val), len(test)] == [
        part.numel() for part in random_split(len(times), seed=seed)
    ]


def test_a_group_has_its_earliest_time() -> None:
    times = np.array([9.0, 1, 2, 3, 4, 5, 6, 7, 8, 0])
    groups = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 0])  # the newest row is also the oldest
    split = time_split(times, groups=groups)
    assert {0, 9} <= set(split.train.tolist())
    assert split.test.tolist() == [8]


def test_times() -> None:
    assert read_times([1, "2.5", 2019]).tolist() == [1, 2.5, 2019]
    days = ["2024-03-31", "2023-12-01T10:00", "2024-03-31 00:01", "2019"]
    assert np.argsort(read_times(days)).tolist() == [3, 1, 0, 2]
    zones = ["2024-03-31T12:00+02:00", "2024-03-31T11:00+00:00"]
    assert np.argsort(read_times(zones)).tolist() == [0, 1]
    kinds = [datetime.date(2024, 1, 2), pd.Timestamp("2024-01-01"), np.datetime64("2023-01-01")]
    assert np.argsort(read_times(kinds)).tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (["1", "2", "x"], "row 3: the time is 'x', but must be a number, or all dates"),
        (["2020-01-01", "03/04/2020", "2020-02-01"], "row 2: the time is '03/04/2020', but must"),
        (["2020-01-01", None, "2020-02-01"], "row 2: the time is empty, but must be a date such"),
        ([1.0, math.nan, 3.0], "row 2: the time is empty"),
        ([1.0, math.inf, 3.0], "row 2: the time is 'inf'"),
        (["2020-01-01", "2020-13-01", "2020-02-01"], "row 2: the time is '2020-13-01'"),
    ],
)
def test_times_that_cannot_be_read(values: list[object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_times(values)


def test_quantile_bins_balance_a_regression() -> None:
    values = torch.from_numpy(np.random.default_rng(0).lognormal(size=1000))
    values[:5] = torch.nan
    bins = quantile_bins(values)
    assert bins[:5].isnan().all()
    counts = bins[5:].long().bincount()
    assert counts.numel() == 10
    assert int(counts.max() - counts.min()) <= 1
    split = stratified_split(bins)
    shares = [bins[part].nan_to_num(-1).eq(9).double().mean().item() for part in split]
    assert shares == pytest.approx([0.1, 0.1, 0.1], abs=0.01)
    assert quantile_bins(torch.tensor([1.0, 2, 3])).tolist() == [0, 0, 0]
