"""GIN with edge features (GINE; Hu et al., 2020); without them, GIN."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.layers import SMPLayer
from smpgnn.models.multitask import MultiTaskMPNN
from smpgnn.models.smp import MPNN


class GINELayer(SMPLayer):
    r"""The convolution of GIN (Xu et al., 2019), with edge features that of GINE.

    .. math::
        x_i' = \text{MLP}\Bigl(x_i + \sum_{j \in N_i} x_j\Bigr) \quad\text{or}\quad
        x_i' = \text{MLP}\Bigl(x_i + \sum_{j \in N_i} \text{relu}(x_j + W_e y_{ij} + b_e)\Bigr)

    The MLP has two layers. Weights and results are those of PyTorch Geometric's `GINConv` and
    `GINEConv` with eps 0. Complexity: memory n c (with edge features m c), time m c + n c².

    Args:
        in_channels: width of the rows.
        out_channels: width of the new rows and of the hidden layer.
        edge_channels: number of edge features :math:`y_{ij}`; 0: none, plain GIN.

    Shapes: rows [N, in_channels] to [N, out_channels]; edge_attr [E, edge_channels].
    """

    capturable = True

    def __init__(self, in_channels: int, out_channels: int, edge_channels: int = 0) -> None:
        super().__init__("sum")
        from torch_geometric.nn import GINConv, GINEConv

        self.in_channels, self.out_channels = in_channels, out_channels
        self.edge_channels = edge_channels
        mlp = nn.Sequential(
            nn.Linear(in_channels, out_channels),
            nn.ReLU(),
            nn.Linear(out_channels, out_channels),
        )
        self.conv = GINEConv(mlp, edge_dim=edge_channels) if edge_channels else GINConv(mlp)

    def forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> LocalContext:
        self.check(context, index, edge_attr)
        edges, x = index.edges, context.rows
        message = edges.from_senders(x)
        if edge_attr is not None:
            message = F.relu(message + self.conv.lin(edge_attr))
        return context.with_rows(self.conv.nn(x + edges.sum(message)))


class GINE(MPNN):
    """GIN, with or without edge features, with the extractors and head of `SMP`.

    Takes the arguments of `SMP`. For ZINC, 5 layers of width 92 with `extractor_channels=64` and
    `shared_extractor=True` have about 100,000 parameters.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"gine": GINELayer}


class MultiTaskGINE(MultiTaskMPNN):
    """GIN for several targets at once, in the architecture of `MultiTaskSMP`.

    Takes its arguments.

    The random identifiers of the graph-properties benchmark (Corso et al., 2020) are a uniform node
    feature of its graphs, on which one target depends. So nothing is appended or redrawn here, and
    the network is equivariant.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"gine": GINELayer}
