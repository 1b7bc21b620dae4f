"""The fast SMP layer of section 4: one message per node, and a product instead of MLPs."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from smpgnn.config.network import LayerOptions
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError
from smpgnn.layers.linear import TowerLinear, assemble
from smpgnn.layers.set_map_layer import SetMapLayer
from smpgnn.ops import fast_core


class FastSMPLayer(SetMapLayer):
    r"""The fast SMP layer, for graphs without edge features.

    .. math::
        U_i' = \hat U_i + \frac1{d_\text{avg}} \Bigl(\sum_{j \in N_i} \hat U_j
               + \hat U_i W_4 \odot \sum_{j \in N_i} \hat U_j W_5\Bigr)

    The options are those of `DefaultSMPLayer`, without the two residuals.

    Args: those of `SetMapLayer`.

    Shapes: rows [P, in_channels] to [P, out_channels].
    """

    option_names: ClassVar[tuple[str, ...]] = (
        "towers",
        "set_scale",
        "set_terms",
        "own_terms",
        "divide_update",
    )

    def add_maps(self, options: LayerOptions) -> None:
        if self.edge_channels:
            raise InputError(
                f"edge_channels={self.edge_channels}: Fast SMP takes no edge features; "
                "use the default layer."
            )
        width, towers = self.out_channels, options.towers
        self.w4 = TowerLinear(width, width, towers, bias=False)
        self.w5 = TowerLinear(width, width, towers, bias=False)

    def message(self, u_i: LocalContext, u_j: LocalContext, y_ij: Tensor | None) -> LocalContext:
        return u_j.with_rows(u_j.rows + self.w4(u_i.rows) * self.w5(u_j.rows))

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        if self.options.divide_update:
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
        towers = self.options.towers
        if self.options.divide_update:
            rows = index.divide(fast_core(u, w4, w5, index.undivided, towers))
        else:
            rows = fast_core(u, w4, w5, index, towers)
        return LocalContext(rows, index.layout)
