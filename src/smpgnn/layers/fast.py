"""The fast SMP layer of section 4: one message per node, and a product instead of MLPs."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError, check_counts
from smpgnn.layers.base import SMPLayer
from smpgnn.layers.linear import TowerLinear, assemble
from smpgnn.layers.set_linear import RowLinear, SetLinear, set_map_type
from smpgnn.ops import fast_core
from smpgnn.ops.backend import WIDEST


class FastSMPLayer(SMPLayer):
    r"""The fast SMP layer, for graphs without edge features.

    .. math::
        U_i' = \hat U_i + \frac1{d_\text{avg}} \Bigl(\sum_{j \in N_i} \hat U_j
               + \hat U_i W_4 \odot \sum_{j \in N_i} \hat U_j W_5\Bigr)

    Args:
        in_channels: width of the contexts.
        out_channels: width of the new contexts.
        towers: number of independent channel groups (not in the paper). The set map has one group
            if `towers` does not divide `in_channels`.
        set_scale: factor on the initial W2 and W3 of the set map (not in the paper).
        set_terms: whether the set map has W2 and W3, which add the mean row. Without them a context
            depends on the surroundings of its node, not on the size of the graph (not in the
            paper).
        own_terms: whether to add the own row to all rows of a context, by `MarkedSetLinear` (not in
            the paper).
        divide_update: divide the whole new context by :math:`d_\text{avg}` instead of the sum over
            the neighbours (in the authors' code, not in the paper).

    Shapes: rows [P, in_channels] to [P, out_channels].
    """

    contained = merges_norm = True
    first_map: ClassVar[type[SetLinear] | type[RowLinear]] = SetLinear

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        edge_channels: int = 0,
        *,
        towers: int = 1,
        set_scale: float = 1.0,
        set_terms: bool = True,
        own_terms: bool = False,
        divide_update: bool = False,
    ) -> None:
        super().__init__("sum")
        if edge_channels:
            raise InputError(
                f"edge_channels={edge_channels}: Fast SMP takes no edge features; "
                "use the default layer."
            )
        self.in_channels, self.out_channels = in_channels, out_channels
        self.divide_update = divide_update
        self.capturable = out_channels <= WIDEST
        check_counts(towers=towers, at_least=1)
        first_towers = towers if in_channels % towers == 0 else 1
        first_map = set_map_type(self.first_map, set_terms, own_terms)
        self.set_map: nn.Module = first_map(in_channels, out_channels, first_towers, set_scale)
        self.w4 = TowerLinear(out_channels, out_channels, towers, bias=False)
        self.w5 = TowerLinear(out_channels, out_channels, towers, bias=False)

    def reset_parameters(self) -> None:
        for module in (self.set_map, self.w4, self.w5):
            module.reset_parameters()  # type: ignore[operator]

    def prepare(self, context: LocalContext, index: ContextIndex) -> LocalContext:
        prepared: LocalContext = self.set_map(context)
        return prepared

    def message(self, u_i: LocalContext, u_j: LocalContext, y_ij: Tensor | None) -> LocalContext:
        return u_j.with_rows(u_j.rows + self.w4(u_i.rows) * self.w5(u_j.rows))

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        if self.divide_update:
            return context.with_rows(index.divide(context.rows + messages.rows))
        scale = index.lift.scale.to(messages.rows.dtype).unsqueeze(1)
        return context.with_rows(context.rows + messages.rows * scale)

    def forward(
        self,
        context: LocalContext,
        index: ContextIndex,
        edge_attr: Tensor | None = None,
        norm: nn.Module | None = None,
        weights: None = None,
    ) -> LocalContext:
        """The new contexts; `norm` normalises the given ones first."""
        self.check(context, index, edge_attr)
        u = self.set_map(context, norm).rows
        w4, w5 = assemble([self.w4, self.w5])
        if self.divide_update:
            rows = index.divide(fast_core(u, w4, w5, index.undivided))
        else:
            rows = fast_core(u, w4, w5, index)
        return LocalContext(rows, index.layout)
