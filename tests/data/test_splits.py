"""Splits: each row in exactly one split, reproducible, none empty."""

from __future__ import annotations

import math
from collections import Counter

import pandas as pd
import pytest
import torch
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from smpgnn.data.molecule_splits import molecule_split
from smpgnn.data.splits import Split, given_split, random_split, stratified_split
from smpgnn.errors import InputError

RINGS = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "c1ccc2ccccc2c1", "C1CC1", "c1ccsc1", "C1CCNC1", ""]


def assert_partition(split: Split, n: int) -> None:
    assert torch.cat(list(split)).sort().values.tolist() == list(range(n))
    for part in split:
        assert part.numel() > 0
        assert part.dtype == torch.long
        assert part.tolist() == sorted(part.tolist())


fractions = st.tuples(st.floats(0.05, 1), st.floats(0.05, 1), st.floats(0.05, 1)).map(
    lambda parts: tuple(part / sum(parts) for part in parts)
)


@given(st.integers(3, 400), fractions, st.integers(0, 99))
def test_random_split(n: int, parts: tuple[float, ...], seed: int) -> None:
    split = random_split(n, parts, seed)
    assert_partition(split, n)
    for part, fraction in zip(split, parts, strict=True):
        assert abs(part.numel() - n * fraction) <= 2
    again = random_split(n, parts, seed)
    assert all(torch.equal(a, b) for a, b in zip(split, again, strict=True))


def test_random_split_depends_on_the_seed() -> None:
    splits = [random_split(100, seed=seed) for seed in (0, 1)]
    assert [part.numel() for part in splits[0]] == [80, 10, 10]
    assert not torch.equal(splits[0].test, splits[1].test)


@given(st.lists(st.sampled_from("aaaabbc"), min_size=12, max_size=80), st.integers(0, 9))
def test_stratified_split(labels: list[str], seed: int) -> None:
    counts = Counter(labels)
    assume(max(counts.values()) >= 3)
    split = stratified_split(labels, seed=seed)
    assert_partition(split, len(labels))
    for label, count in counts.items():
        per_part = [sum(labels[row] == label for row in part.tolist()) for part in split]
        assert per_part[0] >= 1
        if count >= 3:
            assert min(per_part) >= 1


def test_stratified_split_of_a_tensor_with_gaps() -> None:
    assert_partition(stratified_split(["a", pd.NA, None] * 4), 12)
    labels = torch.tensor([[0.0], [1.0], [math.nan]] * 10)
    split = stratified_split(labels)
    assert_partition(split, 30)
    for part in split:
        assert {0.0, 1.0} <= set(labels[part, 0].tolist())


def test_pairs_go_to_test_and_validation_in_turn() -> None:
    split = stratified_split(["a", "a", "b", "b", "c"])
    assert_partition(split, 5)
    assert [part.numel() for part in split] == [3, 1, 1]
    with pytest.raises(InputError, match="3 rows in 2 classes leave the split 'val' empty"):
        stratified_split(["a", "a", "b"])


@given(
    st.lists(st.tuples(st.sampled_from(RINGS), st.integers(1, 4)), min_size=8, max_size=40),
    st.integers(0, 9),
)
def test_scaffold_split_keeps_scaffolds_together(rows: list[tuple[str, int]], seed: int) -> None:
    pytest.importorskip("rdkit")
    smiles = ["C" * size + ring for ring, size in rows]
    try:
        split = molecule_split("scaffold", smiles, (0.6, 0.2, 0.2), seed)
    except InputError:
        reject()  # too few scaffolds for three parts
    assert_partition(split, len(smiles))
    parts = [{rows[row][0] for row in part.tolist()} for part in split]
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]


def test_largest_scaffolds_go_to_train() -> None:
    pytest.importorskip("rdkit")
    smiles = ["C" * k + "c1ccccc1" for k in range(1, 9)] + ["CC1CC1", "CCC1CC1"]
    smiles += ["C1CCNC1", "CCO"]
    for seed in range(5):
        split = molecule_split("scaffold", smiles, (0.7, 0.15, 0.15), seed)
        assert split.train.tolist() == list(range(8))
        assert_partition(split, len(smiles))
    one, other = (molecule_split("scaffold", smiles, (0.7, 0.15, 0.15), seed) for seed in (3, 3))
    assert torch.equal(one.test, other.test)


def test_scaffolds_ignore_stereo_and_refuse_bad_rows() -> None:
    pytest.importorskip("rdkit")
    with pytest.raises(
        InputError, match="3 molecules with 1 scaffolds leave the split 'val' empty"
    ):
        molecule_split("scaffold", ["C[C@H]1CCCO1", "C[C@@H]1CCCO1", "C1CCCO1"])
    with pytest.raises(InputError, match="Row 2 cannot be split because the text is not a SMILES"):
        molecule_split("scaffold", ["C", "C1CC", "O"])


def test_given_split() -> None:
    split = given_split(["train", "Valid", " TEST ", "validation", "Training", "val"])
    assert [part.tolist() for part in split] == [[0, 4], [1, 3, 5], [2]]
    with pytest.raises(InputError, match="row 2: the split is 'holdout'"):
        given_split(["train", "holdout"])
    with pytest.raises(InputError, match="row 1: the split is empty"):
        given_split([None, "train"])
    with pytest.raises(InputError, match="line 9: the split is 'x'"):
        given_split(pd.Series(["train", "x"], pd.RangeIndex(8, 10, name="line")))
    with pytest.raises(InputError, match=r"the split is '0\.5'"):
        given_split([0.5, "train"])
    with pytest.raises(InputError, match="has no row 'val'"):
        given_split(["train", "test"])
    assert [part.tolist() for part in given_split(["val", "train"])] == [[1], [0], []]


@pytest.mark.parametrize("n", [0, 1, 2])
def test_too_few_rows(n: int) -> None:
    with pytest.raises(InputError, match=f"{n} rows are too few for three splits"):
        random_split(n)


@pytest.mark.parametrize("parts", [(0.5, 0.5), (0.8, 0.1, 0.2), (1.0, 0.0, 0.0), (1.2, -0.1, -0.1)])
def test_fractions_are_checked(parts: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="three positive numbers"):
        random_split(10, parts)
