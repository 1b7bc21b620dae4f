"""The set map Û of section 4: the first step of both parametrisations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smpgnn.context import LocalContext
from smpgnn.layers.linear import TowerLinear
from smpgnn.ops import add_product


class SetLinear(nn.Module):
    r"""A linear map of the rows of each context that treats all nodes but the own one alike.

    .. math::
        \hat U_i = U_i W_1 + \tfrac1n 1 1^\top U_i W_2 + 1 c^\top
                   + \tfrac1n \mathbb 1_i 1^\top U_i W_3

    Args:
        in_channels: width of the contexts.
        out_channels: width of the new contexts.
        towers: number of groups of channels that do not mix (not in the paper).
        set_scale: factor on the initial W2 and W3; small values start the layer near powers of the
            adjacency matrix (not in the paper).

    Shapes: rows [P, in_channels] to [P, out_channels].
    """

    def __init__(
        self, in_channels: int, out_channels: int, towers: int = 1, set_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.w1 = TowerLinear(in_channels, out_channels, towers, bias=False)
        self.w2 = TowerLinear(in_channels, out_channels, towers, bias=True)  # its bias is c
        self.w3 = TowerLinear(in_channels, out_channels, towers, bias=False)
        self.set_scale = set_scale
        self._scale_set_terms()

    def reset_parameters(self) -> None:
        for linear in (self.w1, self.w2, self.w3):
            linear.reset_parameters()
        self._scale_set_terms()

    def _scale_set_terms(self) -> None:
        with torch.no_grad():
            self.w2.weight.mul_(self.set_scale)
            self.w3.weight.mul_(self.set_scale)

    def forward(self, context: LocalContext) -> LocalContext:
        mean = context.mean()
        base = context.expand(self.w2(mean))
        base = base.index_add_(0, context.layout.own, self.w3(mean).to(base.dtype))
        return context.with_rows(add_product(base, context.rows, self.w1.matrix()))


class RowLinear(nn.Module):
    """The set map without its set terms: each row by itself (for the MPNN ablation).

    Shapes: rows [P, in_channels] to [P, out_channels].
    """

    def __init__(
        self, in_channels: int, out_channels: int, towers: int = 1, set_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.w1 = TowerLinear(in_channels, out_channels, towers, bias=True)

    def reset_parameters(self) -> None:
        self.w1.reset_parameters()

    def forward(self, context: LocalContext) -> LocalContext:
        rows: Tensor = self.w1(context.rows)
        return context.with_rows(rows)
