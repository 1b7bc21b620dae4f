"""Torch's recurrent cells, with forward-mode derivatives also on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.ops.backend import transformed

#: The weights of `nn.GRUCell` or `nn.LSTMCell` in their order: the matrices of input and state, and
#: two biases.
CellWeights = tuple[Tensor, Tensor, Tensor, Tensor]


def for_steps(value: Tensor, steps: int) -> tuple[Tensor, ...]:
    """The same tensor for each of several steps, whose gradients are added up all at once."""
    return value.expand(steps, *value.shape).unbind(0)


def gru_cell(x: Tensor, state: Tensor, weights: CellWeights) -> Tensor:
    r"""One step of a gated recurrent unit (GRU).

    .. math::
        r, z &= \sigma(W x + b + V h + c) \\
        n &= \tanh\bigl(W x + b + r \odot (V h + c)\bigr) \\
        h' &= (1 - z) \odot n + z \odot h

    Shapes: x [N, D], state [N, H], weights [3 H, D], [3 H, H], [3 H], [3 H], result [N, H].
    """
    if not transformed():
        return torch.gru_cell(x, state, *weights)
    # The fused cell of a GPU has no forward-mode derivative.
    w, v, b, c = weights
    reset, update, new = F.linear(x, w, b).chunk(3, dim=1)
    reset_state, update_state, new_state = F.linear(state, v, c).chunk(3, dim=1)
    update = (update + update_state).sigmoid()
    new = (new + (reset + reset_state).sigmoid() * new_state).tanh()
    return (1 - update) * new + update * state


def lstm_cell(
    x: Tensor, state: Tensor, memory: Tensor, weights: CellWeights
) -> tuple[Tensor, Tensor]:
    r"""One step of a long short-term memory (LSTM): the new state and memory.

    .. math::
        i, f, n, o &= W x + b + V h + c \\
        m' &= \sigma(f) \odot m + \sigma(i) \odot \tanh n \\
        h' &= \sigma(o) \odot \tanh m'

    Shapes: x [N, D], state and memory [N, H], weights [4 H, D], [4 H, H], [4 H], [4 H].
    """
    if not transformed():
        return torch.lstm_cell(x, (state, memory), *weights)
    w, v, b, c = weights
    write, forget, new, out = (F.linear(x, w, b) + F.linear(state, v, c)).chunk(4, dim=1)
    memory = forget.sigmoid() * memory + write.sigmoid() * new.tanh()
    return out.sigmoid() * memory.tanh(), memory
