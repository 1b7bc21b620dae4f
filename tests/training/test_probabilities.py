"""Calibrated probabilities, and their measures beside those of scikit-learn."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest
from numpy.typing import NDArray

from smpgnn.config.plain import from_plain
from smpgnn.training.probabilities import (
    Calibrator,
    _fit,
    brier_score,
    calibration_error,
    fit_calibrator,
    log_loss,
    reliability,
)

Values = NDArray[np.float64]


def sample(
    count: int, classes: int = 2, power: float = 1.0, seed: int = 0
) -> tuple[Values, Values]:
    """Probabilities that are too certain by a temperature of `power`, and classes."""
    random = np.random.default_rng(seed)
    true = random.dirichlet(np.full(classes, 0.7), count)
    target = np.array([random.choice(classes, p=p) for p in true])
    shown = true**power
    return shown / shown.sum(1, keepdims=True), target


@pytest.mark.parametrize("classes", [2, 4])
def test_a_temperature_is_found_again(classes: int) -> None:
    shares, target = sample(4000, classes, power=2.0)
    fitted = _fit("y", "temperature", shares, target)
    assert fitted.temperature == pytest.approx(2.0, rel=0.1)
    assert log_loss(fitted(shares), target) < log_loss(shares, target)
    np.testing.assert_allclose(fitted(shares).sum(1), 1)
    assert (fitted(shares).argmax(1) == shares.argmax(1)).all()


def test_isotonic_regression_equals_that_of_scikit_learn() -> None:
    from sklearn.isotonic import IsotonicRegression

    shares, target = sample(300, power=2.0)
    shares = shares.round(2)  # equal values
    fitted = _fit("y", "isotonic", shares, target)
    margin = 1 / 302
    oracle = IsotonicRegression(y_min=margin, y_max=1 - margin, out_of_bounds="clip")
    oracle.fit(shares[:, 1], target)
    new = np.linspace(0, 1, 201)
    found = fitted(np.stack([1 - new, new], axis=1))[:, 1]
    np.testing.assert_allclose(found, oracle.predict(new), atol=1e-12)


@pytest.mark.parametrize(
    ("power", "method"), [(1.0, ("none", "temperature")), (3.0, ("temperature",))]
)
def test_the_method_with_the_lower_log_loss_is_chosen(power: float, method: tuple[str]) -> None:
    shares, target = sample(600, power=power)
    fitted, crossed = fit_calibrator("y", shares, target)
    assert fitted.method in method
    assert log_loss(crossed, target) <= log_loss(shares, target)


def test_isotonic_is_chosen_where_no_temperature_fits() -> None:
    shares, _ = sample(3000)
    odd = np.where(shares[:, 1] > 0.5, 0.7, 0.4)  # two steps
    target = (np.random.default_rng(1).random(3000) < odd).astype(int)
    fitted, crossed = fit_calibrator("y", shares, target)
    assert fitted.method == "isotonic"
    assert log_loss(crossed, target) < log_loss(shares, target)


@pytest.mark.parametrize("target", [np.zeros(30, int), np.array([1, *[0] * 29])])
def test_one_class_is_not_calibrated(target: Values) -> None:
    shares, _ = sample(30)
    assert fit_calibrator("y", shares, target)[0] == Calibrator("y")


def test_measures_equal_those_of_scikit_learn() -> None:
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import brier_score_loss
    from sklearn.metrics import log_loss as sklearn_log_loss

    shares, target = sample(500, power=1.5)
    assert log_loss(shares, target) == pytest.approx(sklearn_log_loss(target, shares))
    assert brier_score(shares, target) == pytest.approx(brier_score_loss(target, shares[:, 1]))
    bins = reliability(shares, target)
    observed, mean = calibration_curve(target, shares[:, 1], n_bins=10)
    np.testing.assert_allclose([one.observed for one in bins], observed)
    np.testing.assert_allclose([one.probability for one in bins], mean)
    assert sum(one.rows for one in bins) == 500
    by_hand = sum(abs(o - m) * one.rows for o, m, one in zip(observed, mean, bins, strict=True))
    assert calibration_error(bins) == pytest.approx(by_hand / 500)


def test_calibrators_are_stored_as_plain_values() -> None:
    shares, target = sample(200, 3, power=2.0)
    for method in ("none", "temperature", "isotonic"):
        fitted = _fit("y", method, shares, target)
        again = from_plain(Calibrator, asdict(fitted), "calibrator")
        assert again == fitted
        np.testing.assert_array_equal(again(shares), fitted(shares))
