"""GIN (Xu et al., 2019) in the frame of SMP: that of PyTorch Geometric, with a faster sum."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from smpgnn.baselines.perceptrons import NormalInput, run_perceptron
from smpgnn.context import ContextIndex, LocalContext
from smpgnn.errors import InputError
from smpgnn.layers import SMPLayer
from smpgnn.models.smp import MPNN
from smpgnn.ops.sparse import sparse_apply


class GINLayer(SMPLayer):
    """GIN convolution with eps 0 and a two-layer perceptron, on one row a node.

    Shapes: rows [N, in_channels] to [N, out_channels].
    """

    recordable = True
    contained = True

    def __init__(self, in_channels: int, out_channels: int, edge_channels: int = 0) -> None:
        super().__init__("sum")
        from torch_geometric.nn import GINConv

        if edge_channels:
            raise InputError(f"edge_channels={edge_channels}: GIN takes no edge features.")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.conv = GINConv(
            nn.Sequential(
                nn.Linear(in_channels, out_channels),
                nn.ReLU(),
                nn.Linear(out_channels, out_channels),
            )
        )

    def forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> LocalContext:
        self.check(context, index, edge_attr)
        rows = context.rows + sparse_apply(context.rows, *index.adjacent)
        return context.with_rows(run_perceptron(self.conv.nn, NormalInput(context.layout, rows)))


class GIN(MPNN):
    """GIN with the extractors and head of `SMP`, so that only the convolution differs."""

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"gin": GINLayer}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"layer": "gin", **options})
