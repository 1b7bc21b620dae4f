"""GAT (Veličković et al., 2018) in the frame of SMP: PyTorch Geometric's, with faster sums."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.context import LocalContext
from smpgnn.errors import InputError
from smpgnn.index import ContextIndex
from smpgnn.layers import SMPLayer
from smpgnn.models.multitask import MultiTaskMPNN
from smpgnn.models.smp import MPNN


class GATLayer(SMPLayer):
    r"""Attention over the neighbours and the node itself, in several heads.

    .. math::
        x_i' = \text{elu}\Bigl(\sum_{j \in N_i \cup \{i\}} \alpha_{ij} W x_j + b\Bigr), \quad
        \alpha_{ij} = \text{softmax}_j\bigl(\text{leakyrelu}(
            a_r^\top W x_i + a_s^\top W x_j + a_e^\top W_e y_{ij})\bigr)

    Each head has its own W and a, and an equal part of the channels; the edge feature of a node
    with itself is the mean of those that arrive. Self loops of the graph count once. Weights and
    results are those of PyTorch Geometric's `GATConv`. Complexity: memory n c + m c, time
    m c + n c².

    Args:
        in_channels: width of the rows.
        out_channels: width of the new rows; a multiple of `heads`.
        edge_channels: number of edge features :math:`y_{ij}`; 0: none.
        heads: number of attention heads.

    Shapes: rows [N, in_channels] to [N, out_channels]; edge_attr [E, edge_channels].
    """

    recordable = True

    def __init__(
        self, in_channels: int, out_channels: int, edge_channels: int = 0, *, heads: int = 1
    ) -> None:
        super().__init__("sum")
        from torch_geometric.nn import GATConv

        if heads < 1 or out_channels % heads:
            raise InputError(f"heads={heads} must divide the {out_channels} channels of a layer.")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.edge_channels, self.heads = edge_channels, heads
        self.conv = GATConv(
            in_channels, out_channels // heads, heads=heads, edge_dim=edge_channels or None
        )

    def forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> LocalContext:
        self.check(context, index, edge_attr)
        conv, edges = self.conv, index.incidence
        values = self._heads(conv.lin(context.rows))  # [N, H, C]
        sent, own = ((values * part).sum(-1) for part in (conv.att_src, conv.att_dst))  # [N, H]
        scores, own_scores = self._scores(sent, own, edge_attr, index)
        # Relative to the score of the node itself, and no exponent above 0.
        scores = scores - edges.from_receivers(own_scores)
        top = edges.max(scores.detach()).clamp(min=0)
        weights, own_weights = (scores - edges.from_receivers(top)).exp(), (-top).exp()
        arriving = self._heads(edges.from_senders(values.flatten(1))) * weights.unsqueeze(2)
        sums = edges.sum(torch.cat([arriving.flatten(1), weights], 1))
        total = self._heads(sums[:, : self.out_channels]) + values * own_weights.unsqueeze(2)
        norm = sums[:, self.out_channels :] + own_weights
        rows = (total / norm.unsqueeze(2)).flatten(1) + conv.bias
        return context.with_rows(F.elu(rows))

    def _scores(
        self, sent: Tensor, own: Tensor, edge_attr: Tensor | None, index: ContextIndex
    ) -> tuple[Tensor, Tensor]:
        """Scores of the edges [E, H], −∞ for self loops, and of each node with itself [N, H]."""
        conv, edges, topology = self.conv, index.incidence, index.topology
        loop = (topology.sender == topology.receiver).unsqueeze(1)
        scores, own_scores = edges.from_senders(sent) + edges.from_receivers(own), sent + own
        if edge_attr is not None:
            # The map is linear: the score of the mean is the mean of the scores.
            maps = conv.lin_edge.weight.view(self.heads, -1, self.edge_channels)  # [H, C, D]
            part = F.linear(edge_attr, (maps * conv.att_edge[0].unsqueeze(2)).sum(1))
            part = part.to(sent.dtype)
            counted = torch.cat([part, torch.ones_like(part[:, :1])], 1).masked_fill(loop, 0.0)
            sums = edges.sum(counted)
            scores = scores + part
            own_scores = own_scores + sums[:, :-1] / sums[:, -1:].clamp(min=1)
        scores = F.leaky_relu(scores, conv.negative_slope).masked_fill(loop, -torch.inf)
        return scores, F.leaky_relu(own_scores, conv.negative_slope)

    def _heads(self, values: Tensor) -> Tensor:
        """The channels of each head, [M, H C] to [M, H, C]."""
        return values.view(-1, self.heads, self.out_channels // self.heads)


class GAT(MPNN):
    """GAT with the extractors and head of `SMP`, whose arguments it takes, and `heads`."""

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"gat": GATLayer}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"layer": "gat", **options})


class MultiTaskGAT(MultiTaskMPNN):
    """GAT for several targets at once, in the frame of `MultiTaskSMP`.

    Takes its arguments, and `heads`. Random identifiers: as in `MultiTaskGINE`.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"gat": GATLayer}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"layer": "gat", **options})
