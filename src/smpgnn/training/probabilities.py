"""Calibrated probabilities of classes, by a temperature or by isotonic regression."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Rows = NDArray[np.int64]

METHODS = ("none", "temperature", "isotonic")
_FOLDS = 5  # of the comparison of the methods
_LEAST = 1e-12
_BINS = 10  # of a reliability diagram


@dataclass(frozen=True)
class Steps:
    """A monotone function: `y` at the points `x`, straight lines between them."""

    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Calibrator:
    """Maps the probabilities of one target to calibrated ones.

    Args:
        name: of the target.
        method: 'none', 'temperature' (probabilities to the power 1/T, normalised) or 'isotonic'
            (a monotone function of each probability, normalised; of two classes, of the second).
        temperature: T.
        steps: the monotone functions.
    """

    name: str
    method: str = "none"
    temperature: float = 1.0
    steps: tuple[Steps, ...] = ()

    def __call__(self, shares: Values) -> Values:
        """Calibrated probabilities; shapes [R, C]."""
        if self.method == "none":
            return shares
        if self.method == "temperature":
            logs = np.log(np.maximum(shares, _LEAST)) / self.temperature
            powers = np.exp(logs - logs.max(1, keepdims=True))
            return _normalised(powers)
        columns = [
            np.interp(column, step.x, step.y)
            for column, step in zip(shares.T[-len(self.steps) :], self.steps, strict=True)
        ]
        if len(columns) == 1:
            return np.stack([1 - columns[0], columns[0]], axis=1)
        return _normalised(np.stack(columns, axis=1))


def fit_calibrator(name: str, shares: Values, target: Rows) -> tuple[Calibrator, Values]:
    """The method with the lowest log loss in a cross-validation, fitted on all rows.

    Also the calibrated probabilities [n, C] of that cross-validation, which no row has influenced
    itself. With fewer than two rows of two classes nothing is calibrated.

    Shapes: shares [n, C], target [n] in integers.
    """
    counts = np.bincount(target, minlength=shares.shape[1])
    if np.sum(counts >= 2) < 2:
        return Calibrator(name), shares
    # each class is dealt to the folds in turn, so that none lacks a frequent one
    order = np.lexsort((np.random.default_rng(0).permutation(len(target)), target))
    fold = np.empty_like(target)
    fold[order] = np.arange(len(target)) % _FOLDS
    found = {}
    for method in METHODS:
        crossed = shares.copy()
        for number in range(_FOLDS):
            held = fold == number
            fitted = _fit(name, method, shares[~held], target[~held])
            crossed[held] = fitted(shares[held])
        found[method] = crossed
    best = min(METHODS, key=lambda method: log_loss(found[method], target))
    return _fit(name, best, shares, target), found[best]


def _fit(name: str, method: str, shares: Values, target: Rows) -> Calibrator:
    if method == "temperature":
        from scipy.optimize import minimize_scalar

        found = minimize_scalar(
            lambda log: log_loss(Calibrator(name, method, float(np.exp(log)))(shares), target),
            bounds=(-3.0, 3.0),
            method="bounded",
        )
        return Calibrator(name, method, float(np.exp(found.x)))
    if method == "isotonic":
        classes = range(shares.shape[1])
        wanted = [1] if len(classes) == 2 else classes
        return Calibrator(name, method, steps=tuple(_steps(shares, target, c) for c in wanted))
    return Calibrator(name)


def _steps(shares: Values, target: Rows, one: int) -> Steps:
    """The monotone function of the probability of one class, away from 0 and 1 as n rows allow."""
    order = np.argsort(shares[:, one], kind="stable")
    x, hits = shares[order, one], (target[order] == one).astype(np.float64)
    values, first = np.unique(x, return_index=True)
    weights = np.diff(np.append(first, len(x)))
    means = np.add.reduceat(hits, first) / weights
    from scipy.optimize import isotonic_regression

    y = isotonic_regression(means, weights=weights).x
    margin = 1 / (len(x) + 2)
    y = np.clip(y, margin, 1 - margin)
    # of equal values only the ends
    inner = np.append(True, y[1:] != y[:-1]) | np.append(y[1:] != y[:-1], True)
    return Steps(tuple(values[inner].tolist()), tuple(y[inner].tolist()))


def log_loss(shares: Values, target: Rows) -> float:
    """The mean negative logarithm of the probability of the true class."""
    true = np.take_along_axis(shares, target[:, None], axis=1)
    return float(-np.log(np.maximum(true, _LEAST)).mean())


def brier_score(shares: Values, target: Rows) -> float:
    """The mean squared error of the probability of the second class; of more, summed over all."""
    hits = np.eye(shares.shape[1])[target]
    squares = (shares - hits) ** 2
    return float(squares[:, 1].mean() if shares.shape[1] == 2 else squares.sum(1).mean())


@dataclass(frozen=True)
class Bin:
    """A bin of a reliability diagram: its limits, rows, mean probability and observed share."""

    low: float
    high: float
    rows: int
    probability: float
    observed: float


def reliability(shares: Values, target: Rows) -> list[Bin]:
    """Ten bins of the probability of the second class; of more, of that of the predicted class.

    Empty bins are left out.
    """
    if shares.shape[1] == 2:
        value, hit = shares[:, 1], target == 1
    else:
        value, hit = shares.max(1), shares.argmax(1) == target
    number = np.minimum((value * _BINS).astype(int), _BINS - 1)
    return [
        Bin(
            one / _BINS,
            (one + 1) / _BINS,
            int((number == one).sum()),
            float(value[number == one].mean()),
            float(hit[number == one].mean()),
        )
        for one in np.unique(number).tolist()
    ]


def calibration_error(bins: list[Bin]) -> float:
    """ECE: the mean distance of probability and observed share, weighted by rows."""
    rows = sum(one.rows for one in bins)
    return sum(one.rows * abs(one.probability - one.observed) for one in bins) / rows


def _normalised(values: Values) -> Values:
    total: Values = values / values.sum(1, keepdims=True)
    return total
