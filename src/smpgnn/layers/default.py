"""The default SMP layer of section 4: MLPs in message and update, with edge features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.config.network import LayerOptions
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.layers.linear import TowerLinear, assemble, joined_maps
from smpgnn.layers.set_linear import side_by_side
from smpgnn.layers.set_map_layer import SetMapLayer
from smpgnn.ops import DefaultWeights, default_core


class DefaultSMPLayer(SetMapLayer):
    r"""The default SMP layer.

    .. math::
        m_{ij} &= W_o\, \text{relu}(W_a \hat U_i + W_b \hat U_j + W_e y_{ij} + b_a) + b_o \\
        U_i' &= W_v\, \text{relu}\Bigl(W_u \hat U_i
                + W_m \sum_{j \in N_i} m_{ij} / d_\text{avg} + b_u\Bigr) + b_v

    The second map of the message commutes with the sum, so `forward` applies it once per row
    instead of once per edge: :math:`\sum_j m_{ij} = W_o \sum_j \text{relu}(\cdot) + \deg_i b_o`.

    The options add to the paper's layer:

    - `towers` groups of channels do not mix in the set map and the message.
    - `set_scale`, `set_terms`, `own_terms`: see `SetLinear` and `MarkedSetLinear`. Without the set
      terms, a context depends on the surroundings of its node and not on the size of the graph.
    - `message_residual` adds :math:`\hat U_j` to the message.
    - `update_residual` adds :math:`\hat U_i` to the new context.
    - `divide_update` divides the whole new context by :math:`d_\text{avg}`, as the authors' code
      does, and not the sum over the neighbours alone.

    Args: those of `SetMapLayer`.

    Shapes: rows [P, in_channels] to [P, out_channels]; edge_attr [E, edge_channels].
    """

    option_names: ClassVar[tuple[str, ...]] = (
        "towers", "set_scale", "set_terms", "own_terms",
        "message_residual", "update_residual", "divide_update",
    )  # fmt: skip

    def add_maps(self, options: LayerOptions) -> None:
        width, towers, edge_channels = self.out_channels, options.towers, self.edge_channels
        self.message_receiver = TowerLinear(width, width, towers)
        self.message_sender = TowerLinear(width, width, towers, bias=False)
        self.message_edge = TowerLinear(edge_channels, width, bias=False) if edge_channels else None
        self.message_out = TowerLinear(width, width, towers)
        self.update_own = TowerLinear(width, width)
        self.update_messages = TowerLinear(width, width, bias=False)
        self.update_out = TowerLinear(width, width)

    def message(self, u_i: LocalContext, u_j: LocalContext, y_ij: Tensor | None) -> LocalContext:
        return self.joined_message(
            u_i, u_j, None if self.message_edge is None else self.message_edge(y_ij)
        )

    def joined_message(
        self, u_i: LocalContext, u_j: LocalContext, edge: Tensor | None
    ) -> LocalContext:
        """The messages of all edges, given what each adds inside the relu, [E, C]."""
        hidden = self.message_receiver(u_i.rows) + self.message_sender(u_j.rows)
        hidden = hidden if edge is None else hidden + u_j.expand(edge)
        rows = self.message_out(F.relu(hidden))
        return u_j.with_rows(rows + u_j.rows if self.options.message_residual else rows)

    def edge_terms(
        self, rows: Tensor, edge_attr: Tensor | None, index: ContextIndex
    ) -> Tensor | None:
        """What each edge adds inside the relu of its messages, [E, C], from edge features."""
        return None if self.message_edge is None else self.message_edge(edge_attr)

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        received = messages.rows
        if not self.options.divide_update:
            received = received * index.lift.scale.to(received.dtype).unsqueeze(1)
        hidden = self.update_own(context.rows) + self.update_messages(received)
        rows: Tensor = self.update_out(F.relu(hidden))
        rows = rows + context.rows if self.options.update_residual else rows
        return context.with_rows(index.divide(rows) if self.options.divide_update else rows)

    @property
    def _maps(self) -> list[TowerLinear]:
        return [
            *self.set_map.maps,
            self.message_receiver,
            self.message_sender,
            self.message_out,
            self.update_messages,
            self.update_own,
            self.update_out,
        ]

    @classmethod
    def assemble_weights(cls, layers: Sequence[DefaultSMPLayer]) -> list[LayerWeights]:
        """The matrices of layers of one width, in as many operations as a single layer takes."""
        maps = [layer._maps for layer in layers]
        assembled = iter(assemble([linear for several in maps for linear in several]))
        found = [[next(assembled) for _ in several] for several in maps]
        set_terms = side_by_side([several[1:-6] for several in found])
        receiver, sender, second, outer, own, out = zip(*(m[-6:] for m in found), strict=True)
        stacked = torch.stack(outer)
        biases = [layer.message_out.offset() for layer in layers]
        relus, relus_bias = joined_maps(second, biases, stacked)
        messages = stacked.unbind(0)
        return [
            LayerWeights(
                [found[n][0], *set_terms[n]],
                DefaultWeights(
                    receiver=receiver[n],
                    sender=sender[n],
                    own=own[n],
                    relus=relus[n],
                    messages=messages[n],
                    out=out[n],
                    receiver_bias=layer.message_receiver.offset(),
                    own_bias=layer.update_own.offset(),
                    relus_bias=relus_bias[n],
                    out_bias=layer.update_out.offset(),
                ),
            )
            for n, layer in enumerate(layers)
        ]

    def forward(
        self,
        context: LocalContext,
        index: ContextIndex,
        edge_attr: Tensor | None = None,
        norm: nn.Module | None = None,
        weights: LayerWeights | None = None,
    ) -> LocalContext:
        """The new contexts; `norm` normalises the given ones first."""
        self.check(context, index, edge_attr)
        rows = self.core(context, index, edge_attr, norm, weights)[1]
        if self.options.divide_update:
            rows = index.divide(rows)
        return LocalContext(rows, index.layout)

    def core(
        self,
        context: LocalContext,
        index: ContextIndex,
        edge_attr: Tensor | None,
        norm: nn.Module | None,
        weights: LayerWeights | None,
    ) -> tuple[LocalContext, Tensor]:
        """The result of the set map, and the new rows."""
        weights = self.assemble_weights([self])[0] if weights is None else weights
        core = weights.core
        message = core.receiver, core.sender, core.receiver_bias
        prepared, terms = self.set_map.transform(context, norm, weights.set_map, message)
        rows = default_core(
            prepared.rows,
            self.edge_terms(prepared.rows, edge_attr, index),
            core,
            index.undivided if self.options.divide_update else index,
            message_residual=self.options.message_residual,
            update_residual=self.options.update_residual,
            terms=terms,
            towers=self.options.towers,
        )
        return prepared, rows


@dataclass(frozen=True, eq=False)
class LayerWeights:
    """The assembled matrices of a default layer: those of its set map, and the others."""

    set_map: list[Tensor]
    core: DefaultWeights
