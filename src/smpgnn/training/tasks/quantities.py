"""The targets of a task, and what members of an ensemble average of each (`Part`)."""

from __future__ import annotations

import torch
from torch import Tensor

from smpgnn.errors import InputError
from smpgnn.training.tasks.base import OneLevelTask, Task
from smpgnn.training.tasks.part import Part

__all__ = ["Part", "numbers", "output_of", "parts_of", "quantities"]


def parts_of(task: Task) -> tuple[Part, ...]:
    """Each target."""
    if not isinstance(task, OneLevelTask):
        raise TypeError(type(task))
    return task.target_parts()


def numbers(task: Task) -> list[Part]:
    """The targets that are numbers."""
    return [part for part in parts_of(task) if not part.classes]


def quantities(task: Task, output: Tensor) -> Tensor:
    """The quantities of an output of the network, [R, Q] in float64."""
    if not isinstance(task, OneLevelTask):
        raise InputError("members need your own data, with targets of graphs or of nodes.")
    return torch.cat([part.quantities(output.double()) for part in task.target_parts()], dim=1)


def output_of(task: Task, values: Tensor) -> Tensor:
    """An output with these quantities, which the task shows and measures; float32."""
    return torch.cat([part.output_of(values) for part in parts_of(task)], dim=1).float()
