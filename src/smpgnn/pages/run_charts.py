"""The charts on the page of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smpgnn.data.columns import Values
from smpgnn.errors import shown
from smpgnn.pages.charts import COLOURS, Chart, Dots, Plot, Series, solid
from smpgnn.pages.predicted import Predicted
from smpgnn.pages.run_files import RunFiles, Trained
from smpgnn.pages.words import label, sentence
from smpgnn.training.probabilities import Bin, reliability

#: Dots of a chart: of more rows a random part is shown.
MOST_DOTS = 1_500
#: Intervals of a chart.
MOST_BARS = 150
#: Points of a line.
_POINTS = 120
#: Rows of a group of similar molecules, at least, and number of groups, at most.
_ROWS, _GROUPS = 5, 10
_UNIT = (-0.02, 1.02)
_DIAGONAL = ((0.0, 0.0), (1.0, 1.0))
#: Colours: of the network, of what it is compared with, and of other lines.
NETWORK, OTHER, MEAN = COLOURS - 1, 8, 2
#: Colours of classes; more have no curve of their own.
_CLASSES = (NETWORK, OTHER, 3, 6, 2, 5)


def learning_curves(run: RunFiles) -> list[Chart]:
    """Training loss and validation metric over the epochs; of members their mean and range."""
    metric = run.task.monitor
    histories = [one.history for one in run.networks if one.history]
    charts = []
    for column, name in (
        ("train_loss", "training loss"),
        (f"val_{metric}", f"validation {label(metric)}"),
    ):
        known = [
            [line for line in history if {"epoch", column} <= line.keys()] for history in histories
        ]
        curves = [{line["epoch"]: line[column] for line in history} for history in known if history]
        if not curves:
            continue
        epochs = sorted(set.intersection(*(set(curve) for curve in curves)))
        epochs = epochs[:: max(1, -(-len(epochs) // _POINTS))]
        values = [[curve[epoch] for curve in curves] for epoch in epochs]
        points = tuple(
            (epoch, fmean(at), min(at), max(at)) for epoch, at in zip(epochs, values, strict=True)
        )
        charts.append(Chart(sentence(name), "epoch", name, (Series("", NETWORK, points),)))
    return [chart for chart in charts if chart.drawable]


def parity(target: Predicted, unit: str) -> Plot | None:
    """Predicted against real numbers, with intervals."""
    if target.predicted is None:
        return None
    log = target.part.log10
    low, high = target.low, target.high
    if low is None or high is None:
        low = high = target.predicted
    rows = _sample(len(target.real))
    x, y = target.real[rows], target.predicted[rows]
    limits = _limits(np.concatenate([x, y]), log)
    few = np.random.default_rng(1).permutation(len(rows)) < MOST_BARS  # more would hide the dots
    low, high = (np.where(few, np.clip(values[rows], *limits), y) for values in (low, high))
    return Plot(
        "Predicted and real values",
        f"real {shown(target.name, 40)}",  # which has its unit
        f"predicted{unit}",
        (Dots("", NETWORK, _points(x, y, low, high)),),
        log_x=log,
        log_y=log,
        x_limits=limits,
        y_limits=limits,
        guides=(((limits[0], limits[0]), (limits[1], limits[1])),),
    )


def error_by_similarity(target: Predicted, what: str) -> Plot | None:
    """Absolute error against similarity, and its mean over groups of similar rows."""
    if target.similarity is None:
        return None
    known = np.flatnonzero(np.isfinite(target.similarity))
    if not known.size:
        return None
    x, y = target.similarity[known], np.abs(target.error[known])
    rows = _sample(len(x))
    groups = similarity_groups(x)
    line = [(float(x[group].mean()), float(y[group].mean())) for group in groups]
    series: list[Series] = [Dots("test molecule", NETWORK, _points(x[rows], y[rows]))]
    if len(line) > 1:
        series.append(Series("mean", solid(MEAN), tuple((a, b, b, b) for a, b in line)))
    top = float(y.max()) or 1.0
    return Plot(
        "Error and similarity to training",
        "similarity to the nearest training molecule",
        what,
        tuple(series),
        x_limits=_UNIT,
        y_limits=(-0.02 * top, 1.05 * top),
    )


def similarity_groups(similarity: Values) -> list[NDArray[np.int64]]:
    """Groups of rows of similar similarity and about equal size, from the lowest."""
    order = np.argsort(similarity, kind="stable")
    count = min(_GROUPS, len(order) // _ROWS)
    return [group for group in np.array_split(order, max(1, count)) if group.size]


def by_fold(run: RunFiles) -> Plot | None:
    """The metric that chose the model, of each fold, for the network and the baseline."""
    metric = run.task.monitor
    folds = [one for one in run.networks if one.member is not None and one.member.fold]
    own = _of_folds(folds, metric, lambda one: one.record["test"])
    if len(own) < 2:
        return None
    trees = _of_folds(folds, metric, lambda one: (one.record.get("baseline") or {}).get("test", {}))
    name = (run.record.get("baseline") or {}).get("name", "baseline")
    series: list[Series] = [Dots("network", NETWORK, own)]
    if trees:
        series.append(Dots(name, OTHER, trees))
    values = [point[1] for one in series for point in one.points]
    low, high = min(values), max(values)
    margin = 0.08 * (high - low) or 0.08 * abs(high) or 1.0
    last = max(point[0] for point in own)
    guides = tuple(((0.5, mean), (last + 0.5, mean)) for mean in [fmean(p[1] for p in own)])
    return Plot(
        "Held-out folds",
        "fold",
        label(metric),
        tuple(series),
        x_limits=(0.5, last + 0.5),
        y_limits=(low - margin, high + margin),
        guides=guides,
    )


def _of_folds(folds: Sequence[Trained], metric: str, values: Any) -> tuple[Any, ...]:
    found = []
    for one in folds:
        assert one.member is not None
        if (value := values(one).get(metric)) is not None:
            found.append((float(one.member.fold), *[float(value)] * 3))
    return tuple(found)


def class_curves(target: Predicted) -> list[Plot]:
    """ROC and precision-recall curves: of the second of two classes, or of each against others."""
    from torchmetrics.functional.classification import binary_precision_recall_curve, binary_roc

    assert target.shares is not None
    classes = shown_classes(target)
    roc: list[Series] = []
    precise: list[Series] = []
    shares: list[float] = []
    for colour, number in zip(_CLASSES, classes, strict=False):
        style, value, hit = solid(colour), target.shares[:, number], target.real == number
        x, y = _curve(binary_roc, value, hit)
        area = float(np.trapezoid(y, x))
        name = target.part.classes[number]
        roc.append(Series(f"{name}: area {area:.3f}", style, _thinned(x, y)))
        y, x = _curve(binary_precision_recall_curve, value, hit)
        precise.append(Series(name if len(classes) > 1 else "", style, _thinned(x, y)))
        shares.append(float(hit.mean()))
    if not roc:
        return []
    chance = tuple(((0.0, share), (1.0, share)) for share in shares[: 1 if len(shares) == 1 else 0])
    unit: dict[str, Any] = {"x_limits": _UNIT, "y_limits": _UNIT}
    return [
        Plot("ROC", "false positive rate", "true positive rate", tuple(roc), **unit,
             guides=(_DIAGONAL,)),
        Plot("Precision and recall", "recall", "precision", tuple(precise), **unit, guides=chance),
    ]  # fmt: skip


def shown_classes(target: Predicted) -> list[int]:
    """The classes that have curves: those with rows in it and outside."""
    counts = np.bincount(target.real.astype(int), minlength=len(target.part.classes))
    if len(counts) == 2:
        return [1] if counts.all() else []
    usual = [k for k in np.argsort(-counts, kind="stable").tolist() if 0 < counts[k] < counts.sum()]
    return sorted(usual[: len(_CLASSES)])


def diagrams(run: RunFiles, target: Predicted) -> Mapping[str, Sequence[Bin]]:
    """Bins of a reliability diagram by kind of probability; without calibration of the test rows.

    Calibrated runs have stored them: of the test rows, or with folds of a cross-validation.
    """
    assert target.shares is not None
    stored = run.reliability.get(target.name)
    return stored or {"network": reliability(target.shares, target.real.astype(np.int64))}


def reliability_diagram(found: Mapping[str, Sequence[Bin]], event: str) -> Plot:
    """Observed shares against predicted probabilities."""
    series: list[Series] = []
    for kind, bins in found.items():
        colour = OTHER if kind == "raw" else NETWORK
        values = np.array([(one.probability, one.observed) for one in bins])
        points = _points(*values.T)
        if len(points) > 1:
            name = kind if len(found) > 1 else ""
            series.append(Series(name, solid(colour), points))
        series.append(Dots("", colour, points))
    x, y = f"predicted probability of {event}", "observed share"
    return Plot(
        "Reliability", x, y, tuple(series), x_limits=_UNIT, y_limits=_UNIT, guides=(_DIAGONAL,)
    )


def _curve(function: Any, value: Values, hit: NDArray[np.bool_]) -> tuple[Values, Values]:
    import torch

    # ranks: float32 would join probabilities that are almost equal
    rank = np.unique(value, return_inverse=True)[1] / len(value)
    one, other, _ = function(torch.from_numpy(rank), torch.from_numpy(hit).long())
    return one.double().numpy(), other.double().numpy()


def _thinned(x: Values, y: Values) -> Any:
    """Points of a curve, at most about `_POINTS`: its corners, or some of them."""
    moved = np.ones(len(x), dtype=bool)
    moved[1:] = (np.diff(x) != 0) | (np.diff(y) != 0)
    x, y = x[moved], y[moved]
    corner = np.ones(len(x), dtype=bool)
    right, up = np.diff(x), np.diff(y)
    corner[1:-1] = right[:-1] * up[1:] != right[1:] * up[:-1]
    rows = np.flatnonzero(corner)
    step = max(1, -(-len(rows) // _POINTS))
    rows = np.unique(np.concatenate([rows[::step], rows[-1:]]))
    return _points(x[rows], y[rows])


def _points(x: Values, y: Values, low: Any = None, high: Any = None) -> Any:
    low, high = (y if bound is None else bound for bound in (low, high))
    return tuple(zip(*(values.tolist() for values in (x, y, low, high)), strict=True))


def _sample(count: int) -> NDArray[np.int64]:
    """The rows that are shown, in order."""
    if count <= MOST_DOTS:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).permutation(count)[:MOST_DOTS])


def _limits(values: Values, log: bool) -> tuple[float, float]:
    values = values[values > 0] if log else values
    if not values.size:
        return (0.1, 10.0) if log else (0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    if log:
        margin = (high / low) ** 0.04 if high > low else 2.0
        return low / margin, high * margin
    margin = 0.04 * (high - low) or 0.5 * abs(high) or 1.0
    return low - margin, high + margin
