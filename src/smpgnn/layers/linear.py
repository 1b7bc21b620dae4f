"""Linear maps on channels, dense or block-diagonal (towers)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.nn import functional as F

from smpgnn.errors import InputError, check_counts
from smpgnn.ops.backend import transformed


class TowerLinear(nn.Module):
    r"""The map :math:`x W + b`, with :math:`W` block-diagonal if there are several towers.

    t towers split the channels into t groups that do not mix, with t times fewer weights. The
    matmul uses the assembled matrix, because at the widths of SMP one dense matmul is faster than
    t small ones.

    Args:
        in_channels: width of the input, divisible by `towers`.
        out_channels: width of the output, divisible by `towers`.
        towers: number of independent channel groups.
        bias: whether to add :math:`b`.

    Shapes: input [..., in_channels], output [..., out_channels]; weight [towers, in, out].
    """

    def __init__(
        self, in_channels: int, out_channels: int, towers: int = 1, bias: bool = True
    ) -> None:
        super().__init__()
        check_counts(towers=towers, at_least=1)
        if in_channels % towers or out_channels % towers:
            raise InputError(
                f"towers={towers} must divide the channels, {in_channels} and {out_channels}."
            )
        self.in_channels, self.out_channels, self.towers = in_channels, out_channels, towers
        self.weight = nn.Parameter(
            torch.empty(towers, in_channels // towers, out_channels // towers)
        )
        self.bias = nn.Parameter(torch.empty(out_channels)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw uniformly within ±1/√(inputs of a tower), as in `torch.nn.Linear`."""
        bound = 1 / math.sqrt(max(1, self.weight.size(1)))
        nn.init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -bound, bound)

    def matrix(self) -> Tensor:
        """The assembled matrix W, [in_channels, out_channels]."""
        return assemble([self])[0]

    def offset(self) -> Tensor:
        """The bias b, [out_channels]; zeros if there is none."""
        return self.weight.new_zeros(self.out_channels) if self.bias is None else self.bias

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.matrix().t(), self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, towers={self.towers}"


def assemble(linears: Sequence[TowerLinear]) -> list[Tensor]:
    """The matrices W of the maps; maps of the same shape share one set of operations."""
    if transformed():
        return [torch.block_diag(*linear.weight.unbind(0)) for linear in linears]  # type: ignore[no-untyped-call]
    groups: dict[torch.Size, list[int]] = {}
    for place, linear in enumerate(linears):
        groups.setdefault(linear.weight.shape, []).append(place)
    found: dict[int, Tensor] = {}
    for shape, places in groups.items():
        weights = [linears[place].weight for place in places]
        if shape[0] == 1:
            matrices = [_Whole.apply(weight) for weight in weights]  # type: ignore[no-untyped-call]
        else:
            whole: Tensor = _Assembled.apply(*weights)  # type: ignore[no-untyped-call]
            matrices = list(whole.unbind(0))
        found.update(zip(places, matrices, strict=True))
    return [found[place] for place in range(len(linears))]


def joined_maps(
    firsts: Sequence[Tensor], biases: Sequence[Tensor], seconds: Tensor
) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
    """Compose L pairs of maps, x ↦ (x A + b) B, into single ones: A B and b B.

    Shapes: firsts [C, D], biases [D], seconds [L, D, D'] to [C, D'] and [D'], L times each.
    """
    rows = [row for a, b in zip(firsts, biases, strict=True) for row in (a, b.unsqueeze(0))]
    first = torch.cat(rows).view(len(firsts), -1, firsts[0].size(1))
    both = torch.bmm(first, seconds)
    matrices, offsets = torch.split(both, [first.size(1) - 1, 1], dim=1)
    return matrices.unbind(0), offsets.flatten(0, 1).unbind(0)


class _Whole(Function):
    """The matrix of one tower, [1, in, out] to [in, out]; the gradient has the same strides."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor) -> Tensor:
        return weight.squeeze(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad.reshape(-1).view(1, *grad.shape)  # also the strides of dimensions of size 1


class _Assembled(Function):
    """Block-diagonal matrices [m, t in, t out] from their blocks, m times [t, in, out]."""

    @staticmethod
    def forward(ctx: Any, *weights: Tensor) -> Tensor:
        blocks = torch.stack(weights)
        ctx.shape = blocks.shape
        m, t, i, o = blocks.shape
        whole = blocks.new_zeros(m, t * i, t * o)
        _diagonal(whole, blocks.shape).copy_(blocks)
        return whole

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, ...]:
        blocks: tuple[Tensor, ...] = _diagonal(grad, ctx.shape).contiguous().unbind(0)
        return blocks


def _diagonal(whole: Tensor, shape: torch.Size) -> Tensor:
    """The blocks [m, t, in, out] on the diagonals of matrices [m, t in, t out]."""
    m, t, i, o = shape
    return whole.reshape(m, t, i, t, o).diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2)
