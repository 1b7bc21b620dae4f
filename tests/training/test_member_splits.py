"""Folds of each kind of split, and the rows for calibration; nothing is trained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_members import NONE, molecules
from small_runs import rings

from smpgnn.config.options import GraphsOptions, MoleculesOptions
from smpgnn.data.molecule_splits import butina_groups, scaffold_groups
from smpgnn.errors import InputError
from smpgnn.training.from_python import prepare_python
from smpgnn.training.run_data import FoldTable, RunData, SplitTable

FRAME = molecules(80)
FRAME["part"] = [f"batch {row % 4}" for row in range(len(FRAME))]
FRAME["day"] = range(len(FRAME))
_RINGS = (
    "c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCOC1", "c1ccsc1", "C1CCNCC1", "c1ccc2ccccc2c1",
    "C1CC1", "c1ccoc1", "C1CCSC1", "n1ccncc1", "O1CCOCC1",
)  # fmt: skip
DIVERSE = pd.DataFrame(
    {"smiles": [ring + "C" * length for ring in _RINGS for length in range(8)]}
).assign(size=range(96), day=range(96))


def table(frame: pd.DataFrame = FRAME, **options: Any) -> SplitTable | FoldTable:
    given = MoleculesOptions(**{"targets": ("size",), **options})
    return prepare_python(given, frame, NONE, None).split_table()


def folds(**options: Any) -> list[SplitTable]:
    found = table(**options)
    assert isinstance(found, FoldTable)
    return list(found.splits.values())


def test_notes_say_which_rows_the_numbers_of_graphs_are() -> None:
    def notes(**options: Any) -> tuple[str, ...]:
        given = MoleculesOptions(targets=("size",), **options)
        return prepare_python(given, FRAME, NONE, None).notes

    assert notes(folds=4)[-1] == "Folds: 4; the line above is about the first."
    held = table(calibration=0.2)
    assert isinstance(held, SplitTable)
    count = len(FRAME) - sum(len(held.of(part).row) for part in ("train", "val", "test"))
    assert notes(calibration=0.2)[-1].startswith(f"Calibration: {count} more rows")


@pytest.mark.parametrize(
    ("split", "groups"), [("scaffold", scaffold_groups), ("butina", butina_groups)]
)
def test_groups_are_on_one_side_of_every_fold(split: str, groups: Any) -> None:
    group = groups(DIVERSE["smiles"].tolist())
    found = table(DIVERSE, split=split, folds=3)
    assert isinstance(found, FoldTable)
    for one in found.splits.values():
        sides = [set(group[one.of(part).row.numpy()]) for part in ("train", "val", "test")]
        assert all(sides)
        assert not sides[0] & sides[1] | sides[0] & sides[2] | sides[1] & sides[2]


def test_classes_have_equal_shares_in_every_fold() -> None:
    kinds = (FRAME["polar"] == "yes").to_numpy()
    share = kinds.mean()
    for one in folds(folds=4, targets=("polar",)):
        for part in ("train", "val", "test"):
            rows = one.of(part).row.numpy()
            assert kinds[rows].mean() == pytest.approx(share, abs=1.5 / len(rows))


def test_validation_rows_are_as_many_as_the_fractions_say() -> None:
    for one in folds(folds=4, split_fractions=(0.6, 0.2, 0.2)):
        rest = len(one.of("train").row) + len(one.of("val").row)
        assert len(one.of("val").row) == pytest.approx(rest / 4, abs=2)


def test_folds_of_a_column() -> None:
    for number, one in enumerate(folds(folds=4, split_column="part")):
        assert set(FRAME["part"].iloc[one.of("test").row.numpy()]) == {f"batch {number}"}
    with pytest.raises(InputError, match="'part': has 4 different values, but --folds is 5"):
        folds(folds=5, split_column="part")
    gap = FRAME.assign(part=FRAME["part"].where(FRAME.index != 7))
    with pytest.raises(InputError, match="column 'part', row 8: has no fold"):
        table(gap, folds=4, split_column="part")


def test_repeats_differ_and_a_seed_repeats_them() -> None:
    one = table(folds=3, repeats=2)
    assert isinstance(one, FoldTable)
    first, second = one.splits[1, 1], one.splits[2, 1]
    assert set(first.of("test").row.tolist()) != set(second.of("test").row.tolist())
    assert one.to_csv() == table(folds=3, repeats=2).to_csv()
    assert one.to_csv() != table(folds=3, repeats=2, seed=1).to_csv()


@pytest.mark.parametrize("split", ["random", "stratified", "scaffold", "time"])
def test_rows_for_calibration_come_from_training(split: str) -> None:
    options = {"split": split, "split_time": "day" if split == "time" else ""}
    whole, plain = table(DIVERSE, **options, calibration=0.1), table(DIVERSE, **options)
    assert isinstance(whole, SplitTable)
    assert isinstance(plain, SplitTable)
    for part in ("val", "test"):
        assert whole.of(part).row.tolist() == plain.of(part).row.tolist()
    taken = set(whole.of("calibration").row.tolist())
    assert taken | set(whole.of("train").row.tolist()) == set(plain.of("train").row.tolist())
    assert len(taken) == pytest.approx(0.1 * len(DIVERSE), abs=8 if split == "scaffold" else 2)


def test_a_share_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"--calibration 0\.9: leaves no row for training"):
        table(calibration=0.9)


def test_more_folds_than_molecules_are_refused() -> None:
    with pytest.raises(InputError, match="are too few for 200 parts"):
        folds(folds=200)


def test_folds_beside_another_split_are_refused() -> None:
    parts = {"train": range(80), "val": range(80, 84), "test": range(84, 88)}
    options = MoleculesOptions(targets=("size",), folds=3)
    with pytest.raises(InputError, match="folds and train, val, test both say how to split"):
        prepare_python(options, FRAME, parts, None)
    (graph,) = rings(1)
    graph.y = graph.x.sum(1)
    graph.train_mask = graph.y > 0
    graph.test_mask = ~graph.train_mask
    with pytest.raises(InputError, match="folds=3 and train_mask both say how to split"):
        prepare_python(GraphsOptions(level="node", folds=3), [graph], NONE, None)
    with pytest.raises(InputError, match="--split scaffold: only molecules have scaffolds"):
        prepare_python(GraphsOptions(split="scaffold", folds=3), rings(12), NONE, None)


def test_a_changed_split_from_python_is_refused_and_the_same_one_is_not(tmp_path: Path) -> None:
    parts = {"train": range(70), "val": range(70, 78), "test": range(78, 88)}
    options = MoleculesOptions(targets=("size",), calibration=0.1)
    prepared = prepare_python(options, FRAME, parts, None)
    saved = RunData(prepared.content("").fingerprint, prepared.split_table())
    again = prepare_python(options, FRAME, parts, saved)
    assert again.split_table() is saved.splits
    with pytest.raises(InputError, match="differ from those of the run"):
        prepare_python(options, FRAME, {**parts, "val": range(71, 78)}, saved)
