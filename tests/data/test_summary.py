"""The summary of a table: counts, ranges, units, classes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from smpgnn.data.summary import summarize, unit_of
from smpgnn.data.targets import parse_targets


@pytest.mark.parametrize(
    ("name", "unit"),
    [("IC50 [nM]", "nM"), ("solubility (mol/L) ", "mol/L"), ("logS", ""), ("p(x) value", ""),
     ("a (b) [c]", "c"), ("()", ""), ("log(S)", "")],
)  # fmt: skip
def test_units(name: str, unit: str) -> None:
    assert unit_of(name) == unit


def test_numbers_bounds_and_classes() -> None:
    numbers = ["1.5", ">1000", "", "20", "<0.1", "7", "> 50"]
    frame = pd.DataFrame({"IC50 [nM]": numbers, "toxic": [0, 1, 0, None, 0, 0, 0]})
    found = summarize(parse_targets(frame, list(frame), log10=True))
    exact = np.array([1.5, 20, 7])
    one, other = found["IC50 [nM]"], found["toxic"]
    assert (one.known, one.missing, one.above, one.below, one.unit) == (6, 1, 2, 1, "nM")
    assert (one.low, one.median, one.high) == (1.5, 7.0, 20.0)
    assert (one.mean, one.deviation) == pytest.approx((exact.mean(), exact.std()))
    assert one.line("IC50 [nM]") == (
        "Target 'IC50 [nM]': numbers from 1.5 to 20 nM, median 7; 1 missing; 2 only known to be "
        "larger than a bound; 1 only known to be smaller than a bound; learned as log10."
    )
    assert other.classes == {"0": 5, "1": 1}
    assert other.line("toxic") == "Target 'toxic': classes 0 (5), 1 (1); 1 missing."


def test_many_classes() -> None:
    frame = pd.DataFrame({"y": [f"c{row % 8}" for row in range(80)]})
    line = summarize(parse_targets(frame, ["y"]))["y"].line("y")
    assert line.endswith("c5 (10) and 2 more.")
