"""Targets: numbers, classes, the automatic choice of task, refusals."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smpgnn.data.tables import read_table
from smpgnn.data.targets import TargetSpec, encode_targets, exact, parse_targets
from smpgnn.errors import InputError


def column(*values: object) -> pd.DataFrame:
    return pd.DataFrame({"y": list(values)})


def test_regression_with_gaps() -> None:
    frame = column("1.5", "", "NaN", " -2e3 ", None, "none", "n/a")
    targets = parse_targets(frame, ["y"])
    assert targets.spec == TargetSpec("regression", ("y",))
    assert targets.values.dtype == torch.float64
    known = targets.values[:, 0]
    assert known[[0, 3]].tolist() == [1.5, -2000.0]
    assert known[[1, 2, 4, 5, 6]].isnan().all()


def test_several_regression_columns() -> None:
    frame = pd.DataFrame({"a": [1.5, 2.0], "b": [3, None], "c": [5, 6], "d": [0.5, 7]})
    targets = parse_targets(frame, ["d", "a"])
    assert targets.values.tolist() == [[0.5, 1.5], [7.0, 2.0]]
    assert targets.spec.names == ("d", "a")


@pytest.mark.parametrize(
    ("values", "task", "classes"),
    [
        (["active", "inactive", ""], "classification", ("active", "inactive")),
        ([True, False, True], "classification", ("False", "True")),
        (["0", "1", "1"], "classification", ("0", "1")),
        ([0.0, 1.0, None], "classification", ("0", "1")),
        ([-1, 1, 1], "classification", ("-1", "1")),
        (["None", "mild", "None"], "classification", ("None", "mild")),
        ([0, 1, 2], "regression", None),
        ([0.5, 1.5, 0.5], "regression", None),
    ],
)
def test_automatic_task(values: list[object], task: str, classes: tuple[str, ...] | None) -> None:
    spec = parse_targets(column(*values), ["y"]).spec
    assert spec.task == task
    assert spec.classes == (() if classes is None else (classes,))


def test_numbered_classes_are_sorted_by_number() -> None:
    targets = parse_targets(column("10", "9", "2", "10.0", "9"), ["y"], "classification")
    assert targets.spec.classes == (("2", "9", "10"),)
    assert targets.values[:, 0].tolist() == [2.0, 1.0, 0.0, 2.0, 1.0]


def test_several_binary_columns() -> None:
    frame = pd.DataFrame({"a": ["0", "1", ""], "b": ["yes", "no", "no"]})
    targets = parse_targets(frame, ["a", "b"])
    assert targets.spec.classes == (("0", "1"), ("no", "yes"))
    assert targets.values[:2].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert math.isnan(targets.values[2, 0].item())


def test_numbers_and_classes() -> None:
    frame = pd.DataFrame(
        {"logS": ["0.5", "-2", ""], "toxic": ["0", "1", ""], "kind": ["x", "z", "y"]}
    )
    targets = parse_targets(frame, ["logS", "toxic", "kind"])
    spec = targets.spec
    assert spec == TargetSpec("mixed", ("logS", "toxic", "kind"), ((), ("0", "1"), tuple("xyz")))
    assert spec.kinds == ("regression", "classification", "classification")
    assert targets.values[:2].tolist() == [[0.5, 0.0, 0.0], [-2.0, 1.0, 2.0]]
    again = encode_targets(frame.iloc[::-1], spec).values
    torch.testing.assert_close(again, targets.values.flip(0), equal_nan=True)
    assert parse_targets(frame, ["logS", "toxic"], "regression").spec.task == "regression"
    both = parse_targets(frame, ["toxic", "kind"]).spec
    assert (both.task, both.classes) == ("classification", (("0", "1"), tuple("xyz")))


def test_bounds() -> None:
    frame = column("12.5", ">10000", "< 0.1", "≥ 3", "<=4", ">= 5", "≤6", "", "7")
    targets = parse_targets(frame, ["y"])
    assert targets.spec == TargetSpec("regression", ("y",))
    assert targets.side is not None
    assert targets.side[:, 0].tolist() == [0, 1, -1, 1, -1, 1, -1, 0, 0]
    known = targets.values[:, 0]
    assert known[[0, 1, 2, 3, 4, 5, 6, 8]].tolist() == [12.5, 10000, 0.1, 3, 4, 5, 6, 7]
    seen = exact(targets.values, targets.side)[:, 0]
    assert seen[~seen.isnan()].tolist() == [12.5, 7.0]
    assert parse_targets(column("1", "2.5"), ["y"]).side is None


@pytest.mark.parametrize(
    ("values", "classes"),
    [(["<5", ">=5", "<5"], ("<5", ">=5")), (["<1", "1 to 5", ">5"], ("1 to 5", "<1", ">5"))],
)
def test_bounds_alone_are_classes(values: list[object], classes: tuple[str, ...]) -> None:
    assert parse_targets(column(*values), ["y"]).spec.classes == (classes,)


@pytest.mark.parametrize("text", [">", "> x", "~5", ">>5", "<>5", "5>", "< 1,5", "> nan"])
def test_what_is_no_bound(text: str) -> None:
    with pytest.raises(InputError, match=r"row 1: target 'y' is '.*', which is not a number"):
        parse_targets(column("1.5", text, "2.5", ">7"), ["y"])


def test_logarithms_need_positive_numbers() -> None:
    spec = parse_targets(column("1.5", "", "20", "<0.1"), ["y"], log10=True).spec
    assert spec.log10
    for text in ("0", "-3", "<0", "1e-19"):
        with pytest.raises(InputError, match=rf"row 1: target 'y' is '{text}', but --log-target"):
            encode_targets(column("1", text), spec)
    with pytest.raises(InputError, match="--log-target: is for numbers, but 'y' has classes"):
        parse_targets(column("a", "b"), ["y"], log10=True)
    # of mixed targets those that are numbers
    frame = pd.DataFrame({"a": ["x", "y", "x"], "b": ["1.5", "2", "3"]})
    assert parse_targets(frame, ["a", "b"], log10=True).spec.log10


def test_csv_and_parquet_give_the_same_targets(tmp_path: Path) -> None:
    frame = pd.DataFrame({"y": [0.0, 1.0, None, 1.0], "z": [True, False, None, True]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    text = parse_targets(read_table(tmp_path / "a.csv"), ["y", "z"])
    typed = parse_targets(read_table(tmp_path / "a.parquet"), ["y", "z"])
    assert text.spec == typed.spec
    torch.testing.assert_close(text.values, typed.values, equal_nan=True)


def test_labels_of_training_are_used_for_other_rows() -> None:
    spec = parse_targets(column("b", "a", "c"), ["y"]).spec
    values = encode_targets(column("c", None, "a"), spec).values
    torch.testing.assert_close(
        values[:, 0], torch.tensor([2.0, math.nan, 0.0], dtype=torch.float64), equal_nan=True
    )
    with pytest.raises(InputError, match=r"row 1: target 'y' is 'd', .* not one of the classes"):
        encode_targets(column("a", "d"), spec)


def test_stray_text_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("smiles,y\nC,1.5\n\nO,2\nN,n.d.\n")
    with pytest.raises(InputError, match=r"a\.csv, line 5: target 'y' is 'n\.d\.', .*not a number"):
        parse_targets(read_table(path), ["y"], source=str(path))


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        (["1", "2", "inf"], "auto", "row 2: target 'y' is 'inf', infinite"),
        (["1", "1e39", "3"], "auto", "row 1: target 'y' is '1e39', infinite or too large"),
        (["1", "1e300", "3"], "auto", "row 1: target 'y' is '1e300', infinite or too large"),
        (["1e-300", "2e-300", "4e-300"], "auto", "row 2: .* by at most 3e-300, too little"),
        (["1e-20", "2e-20", "4e-20"], "auto", "by at most 3e-20, too little for float32"),
        (["1000000001", "1000000002", "1000000009"], "auto", "by at most 8, too little"),
        (["1,5", "2", "3"], "auto", "use a decimal point"),
        (["1_0", "2", "3"], "regression", "'1_0', which is not a number"),
        (["a", "b", "c"], "regression", "row 0: target 'y' is 'a'"),
        (["", "nan", None], "auto", "no value in any row"),
        (["none", "none"], "regression", "no value in any row"),
        (["3", "3", ""], "regression", "is 3 in every row"),
        (["7"], "auto", "is 7 in every row"),
        (["a", "a"], "auto", "only one class, 'a'"),
        (["1", "1"], "classification", "only one class, '1'"),
        ([str(k / 7) for k in range(40)], "classification", "40 different labels in 40 rows"),
        (["1", "2"], "ranking", "task is 'ranking'"),
    ],
)
def test_refusals(values: list[object], task: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_targets(column(*values), ["y"], task)


@pytest.mark.parametrize(
    "values",
    [["0.5", "1e-300", "2"], ["1000000001", "1000000002", "0"], ["1e-12", "2e-12", "3.5e-12"]],
)
def test_what_float32_changes_by_little_is_kept(values: list[object]) -> None:
    found = parse_targets(column(*values), ["y"])
    assert found.values[:, 0].tolist() == [float(str(value)) for value in values]


def test_refusals_of_columns() -> None:
    frame = pd.DataFrame({"a": ["x", "y", "z"], "b": ["x", "y", "y"]})
    with pytest.raises(InputError, match="no column 'c'"):
        parse_targets(frame, ["c"])
    with pytest.raises(InputError, match="No target column"):
        parse_targets(frame, [])


@given(
    st.lists(
        st.one_of(st.none(), st.floats(-1e18, 1e18, allow_subnormal=False)), min_size=2
    ).filter(lambda values: len({v for v in values if v is not None}) > 1)
)
def test_numbers_round_trip(values: list[float | None]) -> None:
    text = column(*["" if v is None else repr(v) for v in values])
    back = encode_targets(text, TargetSpec("regression", ("y",))).values[:, 0].tolist()
    for one, other in zip(back, values, strict=True):
        assert math.isnan(one) if other is None else one == pytest.approx(other, rel=1e-12, abs=0)


@given(st.lists(st.sampled_from(["x", "y", "10", "9", "a b", None]), min_size=2, max_size=30))
def test_labels_round_trip(values: list[str | None]) -> None:
    known = {v for v in values if v is not None}
    if len(known) < 2:
        return
    targets = parse_targets(column(*values), ["y"], "classification")
    labels = targets.spec.classes[0]
    assert set(labels) == known
    back = [None if math.isnan(v) else labels[int(v)] for v in targets.values[:, 0].tolist()]
    assert back == values
