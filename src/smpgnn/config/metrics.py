"""Names of the metrics and losses for your own data, by kind of target. Needs no torch."""

from __future__ import annotations

#: Metrics by kind of target; the first one chooses the model by default.
METRICS: dict[str, tuple[str, ...]] = {
    "regression": ("rmse", "mae", "mse", "r2", "pearson", "spearman"),
    "classification": (
        "auc", "prauc", "mcc", "f1", "balanced_accuracy", "log_loss", "accuracy",
    ),
}  # fmt: skip
#: Of several targets of both kinds, a metric of them all comes first.
METRICS["mixed"] = ("relative_error", *METRICS["regression"], *METRICS["classification"])
#: Metrics of which smaller values are better.
SMALLER_IS_BETTER = frozenset({"relative_error", "rmse", "mae", "mse", "log_loss"})
#: Losses by kind of target; the first one is the default.
LOSSES: dict[str, tuple[str, ...]] = {
    "regression": ("mae", "mse", "huber", "mae+huber"),
    "classification": ("cross-entropy",),
}
LOSSES["mixed"] = (*LOSSES["regression"], *LOSSES["classification"])
