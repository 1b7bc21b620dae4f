"""Intervals: equal to those of crepes, and with the coverage that they promise."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from smpgnn.errors import InputError
from smpgnn.training.intervals import fit_intervals, narrowest


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Residuals whose size grows with the spread."""
    random = np.random.default_rng(seed)
    spread = random.gamma(2.0, 0.5, count)
    return random.normal(size=count) * (0.2 + spread), spread


@pytest.mark.parametrize("count", [9, 19, 50, 113, 1000])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9])
def test_half_widths_equal_those_of_crepes(count: int, level: float) -> None:
    crepes = pytest.importorskip("crepes", reason="crepes is not installed (extra dev)")
    residual, spread = rows(count)
    new = rows(20, seed=1)[1]
    middle = np.zeros(20)
    oracle = crepes.ConformalRegressor().fit(residual)
    # crepes rounds (1 - level) (n + 1) down as a binary fraction: keep away from whole numbers
    same = level if (count + 1) * level % 1 else level - 1e-9
    wanted = oracle.predict_int(middle, confidence=same)[:, 1]
    np.testing.assert_allclose(
        fit_intervals("y", residual).half_width(same, new), wanted, rtol=1e-12
    )
    fitted = fit_intervals("y", residual, spread, 0.3)
    oracle = crepes.ConformalRegressor().fit(residual, sigmas=spread + 0.3)
    wanted = oracle.predict_int(middle, sigmas=new + 0.3, confidence=same)[:, 1]
    np.testing.assert_allclose(fitted.half_width(same, new), wanted, rtol=1e-12)


def test_the_quantile_is_exact_where_the_level_is_not_a_binary_fraction() -> None:
    fitted = fit_intervals("y", np.arange(1.0, 10.0))
    assert [fitted.quantile(level / 10) for level in range(1, 10)] == list(range(1, 10))
    fitted = fit_intervals("y", np.arange(1.0, 100.0))
    assert [fitted.quantile(level / 100) for level in range(1, 100)] == list(range(1, 100))


def test_too_few_rows_for_a_level() -> None:
    fitted = fit_intervals("logS", np.arange(10.0))
    fitted.quantile(0.9)
    with pytest.raises(InputError, match=r"0\.95: needs 19 calibration rows of 'logS', .* has 10"):
        fitted.quantile(0.95)


def test_coverage_over_many_samples() -> None:
    inside: dict[str, list[float]] = {"constant": [], "chosen": []}
    widths: dict[str, list[float]] = {"constant": [], "chosen": []}
    for seed in range(400):
        residual, spread = rows(99, seed)
        floor = narrowest(*rows(99, 20_000 + seed))
        new, new_spread = rows(500, 10_000 + seed)
        for name, fitted in (
            ("constant", fit_intervals("y", residual)),
            ("chosen", fit_intervals("y", residual, spread, floor)),
        ):
            half = fitted.half_width(0.9, new_spread)
            inside[name].append(float(np.mean(np.abs(new) <= half)))
            widths[name].append(float(half.mean()))
    assert np.mean(inside["constant"]) == pytest.approx(0.9, abs=0.005)
    assert np.mean(inside["chosen"]) == pytest.approx(0.9, abs=0.005)
    assert np.mean(widths["chosen"]) < 0.95 * np.mean(widths["constant"])


def test_intervals_are_constant_if_the_spread_is_uninformative() -> None:
    random = np.random.default_rng(0)
    residual = random.normal(size=200)
    useless = random.gamma(0.2, 1.0, 200)
    assert narrowest(residual, useless) is None
    assert narrowest(residual, np.full(200, np.nan)) is None
    assert narrowest(residual, np.zeros(200)) is None
    telling, spread = rows(200)
    assert narrowest(telling[:5], spread[:5]) is None  # too few rows
    floor = narrowest(telling, spread)
    assert floor is not None
    assert floor < spread.mean()
    assert fit_intervals("y", telling, spread, None).floor is None


def test_a_higher_level_is_never_narrower() -> None:
    residual, spread = rows(200)
    fitted = fit_intervals("y", residual, spread, narrowest(residual, spread))
    assert fitted.floor is not None
    halves = [fitted.half_width(level, spread) for level in (0.5, 0.8, 0.9, 0.95)]
    assert all((low <= high).all() for low, high in pairwise(halves))
