"""Members whose targets are of mixed kinds, bounds, or learned as logarithms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from small_members import molecules, run

import smpgnn


def table() -> pd.DataFrame:
    """Molecules with positive sizes, of which one is unknown and one is a bound."""
    frame = molecules(80)
    frame["size"] = (frame["size"] + 0.5).astype(object)
    frame.loc[3, "size"] = None
    frame.loc[5, "size"] = ">3"
    return frame


@pytest.mark.parametrize("folds", [0, 3])
def test_numbers_and_classes_together(folds: int, tmp_path: Path) -> None:
    members = {"folds": folds} if folds else {"ensemble": 2, "calibration": 0.3}
    result = run(tmp_path / "run", table(), targets=("size", "polar"), **members)
    assert {"relative_error", "rmse size", "auc polar"} <= set(result.test)
    model = smpgnn.load(result.folder)
    found = model.predict(["CCO", "C1CCCCC1N"], interval=0.9)
    own = model.members()
    each = np.stack([member.predict(["CCO", "C1CCCCC1N"])["predicted_size"] for member in own])
    assert np.allclose(found["predicted_size"], each.mean(0), rtol=1e-5)
    middle = (found["low_size"] + found["high_size"]) / 2
    assert np.allclose(middle, found["predicted_size"], rtol=1e-5)
    shares = found[["probability_polar_no", "probability_polar_yes"]].sum(axis=1)
    assert np.allclose(shares, 1)


def test_intervals_of_logarithms_come_back_in_the_units_of_the_table(tmp_path: Path) -> None:
    members = {"ensemble": 2, "calibration": 0.3}
    result = run(tmp_path / "run", table(), targets=("size",), log_target=True, **members)
    model = smpgnn.load(result.folder)
    found = model.predict(["CCO", "C1CCCCC1N"], interval=0.9)
    each = np.stack([m.predict(["CCO", "C1CCCCC1N"])["predicted_size"] for m in model.members()])
    assert np.allclose(found["predicted_size"], np.exp(np.log(each).mean(0)), rtol=1e-5)
    middle = np.sqrt(found["low_size"] * found["high_size"])
    assert np.allclose(middle, found["predicted_size"], rtol=1e-5)
    assert (found["low_size"] > 0).all()
