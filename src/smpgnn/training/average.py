"""The average of the weights over the steps of a training: what is validated, kept and tested."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor, nn

#: The decay of the first steps is (1 + t) / (WARM_UP + t), so that the weights of the start fade.
WARM_UP = 10


class WeightAverage(nn.Module):
    r"""A second network whose weights follow those of the first.

    .. math:: \bar w_t = d_t \bar w_{t-1} + (1 - d_t) w_t, \quad
              d_t = \min\bigl(d, \tfrac{1 + t}{10 + t}\bigr), \quad t = 1, 2, \dots

    The running statistics of batch norms are averaged like weights: those of the first network
    belong to its own weights, the last ones, and not to the average. Counters are copied.

    A network of its own, and not other numbers in the first, so that recorded steps of both keep
    their tensors; and a module, so that it moves to a device and into checkpoints with the rest.

    Args:
        network: the network that is trained.
        decay: :math:`d`, at least 0 and below 1.
    """

    def __init__(self, network: nn.Module, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.network = deepcopy(network).requires_grad_(False)
        self._pairs: list[tuple[list[Tensor], list[Tensor]]] = []

    def follow(self, network: nn.Module) -> None:
        """Say which network is trained; again when one of the two has moved to another device."""
        self._pairs = list(zip(_parted(self.network), _parted(network), strict=True))

    def decay_at(self, step: int) -> float:
        """d_t after step t, counted from 1."""
        return min(self.decay, (1 + step) / (WARM_UP + step))

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take what the network is after step t into the average: two launches on a GPU."""
        (numbers, new_numbers), (counts, new_counts) = self._pairs
        torch._foreach_lerp_(numbers, new_numbers, 1 - self.decay_at(step))
        if counts:
            torch._foreach_copy_(counts, new_counts)


def _parted(network: nn.Module) -> tuple[list[Tensor], list[Tensor]]:
    """All that a network keeps: numbers that can be averaged, and others."""
    values = [*network.parameters(), *network.buffers()]
    return (
        [value for value in values if value.is_floating_point()],
        [value for value in values if not value.is_floating_point()],
    )
