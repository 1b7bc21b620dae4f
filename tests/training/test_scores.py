"""Metrics of your own data equal those of scikit-learn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics as sk
from test_tasks import batch, scores

from smpgnn.config.metrics import METRICS
from smpgnn.training.scores import is_defined
from smpgnn.training.tasks import Classification, MultiLabel, OneLevelTask, Regression

NAN = float("nan")
NUMBERS: dict[str, Callable[[Any, Any], float]] = {
    "rmse": sk.root_mean_squared_error,
    "mae": sk.mean_absolute_error,
    "mse": sk.mean_squared_error,
    "r2": sk.r2_score,
    "pearson": lambda y, p: stats.pearsonr(y, p)[0],
    "spearman": lambda y, p: stats.spearmanr(y, p)[0],
}
#: Of the targets, the shares of the classes, and the predicted classes.
CLASSES: dict[str, Callable[[Any, Any, Any], float]] = {
    "mcc": lambda y, p, c: sk.matthews_corrcoef(y, c),
    "balanced_accuracy": lambda y, p, c: sk.balanced_accuracy_score(y, c),
    "log_loss": lambda y, p, c: sk.log_loss(y, p, labels=range(p.shape[1])),
    "accuracy": lambda y, p, c: sk.accuracy_score(y, c),
}
TWO = {
    **CLASSES,
    "auc": lambda y, p, c: sk.roc_auc_score(y, p[:, 1]),
    "prauc": lambda y, p, c: sk.average_precision_score(y, p[:, 1]),
    "f1": lambda y, p, c: sk.f1_score(y, c),
}
MANY = {
    **CLASSES,
    "auc": lambda y, p, c: sk.roc_auc_score(y, p, multi_class="ovr"),
    "prauc": lambda y, p, c: sk.average_precision_score(y, p),
    "f1": lambda y, p, c: sk.f1_score(y, c, average="macro"),
}


def shares(logits: torch.Tensor) -> Any:
    return logits.double().softmax(1).numpy().round(12)  # ties, also in other orders of summation


@pytest.mark.parametrize("seed", range(5))
def test_numbers(seed: int) -> None:
    torch.manual_seed(seed)
    y = (10 * torch.randn(60, 3)).round() + 100  # with ties
    output = ((y - 100) / 10 + torch.randn(60, 3)).round(decimals=1)
    y[torch.rand(60, 3) < 0.2] = NAN
    task = Regression(names=("a", "b.c", "d e"), mean=(100.0,) * 3, scale=(10.0,) * 3,
                      metric_names=METRICS["regression"])  # fmt: skip
    found = scores(task, output, batch(y))
    assert len(found) == 4 * len(NUMBERS)
    for metric, judge in NUMBERS.items():
        each = []
        for column, name in enumerate(task.names):
            known = ~y[:, column].isnan()
            said = task.measured(output)[known, column].double().numpy()
            each.append(judge(y[known, column].double().numpy(), said))
            assert found[f"{metric} {name}"] == pytest.approx(each[-1], abs=1e-6, rel=1e-6)
        assert found[metric] == pytest.approx(np.mean(each), abs=1e-6, rel=1e-6)


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("seed", range(5))
def test_classes(classes: int, seed: int) -> None:
    torch.manual_seed(seed)
    target = torch.randint(classes, (90, 1)).float()
    output = (torch.randn(90, classes) + torch.eye(classes)[target[:, 0].long()]).round()  # ties
    target[torch.rand(90, 1) < 0.2] = NAN
    task = Classification(classes=tuple("abcde"[:classes]),
                          metric_names=METRICS["classification"])  # fmt: skip
    found = scores(task, output, batch(target))
    known = ~target[:, 0].isnan()
    y, p = target[known, 0].long().numpy(), shares(output[known])
    judges = TWO if classes == 2 else MANY
    assert found.keys() == judges.keys()
    for metric, judge in judges.items():
        assert found[metric] == pytest.approx(judge(y, p, p.argmax(1)), abs=1e-6), metric


@pytest.mark.parametrize("seed", range(5))
def test_labels(seed: int) -> None:
    torch.manual_seed(seed)
    y = (torch.rand(80, 3) < 0.25).float()
    output = (2 * y + torch.randn(80, 3)).round(decimals=1) - 1
    y[torch.rand(80, 3) < 0.2] = NAN
    y[:, 2] = torch.where(y[:, 2].isnan(), NAN, 0.0)  # one class only
    task = MultiLabel(names=("a", "b", "c"), classes=(("0", "1"),) * 3,
                      metric_names=METRICS["classification"])  # fmt: skip
    found = scores(task, output, batch(y))
    assert {"auc c", "prauc c"}.isdisjoint(found)
    for metric, judge in TWO.items():
        each = []
        for column, name in enumerate("abc"):
            if f"{metric} {name}" not in found or (name == "c" and metric in ("f1", "mcc")):
                continue
            known = ~y[:, column].isnan()
            second = output[known, column]
            p = shares(torch.stack([torch.zeros_like(second), second], 1))
            each.append(_quiet(judge, y[known, column].long().numpy(), p))
            assert found[f"{metric} {name}"] == pytest.approx(each[-1], abs=1e-6), metric
        if metric in ("f1", "mcc"):
            assert found[f"{metric} c"] == 0.0
            each.append(0.0)
        assert found[metric] == pytest.approx(np.mean(each), abs=1e-6), metric


def _quiet(judge: Callable[[Any, Any, Any], float], y: Any, p: Any) -> float:
    with warnings.catch_warnings():  # scikit-learn warns of labels with one class
        warnings.simplefilter("ignore")
        return judge(y, p, p.argmax(1))


def test_a_class_without_rows_is_left_out() -> None:
    torch.manual_seed(0)
    y, output = torch.randint(2, (40, 1)).float(), torch.randn(40, 3)
    task = Classification(classes=("a", "b", "c"), metric_names=METRICS["classification"])
    found, p = scores(task, output, batch(y)), shares(output)
    areas = [sk.roc_auc_score(y[:, 0] == c, p[:, c]) for c in (0, 1)]
    assert found["auc"] == pytest.approx(np.mean(areas), abs=1e-6)
    assert found["f1"] == pytest.approx(sk.f1_score(y[:, 0], p.argmax(1), average="macro"))


@pytest.mark.parametrize(
    ("task", "y", "left_out"),
    [
        (Regression(metric_names=METRICS["regression"]), [[3.0], [3.0]],
         {"r2", "pearson", "spearman"}),
        (Regression(metric_names=METRICS["regression"]), [[3.0], [NAN]],
         {"r2", "pearson", "spearman"}),
        (Regression(metric_names=METRICS["regression"]), [[NAN], [NAN]],
         set(METRICS["regression"])),
        (Classification(metric_names=METRICS["classification"]), [[1.0], [1.0]],
         {"auc", "prauc"}),
        (Classification(metric_names=METRICS["classification"]), [[NAN], [NAN]],
         set(METRICS["classification"])),
    ],
)  # fmt: skip
def test_undefined_metrics_are_left_out(
    task: OneLevelTask, y: list[list[float]], left_out: set[str]
) -> None:
    output = torch.randn(2, task.graph_outputs)
    found = scores(task, output, batch(torch.tensor(y)))
    assert found.keys() == set(task.metric_names) - left_out
    assert np.isfinite(list(found.values())).all()
    for metric in task.metric_names:
        assert is_defined(metric, torch.tensor(y)[:, 0]) == (metric in found)


def test_constant_predictions_have_no_correlation() -> None:
    y = torch.tensor([[1.0], [2.0], [4.0]])
    task = Regression(metric_names=METRICS["regression"])
    found = scores(task, torch.ones(3, 1), batch(y))
    assert found["pearson"] == found["spearman"] == 0.0
    classes = Classification(metric_names=METRICS["classification"])
    found = scores(classes, torch.zeros(3, 2), batch(torch.tensor([[0.0], [1.0], [1.0]])))
    assert (found["auc"], found["mcc"], found["balanced_accuracy"]) == (0.5, 0.0, 0.5)


def test_predictions_that_are_not_finite_have_no_metrics() -> None:
    y = torch.tensor([[0.0], [1.0], [1.0]])
    for task in (Regression(metric_names=METRICS["regression"]),
                 Classification(metric_names=METRICS["classification"])):  # fmt: skip
        output = torch.full((3, task.graph_outputs), NAN)
        found = scores(task, output, batch(y))
        assert found.keys() == set(task.metric_names)
        assert np.isnan(list(found.values())).all()


def test_batches_are_scored_together() -> None:
    torch.manual_seed(0)
    y, output = torch.randint(2, (30, 1)).float(), torch.randn(30, 2)
    task = Classification(metric_names=METRICS["classification"])
    metrics = task.metrics()
    room = torch.empty(10, 2)  # like the output of a captured step, which the next overwrites
    for start in range(0, 30, 10):
        room.copy_(output[start : start + 10])
        task.update(metrics, room, batch(y[start : start + 10]))
    assert task.results(metrics) == scores(task, output, batch(y))
