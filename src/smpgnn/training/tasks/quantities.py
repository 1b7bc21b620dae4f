"""The outputs of a task by target, and what members of an ensemble average.

An ensemble averages quantities: numbers as they are learned, and probabilities of classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import singledispatch

import torch
from torch import Tensor

from smpgnn.errors import InputError
from smpgnn.training.tasks.base import Task
from smpgnn.training.tasks.classification import Classification, MultiLabel
from smpgnn.training.tasks.mixed import MixedTargets
from smpgnn.training.tasks.regression import Regression

#: Smallest probability; its logarithm is finite.
_LEAST = 1e-30


@dataclass(frozen=True)
class Part:
    """The quantities of one target: a number, or the probability of each class.

    With two classes there may be only that of the second. `columns` are their indices among the
    quantities and among the outputs of the network; `classes` is empty for a number. With `log10`
    the number is a logarithm. The network predicts numbers minus `mean`, divided by `scale`.
    """

    name: str
    columns: tuple[int, ...]
    classes: tuple[str, ...] = ()
    log10: bool = False
    mean: float = 0.0
    scale: float = 1.0

    @property
    def meaning(self) -> tuple[object, ...]:
        """Equal for outputs that predict the same, up to mean and scale."""
        return self.name, self.classes, len(self.columns), self.log10

    def shown(self, values: Tensor) -> Tensor:
        """Quantities of a number in the units of the table."""
        return torch.pow(10.0, values) if self.log10 else values


@singledispatch
def quantities(task: Task, output: Tensor) -> Tensor:
    """The quantities of an output of the network, [R, Q] in float64."""
    raise InputError("members need your own data, with targets of graphs or of nodes.")


@singledispatch
def output_of(task: Task, values: Tensor) -> Tensor:
    """An output with these quantities, which the task shows and measures; float32."""
    raise TypeError(type(task))


@singledispatch
def parts_of(task: Task) -> tuple[Part, ...]:
    """The quantities of each target."""
    raise TypeError(type(task))


@quantities.register
def _(task: Regression, output: Tensor) -> Tensor:
    output = output.double()
    return output * output.new_tensor(task.scale) + output.new_tensor(task.mean)


@output_of.register
def _(task: Regression, values: Tensor) -> Tensor:
    return ((values - values.new_tensor(task.mean)) / values.new_tensor(task.scale)).float()


@parts_of.register
def _(task: Regression) -> tuple[Part, ...]:
    values = zip(task.names, task.mean, task.scale, strict=True)
    return tuple(
        Part(name, (number,), log10=task.log10, mean=mean, scale=scale)
        for number, (name, mean, scale) in enumerate(values)
    )


@quantities.register
def _(task: Classification, output: Tensor) -> Tensor:
    return output.double().softmax(1)


@output_of.register
def _(task: Classification, values: Tensor) -> Tensor:
    return values.clamp(min=_LEAST).log().float()


@parts_of.register
def _(task: Classification) -> tuple[Part, ...]:
    return (Part(task.name, tuple(range(len(task.classes))), task.classes),)


@quantities.register
def _(task: MultiLabel, output: Tensor) -> Tensor:
    return output.double().sigmoid()


@output_of.register
def _(task: MultiLabel, values: Tensor) -> Tensor:
    return (values.clamp(min=_LEAST).log() - (1 - values).clamp(min=_LEAST).log()).float()


@parts_of.register
def _(task: MultiLabel) -> tuple[Part, ...]:
    pairs = zip(task.names, task.classes, strict=True)
    return tuple(Part(name, (number,), labels) for number, (name, labels) in enumerate(pairs))


@quantities.register
def _(task: MixedTargets, output: Tensor) -> Tensor:
    return torch.cat([quantities(part, output[:, own]) for part, own in task.pieces()], dim=1)


@output_of.register
def _(task: MixedTargets, values: Tensor) -> Tensor:
    return torch.cat([output_of(part, values[:, own]) for part, own in task.pieces()], dim=1)


@parts_of.register
def _(task: MixedTargets) -> tuple[Part, ...]:
    found: list[Part] = []
    for piece, own in task.pieces():
        for part in parts_of(piece):
            columns = tuple(own.start + column for column in part.columns)
            found.append(replace(part, columns=columns))
    return tuple(found)


def probabilities(part: Part, values: Tensor) -> Tensor:
    """The probabilities of all classes of a target, [R, C]."""
    own = values[:, list(part.columns)]
    return own if own.size(1) > 1 else torch.cat([1 - own, own], dim=1)


def with_probabilities(part: Part, values: Tensor, shares: Tensor) -> Tensor:
    """The quantities with other probabilities of the classes of a target."""
    values = values.clone()
    values[:, list(part.columns)] = shares[:, -len(part.columns) :]
    return values


def numbers(task: Task) -> list[Part]:
    """The targets that are numbers."""
    return [part for part in parts_of(task) if not part.classes]
