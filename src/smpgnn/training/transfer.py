"""Weights of a trained network: take them over into a new one, and keep some as they are.

The network but its last layer is taken over as it is. Of the last layer, the outputs of targets
that the trained model has, too, are taken over, in the units of the new run; those of other targets
are new. So predictions for common targets equal those of the trained model before the first step.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from smpgnn.errors import InputError
from smpgnn.training.output_columns import OutputColumns, output_columns
from smpgnn.training.saved import SavedModel
from smpgnn.training.tasks import Task

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
    for own, other in common_columns(task, trained.task):
        weight, bias = (old[f"out.{name}"][other.columns].double() for name in ("weight", "bias"))
        new["out.weight"][own.columns].copy_(weight * (other.scale / own.scale))
        shifted = (bias * other.scale + other.mean - own.mean) / own.scale
        new["out.bias"][own.columns].copy_(shifted)


def common_columns(now: Task, before: Task) -> Iterator[tuple[OutputColumns, OutputColumns]]:
    """The outputs of the targets that both tasks have, in each of them."""
    old = {own.meaning: own for own in output_columns(before)}
    for own in output_columns(now):
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
