"""The set map Û of section 4, the first step of the default and the fast layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.contexts.context import LocalContext
from smpgnn.errors import InputError
from smpgnn.layers.linear import TowerLinear, assemble
from smpgnn.layers.norm import RowBatchNorm
from smpgnn.ops import fold, set_linear
from smpgnn.ops.backend import fused_product


class SetLinear(nn.Module):
    r"""A linear map on the rows of each context that treats all rows except the own one alike.

    .. math::
        \hat U_i = U_i W_1 + \tfrac1n 1 1^\top U_i W_2 + 1 c^\top
                   + \tfrac1n \mathbb 1_i 1^\top U_i W_3

    Args:
        in_channels: width of the contexts.
        out_channels: width of the new contexts.
        towers: number of independent channel groups (not in the paper).
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

    @property
    def maps(self) -> list[TowerLinear]:
        """The maps whose matrices `transform` takes."""
        return [self.w1, self.w2, self.w3]

    def forward(self, context: LocalContext, norm: nn.Module | None = None) -> LocalContext:
        """Û; `norm` normalises the contexts first."""
        w1, *others = assemble(self.maps)
        return self.transform(context, norm, [w1, *side_by_side([others])[0]], ())[0]

    def transform(
        self,
        context: LocalContext,
        norm: nn.Module | None,
        matrices: list[Tensor],
        message: tuple[Tensor, ...],
    ) -> tuple[LocalContext, Tensor | None]:
        """Û and, if a kernel computes both, terms of the messages (`smpgnn.ops.set_linear`).

        `matrices` are W1 and the result of `side_by_side` for the others. A batch norm before the
        map is merged with the weights, which saves a pass over the rows.
        """
        (w1, maps), bias, affine = matrices, self.w2.offset(), None
        if not isinstance(norm, RowBatchNorm):
            context = context if norm is None else norm(context)
        elif norm.training and norm.has_kernel(context.rows) and fused_product(w1, w1):
            context = context.measured(squares=True)
            assert context.moments is not None
            pairs = maps.view(-1, w1.size(0), maps.size(1))
            merged = fold(context.moments, context.layout.count, norm.state(), w1, pairs, bias)
            matrix, both, mean = merged
            rows, terms = set_linear(
                context.rows, matrix, both, context.layout, mean, message, folded=True
            )
            return LocalContext(rows, context.layout), terms
        else:
            context, affine = norm.as_affine(context)
        values = [context.mean(), context.own()][: maps.size(0) // w1.size(0)]
        center, matrix = None, w1
        if affine is not None:
            values = [affine(value) for value in values]
            bias = bias + affine.shift.to(w1.dtype) @ w1
            center, matrix = affine.center, affine.scale.unsqueeze(1) * w1
        both = F.linear(torch.cat(values, 1), maps.t(), torch.cat([bias, torch.zeros_like(bias)]))
        rows, terms = set_linear(
            context.rows, matrix, both, context.layout, center, message, towers=self.w1.towers
        )
        return LocalContext(rows, context.layout), terms


class MarkedSetLinear(SetLinear):
    r"""The set map with two more terms, which add the own row to all rows of a context.

    .. math::
        \hat U_i = \text{SetLinear}(U_i) + 1\, U_i[i, :]\, W_\text{all}
                   + \mathbb 1_i\, U_i[i, :]\, W_\text{own}

    Up to a bias of the own row, this is the most general linear map that treats all rows except the
    own one alike (not in the paper). In the paper's map the other rows receive the features of the
    node only through the mean, with weight 1/n.

    Args and shapes: those of `SetLinear`.
    """

    def __init__(
        self, in_channels: int, out_channels: int, towers: int = 1, set_scale: float = 1.0
    ) -> None:
        super().__init__(in_channels, out_channels, towers, set_scale)
        self.own_to_all = TowerLinear(in_channels, out_channels, towers, bias=False)
        self.own_to_own = TowerLinear(in_channels, out_channels, towers, bias=False)

    def reset_parameters(self) -> None:
        super().reset_parameters()
        self.own_to_all.reset_parameters()
        self.own_to_own.reset_parameters()

    @property
    def maps(self) -> list[TowerLinear]:
        return [self.w1, self.w2, self.w3, self.own_to_all, self.own_to_own]


class RowLinear(nn.Module):
    """The set map without W2 and W3: a linear map on each row.

    Shapes: rows [P, in_channels] to [P, out_channels].
    """

    def __init__(
        self, in_channels: int, out_channels: int, towers: int = 1, set_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.w1 = TowerLinear(in_channels, out_channels, towers, bias=True)

    def reset_parameters(self) -> None:
        self.w1.reset_parameters()

    @property
    def maps(self) -> list[TowerLinear]:
        return [self.w1]

    def forward(self, context: LocalContext, norm: nn.Module | None = None) -> LocalContext:
        return self.transform(context, norm, assemble(self.maps), ())[0]

    def transform(
        self,
        context: LocalContext,
        norm: nn.Module | None,
        matrices: list[Tensor],
        message: tuple[Tensor, ...],
    ) -> tuple[LocalContext, Tensor | None]:
        """As `SetLinear.transform`, without terms of the messages."""
        context = context if norm is None else norm(context)
        return context.with_rows(F.linear(context.rows, matrices[0].t(), self.w1.bias)), None


def side_by_side(matrices: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
    """For each set map [W2, W3], applied to the means, above the matrices for the own rows, if any.

    Shapes: none, 2 or 4 matrices [C, D] per set map, to none or one [C, 2 D] or [2 C, 2 D].
    """
    if not matrices[0]:
        return [[] for _ in matrices]
    halves = [torch.cat([m for maps in matrices for m in maps[half::2]]) for half in (0, 1)]
    heights = [sum(m.size(0) for m in maps[::2]) for maps in matrices]
    return [[part] for part in torch.split(torch.cat(halves, dim=1), heights)]


def set_map_type(
    usual: type[SetLinear] | type[RowLinear], set_terms: bool, own_terms: bool
) -> type[SetLinear] | type[RowLinear]:
    """The first map of a layer, given the usual one and the options."""
    if not own_terms:
        return usual if set_terms else RowLinear
    if usual is RowLinear or not set_terms:
        raise InputError("own_terms=True needs contexts and set_terms=True.")
    return MarkedSetLinear
