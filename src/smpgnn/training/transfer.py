"""Copy the weights of a trained network into a new one, and freeze some of them.

All layers but the last are copied as they are. Of the last layer, the outputs of targets that both
models have are copied, in the units of the new run; those of other targets are new. So before the
first step, predictions for common targets equal those of the trained model.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from smpgnn.errors import InputError
from smpgnn.training.saved import SavedModel
from smpgnn.training.tasks import Task
from smpgnn.training.tasks.base import parts_of
from smpgnn.training.tasks.part import Part

#: The parts of a network that `freeze` leaves trainable, as prefixes of their parameters.
_HEAD = ("head.", "out.")


def take_weights(network: nn.Module, task: Task, trained: SavedModel) -> None:
    """Copy the weights of a trained model, and buffers such as running statistics.

    `task` is that of the new network.
    """
    old, new = trained.network.state_dict(), network.state_dict()
    for name, value in new.items():
        if name.startswith("out."):
            continue
        if name not in old or old[name].shape != value.shape:
            raise InputError(f"--from: its weights '{name}' do not fit this network.")
        value.copy_(old[name])
    for own, other in common_parts(task, trained.task):
        here, there = list(own.columns), list(other.columns)
        weight, bias = (old[f"out.{name}"][there].double() for name in ("weight", "bias"))
        scaled = weight * (other.scale / own.scale)
        shifted = (bias * other.scale + other.mean - own.mean) / own.scale
        new["out.weight"][here] = scaled.to(new["out.weight"].dtype)
        new["out.bias"][here] = shifted.to(new["out.bias"].dtype)


def common_parts(now: Task, before: Task) -> Iterator[tuple[Part, Part]]:
    """The outputs of the targets that both tasks have, in each of them."""
    old = {own.meaning: own for own in parts_of(before)}
    for own in parts_of(now):
        if own.meaning in old:
            yield own, old[own.meaning]


def freeze(network: nn.Module) -> tuple[nn.Module, ...]:
    """Exclude all weights but those of the head from training.

    Returns the modules without a trained weight; they belong in eval mode, or their running
    statistics would change.
    """
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name.startswith(_HEAD))
    return tuple(
        module
        for module in network.children()
        if not any(parameter.requires_grad for parameter in module.parameters())
        and not isinstance(module, nn.Dropout)
    )
