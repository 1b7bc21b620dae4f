"""Metrics as a table: one row per split or target, the main metric first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smpgnn.training.tasks import Task

_NONE = "-"


def metrics_table(task: Task, splits: Mapping[str, Mapping[str, float]]) -> str:
    """The metrics of some splits by their names; with several targets also those of each target,
    if they are known.

    A metric without a value shows as '-', and a line below says why.
    """
    lines, gaps = [], False
    for metrics, names in task.metric_groups():
        metrics = metrics or tuple(next(iter(splits.values())))
        rows = []
        for split, values in splits.items():
            rows.append((split, [values.get(metric) for metric in metrics]))
            known = any(f"{metric} {name}" in values for metric in metrics for name in names)
            for name in names if known else ():
                rows.append((f"  {name}", [values.get(f"{metric} {name}") for metric in metrics]))
        width = max(len(label) for label, _ in rows)
        lines.append(" " * width + "".join(_cell(metric, metric) for metric in metrics))
        for label, values_of_row in rows:
            cells = zip(values_of_row, metrics, strict=True)
            lines.append(label.ljust(width) + "".join(_cell(shown(v), name) for v, name in cells))
        gaps = gaps or any(value is None for _, values in rows for value in values)
    if gaps:
        lines.append(f"{_NONE}: no value, because all known targets are equal (or none is known)")
    if task.units():
        lines.append(task.units())
    return "\n".join(lines)


def shown(value: float | None) -> str:
    """A metric with four decimals, and '-' for none."""
    return _NONE if value is None else f"{value:.4f}"


def _cell(text: str, metric: str) -> str:
    return "  " + text.rjust(max(len(metric), 8))
