"""Recurrent units: one that reads the nodes of graphs, one that reads what nodes have been."""

# no `from __future__ import annotations`: torch reads the types of the operators

from typing import Any, Optional

import torch
from torch import Tensor

from smpgnn.ops.cuda.operator import operator
from smpgnn.ops.kernels import recurrent as recurrent_kernels
from smpgnn.ops.kernels import set_to_set as set_to_set_kernels
from smpgnn.ops.kernels.tiles import accumulator


@operator("set_to_set")
def set_to_set(
    x: Tensor, weights: list[Tensor], steps: int, ptr: Tensor, counted: Optional[Tensor]  # noqa: UP045
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Hidden and read after the last step, and what is kept of all steps."""
    weights = [weight.contiguous() for weight in weights]
    return set_to_set_kernels.set_to_set(x.contiguous(), weights, steps, ptr, counted)


@set_to_set.register_fake
def _(x: Tensor, weights: Any, steps: int, ptr: Tensor, counted: Any) -> tuple[Tensor, Tensor]:
    count, channels = ptr.numel() - 1, x.size(1)
    kept = x.new_empty(steps + 1, count, 8, channels, dtype=accumulator(x))
    return x.new_empty(count, 2 * channels), kept


@operator("set_to_set_backward")
def set_to_set_backward(
    grad: Tensor,
    x: Tensor,
    weights: list[Tensor],
    kept: Tensor,
    ptr: Tensor,
    counted: Optional[Tensor],  # noqa: UP045
) -> tuple[Tensor, Tensor]:
    """The gradient of x, and those of the weights one after another."""
    weights = [weight.contiguous() for weight in weights]
    return set_to_set_kernels.set_to_set_backward(
        grad.contiguous(), x.contiguous(), weights, kept, ptr, counted
    )


@set_to_set_backward.register_fake
def _(grad: Tensor, x: Tensor, weights: list[Tensor], kept: Tensor, *_: Any) -> Any:
    return torch.empty_like(x), kept.new_empty(sum(weight.numel() for weight in weights))


@operator("gated_state")
def gated_state(given: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The state after the last step, and what is kept of all steps."""
    weights = [weight.contiguous() for weight in weights]
    return recurrent_kernels.gated_state(given.contiguous(), *weights)


@gated_state.register_fake
def _(given: Tensor, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    steps, nodes, channels = given.size(0), given.size(1), weights[0].size(1)
    kept = given.new_empty(steps, nodes, 5, channels, dtype=accumulator(given))
    return given.new_empty(nodes, channels), kept


@operator("gated_state_backward")
def gated_state_backward(grad: Tensor, kept: Tensor, of_state: Tensor) -> tuple[Tensor, Tensor]:
    """The gradient of what the input gave, and those of the weights one after another."""
    return recurrent_kernels.gated_state_backward(grad.contiguous(), kept, of_state.contiguous())


@gated_state_backward.register_fake
def _(grad: Tensor, kept: Tensor, of_state: Any) -> tuple[Tensor, Tensor]:
    steps, nodes, _, channels = kept.shape
    total = 3 * channels * channels + 6 * channels
    return grad.new_empty(steps, nodes, 3 * channels), kept.new_empty(total)
