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
from smpgnn.data.targets import TargetSpec, exact
from smpgnn.errors import InputError
from smpgnn.training.scores import is_defined
from smpgnn.training.tasks import Classification, MixedTargets, MultiLabel, OneLevelTask, Regression
from smpgnn.training.tasks.base import one_target, targets_of
from smpgnn.training.tasks.classification import balanced_weights

#: How messages call the targets of each kind of task.
_WORDS = {"regression": "numbers", "classification": "classes"}

Kind = TypeVar("Kind", bound=OneLevelTask)


def own_task(
    options: TableOptions, targets: TargetSpec, splits: Splits, level: str
) -> tuple[OneLevelTask, tuple[str, ...]]:
    """The task, and notes on metrics that have no value."""
    columns = {
        part: list(
            zip(targets.names, targets.kinds, exact_targets(store, level).unbind(1), strict=True)
        )
        for part, store in vars(splits).items()
    }
    task = _with_loss(options, targets, splits.train, level, _losses(options, targets))

    def defined(metric: str) -> bool:
        return any(_has(metric, kind, values) for _, kind, values in columns["val"])

    task, notes = _with_metrics(task, options, targets, defined)
    for part, where in (("val", "validation"), ("test", "test")):
        single = [
            name
            for name, kind, values in columns[part]
            if _has("log_loss", kind, values) and not _has("auc", kind, values)
        ]
        if single:
            notes += (
                f"The {where} split has only one class of {listing(single)}, "
                "so there is no AUC for it.",
            )
    return task, notes


def _has(metric: str, kind: str, values: Tensor) -> bool:
    """Whether a metric of this kind of target has a value on these, [R]; NaN: unknown."""
    if metric == "relative_error":
        metric = METRICS[kind][0]
    return metric in METRICS[kind] and is_defined(metric, values)


def exact_targets(store: GraphStore, level: str) -> Tensor:
    """The targets of a store, NaN if unknown or if only a bound is known."""
    return exact(targets_of(store, level), store.side if level == "graph" else None)


def _losses(options: TableOptions, targets: TargetSpec) -> dict[str, str]:
    """The loss of each kind of target: the one that the options name, or the first."""
    kinds = set(targets.kinds)
    losses = {kind: LOSSES[kind][0] for kind in kinds}
    if options.loss != "auto":
        named = [kind for kind in kinds if options.loss in LOSSES[kind]]
        if not named:
            remedy = f"choose {' or '.join(LOSSES[targets.task])}"
            raise InputError(_misplaced(f"--loss {options.loss}", targets, remedy))
        losses |= dict.fromkeys(named, options.loss)
    if options.class_weight != "none" and targets.task == "regression":
        option = f"--class-weight {options.class_weight}"
        raise InputError(_misplaced(option, targets, "leave it out"))
    return losses


def _misplaced(option: str, targets: TargetSpec, remedy: str) -> str:
    """The sentence on an option for the other kind of targets."""
    here, (other,) = _WORDS[targets.task], set(_WORDS.values()) - {_WORDS[targets.task]}
    return f"{option}: is for {other}, but '{targets.names[0]}' has {here}: {remedy}."


def _with_loss(
    options: TableOptions,
    targets: TargetSpec,
    train: GraphStore,
    level: str,
    losses: dict[str, str],
) -> OneLevelTask:
    if targets.task == "regression":
        loss = losses["regression"]
        return Regression.fit(targets.names, train, level, loss, log10=targets.log10)
    pairs = zip(targets_of(train, level).unbind(1), targets.labels, strict=True)
    balanced = options.class_weight == "balanced"
    weights = [
        balanced_weights(column, len(classes)) if balanced and classes else ()
        for column, classes in pairs
    ]
    binary = all(len(classes) == 2 for classes in targets.labels)
    if len(targets.names) > 1 and binary:
        return MultiLabel(
            names=targets.names,
            classes=tuple((labels[0], labels[1]) for labels in targets.classes),
            level=level,
            class_weights=tuple((first, second) for first, second in weights) if balanced else (),
        )
    tasks: list[OneLevelTask] = []
    for number, (name, classes) in enumerate(zip(targets.names, targets.labels, strict=True)):
        if classes:
            tasks.append(
                Classification(
                    name=name, classes=classes, level=level, class_weights=weights[number]
                )
            )
        else:
            own = one_target(train, number)
            loss = losses["regression"]
            tasks.append(Regression.fit((name,), own, level, loss, log10=targets.log10))
    if len(tasks) == 1:
        return tasks[0]
    parts = [
        replace(task, metric_names=METRICS[kind])
        for task, kind in zip(tasks, targets.kinds, strict=True)
    ]
    return MixedTargets.fit(parts, train, level)


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
    of_classes = metric in METRICS["classification"]
    chosen = replace(
        task,
        monitor=metric,
        larger_is_better=metric not in SMALLER_IS_BETTER,
        tie="log_loss" if of_classes and metric != "log_loss" else "",
        metric_names=(metric, *(name for name in names if name != metric)),
    )
    return chosen, notes
