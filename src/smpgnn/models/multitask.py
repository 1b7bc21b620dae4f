"""The network for several node and graph targets at once (architecture figure, right)."""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import check_counts
from smpgnn.layers import (
    DefaultSMPLayer,
    FastMPNNLayer,
    FastSMPLayer,
    MPNNLayer,
    RowBatchNorm,
    SMPLayer,
)
from smpgnn.models.backbone import Backbone
from smpgnn.models.smp import layer_factory
from smpgnn.ops import gated_state
from smpgnn.pooling import NodeExtractor, RowExtractor, SetToSet


class MultiTaskSMP(nn.Module):
    """Structural message-passing for node targets and graph targets of the same graphs.

    After every layer a shared extractor gives node features, which (after a relu) a gated recurrent
    unit adds to the state of the node. Node targets are read from the last state by a three-layer
    perceptron; graph targets from a Set2Set of all states of a graph, with as many steps as a state
    has channels, and a two-layer perceptron with batch norm.

    Args:
        in_channels: node features; 0 for none.
        node_channels: numbers to predict for each node.
        graph_channels: numbers to predict for each graph.
        hidden_channels: width of the contexts.
        num_layers: number of layers.
        layer, identifiers, context_radius, edge_channels, norm, norm_place, residual, checkpoint,
            features, layer_options: as in `SMP`.
        extractor_channels: width of the extracted node features.
        state_channels: width of the state of a node.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {
        "default": DefaultSMPLayer,
        "fast": FastSMPLayer,
    }
    extractor_type: ClassVar[type[NodeExtractor] | type[RowExtractor]] = NodeExtractor

    def __init__(
        self,
        in_channels: int,
        node_channels: int,
        graph_channels: int,
        hidden_channels: int,
        num_layers: int,
        layer: str = "default",
        identifiers: str = "onehot",
        edge_channels: int = 0,
        *,
        extractor_channels: int = 32,
        state_channels: int = 16,
        norm: str | None = "batch",
        residual: bool = False,
        checkpoint: bool = False,
        norm_place: str = "before",
        context_radius: int = 3,
        features: str = "own",
        **layer_options: Any,
    ) -> None:
        super().__init__()
        check_counts(
            node_channels=node_channels,
            graph_channels=graph_channels,
            extractor_channels=extractor_channels,
            state_channels=state_channels,
            at_least=1,
        )
        self.backbone = Backbone(
            layer_factory(self.layer_types, layer, edge_channels, layer_options),
            in_channels,
            hidden_channels,
            num_layers,
            edge_channels,
            identifiers,
            norm,
            residual,
            checkpoint,
            norm_place,
            context_radius,
            features,
        )
        self.extractor = self.extractor_type(hidden_channels, extractor_channels)
        self.recurrent = nn.GRUCell(extractor_channels, state_channels)
        self.node_head = nn.Sequential(
            nn.Linear(state_channels, state_channels),
            nn.ReLU(),
            nn.Linear(state_channels, state_channels),
            nn.ReLU(),
            nn.Linear(state_channels, node_channels),
        )
        self.set2set = SetToSet(state_channels, state_channels)
        self.graph_hidden = nn.Linear(2 * state_channels, state_channels)
        self.graph_norm = RowBatchNorm(state_channels)
        self.graph_out = nn.Linear(state_channels, graph_channels)

    def forward(
        self,
        x: Tensor | None,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        num_nodes: int | None = None,
        batch_size: int | None = None,
        index: ContextIndex | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Predictions for the nodes [N, node_channels] and the graphs [B, graph_channels]."""
        index = self.backbone.checked_index(
            x, edge_index, edge_attr, batch, num_nodes, batch_size, index
        )
        index.check_level("graph")
        features = F.relu(self.backbone.extract_all(self.extractor, x, edge_attr, index))
        state = gated_state(features, tuple(self.recurrent.parameters()))
        pooled = self.set2set(state, index)
        hidden = self.graph_norm(LocalContext(self.graph_hidden(pooled), index.graph_layout))
        return self.node_head(state), self.graph_out(F.relu(hidden.rows))


class MultiTaskMPNN(MultiTaskSMP):
    """The ablation of the paper: the frame and layers of `MultiTaskSMP` on node features.

    Takes the arguments of `MultiTaskSMP`; `identifiers` has no meaning here.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {
        "default": MPNNLayer,
        "fast": FastMPNNLayer,
    }
    extractor_type: ClassVar[type[NodeExtractor] | type[RowExtractor]] = RowExtractor

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.backbone.identifiers = "nodes"
