"""GAT (Veličković et al., 2018) in the architecture of SMP."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError
from smpgnn.layers import SMPLayer
from smpgnn.models.multitask import MultiTaskMPNN
from smpgnn.models.smp import MPNN


class GATLayer(SMPLayer):
    r"""Attention over the neighbours and the node itself, in several heads.

    .. math::
        x_i' = \text{elu}\Bigl(\sum_{j \in N_i \cup \{i\}} \alpha_{ij} W x_j + b\Bigr), \quad
        \alpha_{ij} = \text{softmax}_j\bigl(\text{leakyrelu}(
            a_r^\top W x_i + a_s^\top W x_j + a_e^\top W_e y_{ij})\bigr)

    Each head has its own W and a, and an equal share of the channels. For the node itself,
    :math:`y_{ii}` is the mean of the features of its edges; self loops of the graph are ignored.
    Weights and results are those of PyTorch Geometric's `GATConv`, whose forward pass waits for the
    GPU. Complexity: memory n c + m c, time m c + n c².

    Args:
        in_channels: width of the rows.
        out_channels: width of the new rows; a multiple of `heads`.
        edge_channels: number of edge features :math:`y_{ij}`; 0: none.
        heads: number of attention heads.

    Shapes: rows [N, in_channels] to [N, out_channels]; edge_attr [E, edge_channels].
    """

    capturable = True

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
        conv, edges = self.conv, index.edges
        shape = self.heads, self.out_channels // self.heads
        values = conv.lin(context.rows).to(conv.bias.dtype).view(-1, *shape)  # [N, H, C]
        scores, own = self._scores(values, index, edge_attr)
        # The softmax of scores relative to that of the node itself; no exponent is above 0.
        scores = scores - edges.from_receivers(own)
        top = edges.max(scores.detach()).clamp(min=0)
        weights, own_weights = (scores - edges.from_receivers(top)).exp(), (-top).exp()
        sent = edges.from_senders(values.flatten(1)).view(-1, *shape) * weights.unsqueeze(2)
        total = edges.sum(sent.flatten(1)).view_as(values) + values * own_weights.unsqueeze(2)
        mean = total / (edges.sum(weights) + own_weights).unsqueeze(2)
        return context.with_rows(F.elu(mean.flatten(1) + conv.bias))

    def _scores(
        self, values: Tensor, index: ContextIndex, edge_attr: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Scores of the edges [E, H], −∞ for self loops, and of each node with itself [N, H]."""
        conv, edges, topology = self.conv, index.edges, index.topology
        sender, receiver = ((values * a).sum(-1) for a in (conv.att_src, conv.att_dst))  # [N, H]
        scores, own = edges.from_senders(sender) + edges.from_receivers(receiver), sender + receiver
        loop = (topology.sender == topology.receiver).unsqueeze(1)
        if edge_attr is not None:
            y = conv.lin_edge(edge_attr).to(values.dtype).view(-1, *conv.att_edge.shape[1:])
            part = (y * conv.att_edge).sum(-1)  # [E, H], linear in y
            arrived = edges.sum((~loop).to(part.dtype)).clamp(min=1)
            scores = scores + part
            own = own + edges.sum(part.masked_fill(loop, 0.0)) / arrived
        slope = conv.negative_slope
        scores = F.leaky_relu(scores, slope).masked_fill(loop, -torch.inf)
        return scores, F.leaky_relu(own, slope)


class GAT(MPNN):
    """GAT with the extractors and head of `SMP`, whose arguments it takes, and `heads`."""

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"gat": GATLayer}


class MultiTaskGAT(MultiTaskMPNN):
    """GAT for several targets at once, in the architecture of `MultiTaskSMP`.

    Takes its arguments, and `heads`. Random identifiers: as in `MultiTaskGINE`.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"gat": GATLayer}
