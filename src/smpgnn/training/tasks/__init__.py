"""Tasks: the meaning of a network's outputs, their loss and metrics, and how they are shown."""

from __future__ import annotations

from typing import Any

from smpgnn.config.metrics import LOSSES, METRICS
from smpgnn.config.plain import from_plain
from smpgnn.errors import InputError
from smpgnn.training.tasks.base import OneLevelTask, Task
from smpgnn.training.tasks.classification import Classification, MultiLabel
from smpgnn.training.tasks.graph_properties import GraphProperties
from smpgnn.training.tasks.mixed import MixedTargets
from smpgnn.training.tasks.regression import Regression

__all__ = [
    "Classification",
    "GraphProperties",
    "MixedTargets",
    "MultiLabel",
    "OneLevelTask",
    "Regression",
    "Task",
]

KINDS: dict[str, type[Task]] = {
    kind.__name__: kind
    for kind in (Regression, Classification, MultiLabel, MixedTargets, GraphProperties)
}


def task_from_dict(content: dict[str, Any]) -> Task:
    """The task from the result of `to_dict`."""
    values = dict(content)
    kind = values.pop("kind", None)
    if kind not in KINDS:
        raise InputError(f"unknown task {kind!r}: it may be from a newer version")
    if kind == "MixedTargets":
        parts = values.get("parts")
        if not isinstance(parts, list) or not all(_is_single(part) for part in parts):
            raise InputError("task.parts are not tasks with one target each")
        values["parts"] = [task_from_dict(part) for part in parts]
    task = from_plain(KINDS[kind], values, "task")
    if isinstance(task, OneLevelTask):
        _check(task)
    return task


def _is_single(content: Any) -> bool:
    """Whether these are the values of a task with one target."""
    return isinstance(content, dict) and (
        content.get("kind") == "Classification"
        or (content.get("kind") == "Regression" and len(content.get("names", ())) == 1)
    )


def _check(task: OneLevelTask) -> None:
    """Refuse levels, metrics and losses that the task does not have, and too many values."""
    if task.level not in ("graph", "node"):
        raise InputError(f"task.level is {task.level!r}")
    kind = "mixed" if isinstance(task, MixedTargets) else "classification"
    kind = "regression" if isinstance(task, Regression) else kind
    for name in task.metric_names:
        if name not in METRICS[kind]:
            raise InputError(f"task.metric_names has the unknown metric {name!r}")
    if task.metric_names and not {task.monitor, task.tie or task.monitor} <= {*task.metric_names}:
        raise InputError(f"task.monitor is {task.monitor!r}")
    if isinstance(task, Regression) and task.objective not in LOSSES[kind]:
        raise InputError(f"task.objective is {task.objective!r}")
    for part in task.parts if isinstance(task, MixedTargets) else ():
        if part.level != task.level or not {*part.metric_names} <= {*task.metric_names}:
            raise InputError("task.parts have another level or other metrics")
    try:
        parts = task.target_parts
    except ValueError:  # of `zip`
        parts = ()
    weights = {len(part.class_weights) in (0, len(part.classes)) for part in parts}
    if weights != {True} or (isinstance(task, MixedTargets) and len(task.scales) != len(parts)):
        raise InputError("the task has values for other targets")
