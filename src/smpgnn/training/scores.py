"""Metrics of one target with known values; they equal those of scikit-learn.

A metric that the known targets leave undefined (`is_defined`) has no meaningful value.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

#: Metrics that need two different targets.
_NEED_TWO = frozenset({"auc", "prauc", "r2", "pearson", "spearman"})

Area = Callable[[Tensor, Tensor], Tensor]


def is_defined(metric: str, target: Tensor) -> bool:
    """Whether a metric has a value on a column of targets, [R], NaN if unknown."""
    known = target[~target.isnan()]
    if known.numel() == 0:
        return False
    return metric not in _NEED_TWO or bool((known != known[0]).any())


def regression_scores(predicted: Tensor, target: Tensor) -> dict[str, Tensor]:
    """The metrics of numbers, [R] each in float64; NaN if a prediction is not finite.

    Constant predictions have correlation 0.
    """
    from torchmetrics.functional import r2_score

    gap = predicted - target
    mse = gap.square().mean()
    two = bool((target != target[0]).any())
    return {
        "rmse": mse.sqrt(),
        "mae": gap.abs().mean(),
        "mse": mse,
        "r2": r2_score(predicted, target) if two else mse.new_tensor(torch.nan),
        "pearson": _correlation(predicted, target),
        "spearman": _correlation(_ranks(predicted), _ranks(target)),
    }


def _correlation(one: Tensor, other: Tensor) -> Tensor:
    if not bool(one.isfinite().all()):
        return one.new_tensor(torch.nan)
    if bool((one == one[0]).all()) or bool((other == other[0]).all()):
        return one.new_zeros(())
    return torch.corrcoef(torch.stack([one, other]))[0, 1]


def _ranks(values: Tensor) -> Tensor:
    """Ranks from 1; equal values share their mean rank."""
    from scipy.stats import rankdata

    return torch.from_numpy(rankdata(values.numpy()))


def classification_scores(logits: Tensor, target: Tensor) -> dict[str, Tensor]:
    """The metrics of one class of K; NaN if a logit is not finite.

    The second of two classes is the positive one. With more, AUC, PR-AUC (each against the rest)
    and F1 are means over the classes.

    Shapes: logits [R, K] in float64, target [R] in integers.
    """
    from torchmetrics.functional.classification import binary_auroc, binary_average_precision

    shares = logits.log_softmax(1)
    classes = logits.size(1)
    if not bool(shares.isfinite().all()):
        names = ("auc", "prauc", "mcc", "f1", "balanced_accuracy", "log_loss", "accuracy")
        return dict.fromkeys(names, logits.new_tensor(torch.nan))
    cells = torch.bincount(classes * target + shares.argmax(1), minlength=classes**2)
    table = cells.view(classes, classes).double()
    hits, real, said = table.diag(), table.sum(1), table.sum(0)
    total, seen = real.sum(), real > 0
    positive = [1] if classes == 2 else torch.nonzero(seen).flatten().tolist()
    # by rank, between 0 and 1: torchmetrics takes other numbers as logits and rounds them
    rest = [
        (_ranks(_log_odds(logits, one)) / len(target), (target == one).long()) for one in positive
    ]
    found = {
        "mcc": _matthews(hits, real, said),
        "balanced_accuracy": (hits[seen] / real[seen]).mean(),
        "log_loss": F.nll_loss(shares, target),
        "accuracy": hits.sum() / total,
    }
    f1 = 2 * hits / (real + said).clamp(min=1)
    found["f1"] = f1[1] if classes == 2 else f1[real + said > 0].mean()
    if int(seen.sum()) > 1:
        areas: dict[str, Area] = {"auc": binary_auroc, "prauc": binary_average_precision}
        for name, area in areas.items():
            found[name] = torch.stack([area(*pair) for pair in rest]).double().mean()
    return found


def _log_odds(logits: Tensor, one: int) -> Tensor:
    """Of one class against the rest; in float32, so that equal shares of other rows are equal.

    Unlike probabilities they differ between predictions that are almost certain.
    """
    others = torch.cat([logits[:, :one], logits[:, one + 1 :]], dim=1)
    return (logits[:, one] - others.logsumexp(1)).float()


def _matthews(hits: Tensor, real: Tensor, said: Tensor) -> Tensor:
    """Matthews' correlation of K classes; 0 where one side has one class only."""
    total = real.sum()
    spread = (total**2 - real.square().sum()) * (total**2 - said.square().sum())
    shared = hits.sum() * total - (real * said).sum()
    return torch.where(spread > 0, shared / spread.clamp(min=1).sqrt(), 0.0)
