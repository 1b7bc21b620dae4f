"""GAT (Veličković et al., 2018) in the frame of SMP: PyTorch Geometric's, with faster sums."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor
from torch.nn import functional as F

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError
from smpgnn.layers import SMPLayer
from smpgnn.models.multitask import MultiTaskMPNN
from smpgnn.models.smp import MPNN
from smpgnn.ops.attention import attention


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
        conv, shape = self.conv, (-1, self.heads, self.out_channels // self.heads)
        values = conv.lin(context.rows).view(shape)  # [N, H, C]
        rows = attention(
            values,
            conv.att_src[0],
            conv.att_dst[0],
            conv.bias.view(shape)[0],
            None if edge_attr is None else self._part(edge_attr),
            index.incidence,
            conv.negative_slope,
        )
        return context.with_rows(rows.flatten(1))

    def _part(self, edge_attr: Tensor) -> Tensor:
        """What edge features add to scores, [E, H]: linear, so of the mean it is the mean."""
        maps = self.conv.lin_edge.weight.view(self.heads, -1, self.edge_channels)  # [H, C, D]
        return F.linear(edge_attr, (maps * self.conv.att_edge[0].unsqueeze(2)).sum(1))


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
