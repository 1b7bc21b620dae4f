"""The task of a run on your own data: its loss, the weights of its classes, and its metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from torch import Tensor

from smpgnn.config.metrics import LOSSES, METRICS, SMALLER_IS_BETTER
from smpgnn.config.options import TableOptions
from smpgnn.data.base import Splits
from smpgnn.data.store import GraphStore
from smpgnn.data.tables import listing
from smpgnn.data.targets import TargetSpec
from smpgnn.errors import InputError
from smpgnn.training.scores import is_defined
from smpgnn.training.tasks import Classification, MultiLabel, OneLevelTask, Regression
from smpgnn.training.tasks.classification import balanced_weights

#: How messages call the targets of each kind of task.
_WORDS = {"regression": "numbers", "classification": "classes"}

Kind = TypeVar("Kind", bound=OneLevelTask)


def own_task(
    options: TableOptions, targets: TargetSpec, splits: Splits, level: str
) -> tuple[OneLevelTask, tuple[str, ...]]:
    """The task, and notes on metrics that have no value."""
    columns = {
        name: list(zip(targets.names, _targets(store, level).unbind(1), strict=True))
        for name, store in vars(splits).items()
    }
    loss = _loss(options, targets)
    task = _with_loss(options, targets, splits.train, level, loss)
    known = [column for _, column in columns["val"]]

    def defined(metric: str) -> bool:
        return any(is_defined(metric, column) for column in known)

    task, notes = _with_metrics(task, options, targets, defined)
    if targets.task == "classification":
        for part, name in (("val", "validation"), ("test", "test")):
            single = [
                name
                for name, column in columns[part]
                if is_defined("log_loss", column) and not is_defined("auc", column)
            ]
            if single:
                notes += (
                    f"The {name} split has only one class of {listing(single)}, "
                    "so there is no AUC for it.",
                )
    return task, notes


def _targets(store: GraphStore, level: str) -> Tensor:
    target = store.y if level == "graph" else store.y_node
    assert target is not None
    return target


def _loss(options: TableOptions, targets: TargetSpec) -> str:
    """The loss that the options name, or the first one of this kind of target."""
    losses = LOSSES[targets.task]
    loss = losses[0] if options.loss == "auto" else options.loss
    if loss not in losses:
        raise InputError(_misplaced(f"--loss {loss}", targets, f"choose {' or '.join(losses)}"))
    if options.class_weight != "none" and targets.task == "regression":
        option = f"--class-weight {options.class_weight}"
        raise InputError(_misplaced(option, targets, "leave it out"))
    return loss


def _misplaced(option: str, targets: TargetSpec, remedy: str) -> str:
    """The sentence on an option for the other kind of targets."""
    here, (other,) = _WORDS[targets.task], set(_WORDS.values()) - {_WORDS[targets.task]}
    return f"{option}: is for {other}, but '{targets.names[0]}' has {here}: {remedy}."


def _with_loss(
    options: TableOptions, targets: TargetSpec, train: GraphStore, level: str, loss: str
) -> OneLevelTask:
    if targets.task == "regression":
        return Regression.fit(targets.names, train, level, loss)
    pairs = zip(_targets(train, level).unbind(1), targets.classes, strict=True)
    weights = [balanced_weights(column, len(classes)) for column, classes in pairs]
    balanced = options.class_weight == "balanced"
    if len(targets.names) == 1:
        return Classification(
            name=targets.names[0],
            classes=targets.classes[0],
            level=level,
            class_weights=weights[0] if balanced else (),
        )
    return MultiLabel(
        names=targets.names,
        classes=tuple((labels[0], labels[1]) for labels in targets.classes),
        level=level,
        class_weights=tuple((first, second) for first, second in weights) if balanced else (),
    )


def _with_metrics(
    task: Kind, options: TableOptions, targets: TargetSpec, defined: Callable[[str], bool]
) -> tuple[Kind, tuple[str, ...]]:
    """The task with its metrics, the one that chooses the model first, and notes.

    Classes with equal values of it are compared by their log loss.
    """
    names, metric = METRICS[targets.task], options.metric
    notes: tuple[str, ...] = ()
    if metric == "auto":
        metric = names[0]
        if not defined(metric):
            metric = "log_loss"
            notes = ("The model is chosen by its log loss.",)
    elif metric not in names:
        remedy = f"choose {', '.join(names[:-1])} or {names[-1]}"
        raise InputError(_misplaced(f"--metric {metric}", targets, remedy))
    elif not defined(metric):
        raise InputError(
            f"--metric {metric}: has no value on the validation split, whose targets are all "
            "equal: choose another metric or split differently."
        )
    classes = targets.task == "classification"
    chosen = replace(
        task,
        monitor=metric,
        larger_is_better=metric not in SMALLER_IS_BETTER,
        tie="log_loss" if classes and metric != "log_loss" else "",
        metric_names=(metric, *(name for name in names if name != metric)),
    )
    return chosen, notes
