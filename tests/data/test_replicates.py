"""Rows of one molecule: merged as pandas would, conflicts named."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from smpgnn.data.replicates import conflicts, merge_replicates
from smpgnn.data.splits import group_rows
from smpgnn.data.targets import Targets, parse_targets

ROWS = ["a", "b", "a", "c", "b", "a", "d", "c"]
GROUPS = group_rows(ROWS)


def targets(log10: bool = False, **columns: list[object]) -> Targets:
    return parse_targets(pd.DataFrame(columns), list(columns), log10=log10)


@pytest.mark.parametrize("log10", [False, True])
def test_numbers_are_averaged(log10: bool) -> None:
    values = [1.0, 2.5, 4.0, None, 10.0, None, 7.0, None]
    found = merge_replicates(GROUPS, targets(log10, y=values))
    given = pd.Series(values, dtype=float)
    expected = (np.log10(given) if log10 else given).groupby(ROWS).mean()
    expected = 10**expected if log10 else expected
    assert found.first.tolist() == [0, 1, 3, 6]
    np.testing.assert_allclose(found.targets.values[:, 0], expected.to_numpy())
    assert found.targets.side is None
    assert found.weight is None


def test_classes_are_the_most_frequent() -> None:
    made = targets(y=["x", "x", "z", None, "y", "x", "z", None])
    found = merge_replicates(GROUPS, made, torch.arange(8.0).unsqueeze(1))
    values = found.targets.values[:, 0]
    assert values[[0, 3]].tolist() == [0.0, 2.0]
    assert values[[1, 2]].isnan().all()  # as many x as y; none known
    assert found.weight is not None
    weights = pd.Series(range(8)).groupby(ROWS).mean()
    np.testing.assert_allclose(found.weight[:, 0], weights.to_numpy())


def test_bounds_count_where_no_number_is_known() -> None:
    made = targets(y=["1.5", ">5", ">9", ">3", ">7", "2.5", "4", "<8"])
    found = merge_replicates(GROUPS, made).targets
    assert found.values[[0, 1, 3], 0].tolist() == [2.0, 7.0, 4.0]  # b: the tighter bound
    assert found.values[2, 0].isnan()  # c: between two bounds
    assert found.side is not None
    assert found.side[:, 0].tolist() == [0, 1, 0, 0]
    made = targets(y=["<5", "1", "<4", "2.5", "3", "<6", "4", "9"])
    found = merge_replicates(GROUPS, made).targets
    assert found.side is not None
    assert (found.values[0, 0].item(), found.side[0, 0].item()) == (4.0, -1)


def test_conflicts_are_named() -> None:
    made = targets(
        y=["0", "1", "1", None, "1", "0", "0", "1"],
        z=["u", "v", "u", "w", None, "u", "v", "u"],
        size=[1.5, 2, 3, 4, 5, 6, 7, 8],
    )
    found = {name: [rows.tolist() for rows in groups] for name, groups in
             conflicts(GROUPS, made).items()}  # fmt: skip
    assert found == {"y": [[0, 2, 5]], "z": [[3, 7]]}
    assert conflicts(np.arange(8), made) == {}
