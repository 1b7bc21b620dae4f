"""Which members a run has."""

from __future__ import annotations

from typing import Any

import pytest

from smpgnn.config.options import CyclesOptions, MoleculesOptions
from smpgnn.errors import InputError
from smpgnn.training.member_plan import members


def plan(**options: Any) -> list[tuple[str, int]]:
    return [(one.name, one.seed) for one in members(MoleculesOptions(**options))]


def test_names_seeds_and_folders() -> None:
    assert plan() == []
    assert plan(ensemble=2, seed=7) == [("member1", 7), ("member2", 8)]
    assert plan(calibration=0.1) == [("member1", 0)]
    assert plan(folds=2) == [("fold1", 0), ("fold2", 1)]
    assert [name for name, _ in plan(folds=2, repeats=2)] == [
        "fold1-repeat1", "fold2-repeat1", "fold1-repeat2", "fold2-repeat2",
    ]  # fmt: skip
    assert [name for name, _ in plan(folds=2, ensemble=2)] == [
        "fold1-member1", "fold1-member2", "fold2-member1", "fold2-member2",
    ]  # fmt: skip
    assert plan(ensemble=2, seed=2**32 - 1)[1] == ("member2", 0)
    assert members(CyclesOptions()) == ()


def test_a_member_is_an_ordinary_run() -> None:
    run = MoleculesOptions(folds=3, ensemble=2, jobs=4, output="run", epochs=7)
    one = members(run)[3]
    options = one.options(run)
    assert members(options) == ()
    assert (options.output, options.seed, options.epochs) == ("run/members/fold2-member2", 3, 7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"folds": 1}, "--folds 1: give 2 or more"),
        ({"repeats": 2}, "--repeats 2: repeats a cross-validation: add --folds"),
        ({"folds": 3, "calibration": 0.1}, "--calibration 0.1: the held-out folds"),
        ({"folds": 3, "split": "time", "split_time": "day"}, "--folds: with --split time"),
        ({"folds": 3, "repeats": 2, "split_column": "fold"}, "--repeats 2: a column gives"),
        ({"ensemble": 2, "devices": 2}, "each member trains on one device"),
    ],
)
def test_settings_that_contradict_each_other(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        members(MoleculesOptions(**options))
