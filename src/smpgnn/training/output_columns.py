"""The outputs of a task by target: which columns a target has, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from smpgnn.training.tasks import Classification, MixedTargets, MultiLabel, Regression, Task


@dataclass(frozen=True)
class OutputColumns:
    """The columns of one target in the output of a network.

    A number has one column, which is standardised with `mean` and `scale`. Classes have a column
    each, or two of them a single one.

    Args:
        name: of the target.
        columns: where its outputs are.
        classes: labels; empty for numbers.
        mean, scale: of numbers.
        log10: the numbers are logarithms.
    """

    name: str
    columns: slice
    classes: tuple[str, ...] = ()
    mean: float = 0.0
    scale: float = 1.0
    log10: bool = False

    @property
    def meaning(self) -> tuple[object, ...]:
        """Equal for outputs that predict the same, up to mean and scale."""
        return self.name, self.classes, self.columns.stop - self.columns.start, self.log10


def output_columns(task: Task) -> Sequence[OutputColumns]:
    """The outputs of each target, in order; none for tasks other than your own."""
    if isinstance(task, Regression):
        numbers = zip(task.names, task.mean, task.scale, strict=True)
        return [
            OutputColumns(name, slice(k, k + 1), mean=mean, scale=scale, log10=task.log10)
            for k, (name, mean, scale) in enumerate(numbers)
        ]
    if isinstance(task, Classification):
        whole = slice(0, task.outputs)
        return [OutputColumns(task.name, whole, task.classes)]
    if isinstance(task, MultiLabel):
        labels = zip(task.names, task.classes, strict=True)
        return [
            OutputColumns(name, slice(k, k + 1), classes)
            for k, (name, classes) in enumerate(labels)
        ]
    if isinstance(task, MixedTargets):
        return [
            replace(one, columns=slice(own.start + one.columns.start, own.start + one.columns.stop))
            for part, own in task.pieces()
            for one in output_columns(part)
        ]
    return []
