"""Numbers and names as text: filters that all pages share."""

from __future__ import annotations

import math
from typing import Any

#: Metrics in words.
LABELS = {
    "rmse": "RMSE", "mae": "MAE", "mse": "MSE", "r2": "R²", "pearson": "Pearson",
    "spearman": "Spearman", "auc": "ROC-AUC", "prauc": "PR-AUC", "mcc": "MCC", "f1": "F1",
    "balanced_accuracy": "balanced accuracy", "log_loss": "log loss",
    "relative_error": "relative error",
}  # fmt: skip


def label(metric: str) -> str:
    """A metric in words."""
    return LABELS.get(metric, metric.replace("_", " "))


def number(value: float, digits: int) -> str:
    """A number with a proper minus sign; a network beyond float32 is an overflow."""
    return f"{value:.{digits}f}".replace("-", "−") if math.isfinite(value) else "overflow"


def measured(value: float) -> str:
    """A metric, with four decimals unless it is large."""
    size = abs(value)
    style = ".4f" if size < 1e3 else ",.1f" if size < 1e5 else ",.0f" if size < 1e12 else ".4g"
    return format(value, style).replace("-", "−")


def short(value: float, digits: int = 4) -> str:
    """A number with so many significant digits and a proper minus sign."""
    return f"{value:.{digits}g}".replace("-", "−")


def setting(value: Any) -> str:
    """A setting or a measured value."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple | list):
        return ", ".join(setting(one) for one in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def sentence(text: str) -> str:
    """The text with a capital at its start."""
    return text[:1].upper() + text[1:]


FILTERS = (number, measured, short, setting, sentence)
