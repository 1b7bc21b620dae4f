"""One step of torch's recurrent cells, for inputs that have been multiplied with their matrix.

So the inputs of all steps are multiplied at once. On a GPU, each step is one kernel of torch and
the matmul of the state.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.ops.backend import transformed


def for_steps(value: Tensor, steps: int) -> tuple[Tensor, ...]:
    """The same tensor for each of several steps, whose gradients are added up all at once."""
    return value.expand(steps, *value.shape).unbind(0)


def gru_step(gates: Tensor, state: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    r"""One step of a gated recurrent unit (GRU) with the gates :math:`g = W x + b` of the input x.

    .. math::
        r, z &= \sigma(g + V h + c) \\
        n &= \tanh\bigl(g + r \odot (V h + c)\bigr) \\
        h' &= (1 - z) \odot n + z \odot h

    Shapes: gates [N, 3 H], state h [N, H], matrix V [3 H, H], bias c [3 H] or [N, 3 H], result
    [N, H].
    """
    own = torch.addmm(bias, state, matrix.T)
    if _is_fused(gates):
        new: Tensor = torch.ops.aten._thnn_fused_gru_cell(gates, own, state)[0]
        return new
    reset, update, new = gates.chunk(3, dim=1)
    own_reset, own_update, own_new = own.chunk(3, dim=1)
    update = (update + own_update).sigmoid()
    new = (new + (reset + own_reset).sigmoid() * own_new).tanh()
    return new + update * (state - new)


def lstm_step(
    gates: Tensor, state: Tensor, memory: Tensor, matrix: Tensor
) -> tuple[Tensor, Tensor]:
    r"""One step of a long short-term memory (LSTM): the new state and memory.

    The gates :math:`g = W x + b + c` are those of the input x, with both biases.

    .. math::
        i, f, n, o &= g + V h \\
        m' &= \sigma(f) \odot m + \sigma(i) \odot \tanh n \\
        h' &= \sigma(o) \odot \tanh m'

    Shapes: gates [N, 4 H], state h and memory m [N, H], matrix V [4 H, H].
    """
    if _is_fused(gates):
        own = F.linear(state, matrix)
        state, memory, _ = torch.ops.aten._thnn_fused_lstm_cell(gates, own, memory)
        return state, memory
    write, forget, new, out = torch.addmm(gates, state, matrix.T).chunk(4, dim=1)
    memory = forget.sigmoid() * memory + write.sigmoid() * new.tanh()
    return out.sigmoid() * memory.tanh(), memory


def _is_fused(gates: Tensor) -> bool:
    """Whether torch has a kernel: on a GPU, but without forward-mode derivatives."""
    return gates.is_cuda and not transformed()
