"""Rows divided into parts of given shares, groups kept together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smpgnn.data.division import Divider
from smpgnn.errors import InputError


@given(
    st.lists(st.integers(0, 30), min_size=40, max_size=120),
    st.integers(2, 5),
    st.booleans(),
    st.integers(0, 9),
)
def test_groups_stay_together_and_parts_are_equal_within_the_largest_group(
    groups: list[int], parts: int, by_size: bool, seed: int
) -> None:
    keys = np.array(groups)
    sizes = np.bincount(keys)
    if np.unique(keys).size < 3 * parts:
        return
    part = Divider(keys, by_size=by_size).divide(np.arange(len(keys)), [1.0] * parts, seed)
    for key in set(groups):
        assert np.unique(part[keys == key]).size == 1
    full = np.bincount(part, minlength=parts)
    assert full.sum() == len(keys)
    assert full.max() - full.min() <= 2 * sizes.max()


def test_shares_are_kept_and_seeds_differ() -> None:
    divider, rows = Divider(np.arange(1000)), np.arange(1000)
    part = divider.divide(rows, [0.9, 0.1], 0)
    assert np.bincount(part).tolist() == [900, 100]
    assert (part == divider.divide(rows, [0.9, 0.1], 0)).all()
    assert (part != divider.divide(rows, [0.9, 0.1], 1)).any()


def test_each_part_has_its_share_of_a_rare_class() -> None:
    labels = np.zeros(500)
    labels[::20] = 1  # 25 rows
    labels[3] = np.nan
    divider = Divider(np.arange(500), labels)
    part = divider.divide(np.arange(500), [1.0] * 5, 0)
    assert np.bincount(part).tolist() == [100] * 5
    assert np.bincount(part[labels == 1]).tolist() == [5] * 5


def test_some_of_the_rows_only() -> None:
    some = np.arange(0, 90, 3)
    part = Divider(np.arange(90)).divide(some, [2.0, 1.0], 0)
    assert len(part) == 30
    assert np.bincount(part).tolist() == [20, 10]


def test_too_few_groups_are_refused() -> None:
    with pytest.raises(InputError, match="6 rows with 2 molecules are too few for 3 parts"):
        Divider(np.array([0, 0, 0, 1, 1, 1])).divide(np.arange(6), [1.0] * 3, 0)
