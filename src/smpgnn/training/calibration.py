"""The calibration of a run, stored in its folder: intervals, and probabilities of classes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smpgnn.checksums import read_json, to_json
from smpgnn.config.plain import from_plain
from smpgnn.errors import InputError
from smpgnn.files import write_text
from smpgnn.training.intervals import LEVEL, Intervals, Values, fit_intervals, narrowest
from smpgnn.training.probabilities import (
    METHODS,
    Calibrator,
    Rows,
    brier_score,
    calibration_error,
    fit_calibrator,
    log_loss,
    reliability,
)
from smpgnn.training.tasks import Task
from smpgnn.training.tasks.base import parts_of
from smpgnn.training.tasks.part import Part

#: The file in the run folder.
FILE = "calibration.json"


@dataclass(frozen=True)
class Calibration:
    """Of each target: its intervals, or what calibrates its probabilities."""

    intervals: tuple[Intervals, ...] = ()
    calibrators: tuple[Calibrator, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.intervals or self.calibrators)

    def intervals_of(self, name: str) -> Intervals:
        """The intervals of a target."""
        for one in self.intervals:
            if one.name == name:
                return one
        raise InputError(
            "--interval: the run has no calibration rows: train it with --calibration 0.1, or with "
            "--folds 5."
        )

    def calibrated(self, task: Task, values: Tensor) -> Tensor:
        """The quantities with calibrated probabilities, [R, Q]."""
        by_name = {one.name: one for one in self.calibrators}
        for part in parts_of(task) if by_name else ():
            if part.name in by_name:
                shares = by_name[part.name](part.probabilities(values).cpu().numpy())
                values = values.clone()
                values[:, part.own] = torch.from_numpy(shares)[:, -len(part.columns) :].to(values)
        return values

    def save(self, folder: Path) -> None:
        """Write the file into a run folder."""
        write_text(folder / FILE, to_json(asdict(self)))

    @classmethod
    def load(cls, folder: Path) -> Calibration:
        """Read the file of a run folder; an empty calibration if there is none."""
        path = folder / FILE
        if not path.exists():
            return cls()
        remedy = "restore it, or write it again with --resume"
        content = read_json(path, remedy)
        try:
            found = from_plain(cls, content, "calibration")
        except InputError as error:
            raise InputError(f"{path}: was changed or not written by smpgnn: {remedy}.") from error
        if any(one.method not in METHODS for one in found.calibrators):
            raise InputError(f"{path}: is from a newer version of smpgnn: update it.")
        return found


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Predictions for rows on which no member behind them was trained or chosen.

    Shapes: mean, spread [R, Q] (spread NaN: unknown); target [R, T], NaN: unknown.
    """

    mean: Tensor
    spread: Tensor
    target: Tensor

    def number(self, part: Part, column: int) -> tuple[Values, Values]:
        """Residual and spread of the rows with a known target."""
        known = ~self.target[:, column].isnan()
        (own,) = part.columns
        residual = self.target[known, column].double() - self.mean[known, own]
        return residual.numpy(), self.spread[known, own].numpy()

    def classes(self, part: Part, column: int) -> tuple[Values, Rows]:
        """Probabilities and class of the rows with a known target."""
        known = ~self.target[:, column].isnan()
        shares = part.probabilities(self.mean[known]).numpy()
        return shares, self.target[known, column].long().numpy()


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A fitted calibration, what run.json says about it, and the data of reliability diagrams."""

    calibration: Calibration
    record: dict[str, Any]
    diagrams: list[dict[str, Any]] = field(default_factory=list)


def calibrate(
    task: Task, rows: HeldOut, choice: HeldOut, test: HeldOut | None = None
) -> Calibrated:
    """Fit on calibration rows, and measure on test rows.

    Args:
        task: of the predictions.
        rows: for calibration.
        choice: rows by which the kind of interval is chosen: for validation, if possible.
        test: rows to measure on. Without (folds have none that no member saw), probabilities are
            measured by cross-validation on the calibration rows.
    """
    intervals, calibrators = [], []
    record: dict[str, Any] = {}
    diagrams: list[dict[str, Any]] = []
    for column, part in enumerate(parts_of(task)):
        if bool(rows.target[:, column].isnan().all()):
            raise InputError(
                f"the calibration rows have no known '{part.name}': give a larger --calibration, "
                "or more rows."
            )
        if part.classes:
            shares, target = rows.classes(part, column)
            calibrator, crossed = fit_calibrator(part.name, shares, target)
            calibrators.append(calibrator)
            if test is not None:
                shares, target = test.classes(part, column)
                crossed = calibrator(shares)
            about = {"raw": shares, "calibrated": crossed}
            bins = {kind: reliability(values, target) for kind, values in about.items()}
            ece = {kind: calibration_error(found) for kind, found in bins.items()}
            record[part.name] = {**_about_classes(calibrator, about, target), "ece": ece}
            diagrams += [
                {"target": part.name, "probabilities": kind, **asdict(one)}
                for kind, found in bins.items()
                for one in found
            ]
        else:
            floor = narrowest(*choice.number(part, column))
            fitted = fit_intervals(part.name, *rows.number(part, column), floor)
            intervals.append(fitted)
            found = None if test is None else test.number(part, column)
            record[part.name] = _about_numbers(fitted, *rows.number(part, column), found)
    return Calibrated(Calibration(tuple(intervals), tuple(calibrators)), record, diagrams)


def _about_numbers(
    fitted: Intervals, residual: Values, spread: Values, test: tuple[Values, Values] | None
) -> dict[str, Any]:
    about: dict[str, Any] = {
        "intervals": "constant" if fitted.floor is None else "normalised",
        "rows": len(residual),
    }
    if fitted.rank(LEVEL) > len(residual):  # too few rows for this level
        return about
    about["level"] = LEVEL
    about["mean_width"] = 2 * float(fitted.half_width(LEVEL, spread).mean())
    about["constant_width"] = 2 * fit_intervals(fitted.name, residual).quantile(LEVEL)
    if test is not None:
        inside = np.abs(test[0]) <= fitted.half_width(LEVEL, test[1])
        about |= {"test_rows": len(inside), "test_coverage": float(inside.mean())}
    return about


def _about_classes(
    calibrator: Calibrator, shares: dict[str, Values], target: Rows
) -> dict[str, Any]:
    about: dict[str, Any] = {"method": calibrator.method}
    if calibrator.method == "temperature":
        about["temperature"] = calibrator.temperature
    for name, of in (("log_loss", log_loss), ("brier", brier_score)):
        about[name] = {kind: of(values, target) for kind, values in shares.items()}
    return {**about, "rows": len(target)}
