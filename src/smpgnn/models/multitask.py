"""The network for node targets and graph targets together (architecture figure, right)."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.config.network import NetworkOptions
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import check_counts
from smpgnn.layers import FastMPNNLayer, MPNNLayer, RowBatchNorm, SMPLayer
from smpgnn.models.base import Network
from smpgnn.ops import for_steps, gru_step
from smpgnn.pooling import NodeExtractor, RowExtractor, SetToSet

#: Default width of the extracted node features.
EXTRACTOR_CHANNELS = 32


class MultiTaskSMP(Network):
    """Structural message-passing for node targets and graph targets of the same graphs.

    After every layer a shared extractor computes node features, and a gated recurrent unit updates
    the state of each node with them (after a relu). A three-layer perceptron maps the last states
    to the node targets. A Set2Set over the states of a graph, with as many steps as a state has
    channels, and a two-layer perceptron with batch norm give the graph targets.

    Args:
        in_channels: number of node features; 0: none.
        node_channels: number of outputs per node.
        graph_channels: number of outputs per graph.
        hidden_channels: width of the contexts.
        num_layers: number of layers.
        layer, identifiers, edge_channels, options, changes: as in `SMP`, but the default norm is
            'batch', and the default width of extracted features 32.
        state_channels: width of the state of a node.
    """

    default_options = NetworkOptions(norm="batch")
    extractor_type: ClassVar[type[NodeExtractor] | type[RowExtractor]] = NodeExtractor

    def __init__(
        self,
        in_channels: int,
        node_channels: int,
        graph_channels: int,
        hidden_channels: int | None = None,
        num_layers: int | None = None,
        layer: str | None = None,
        identifiers: str | None = None,
        edge_channels: int = 0,
        *,
        state_channels: int = 16,
        options: NetworkOptions | None = None,
        **changes: Any,
    ) -> None:
        super().__init__(
            in_channels,
            edge_channels,
            layer,
            options,
            hidden_channels=hidden_channels,
            num_layers=num_layers,
            identifiers=identifiers,
            **changes,
        )
        check_counts(
            node_channels=node_channels,
            graph_channels=graph_channels,
            state_channels=state_channels,
            at_least=1,
        )
        extractor_channels = self.options.extractor_channels or EXTRACTOR_CHANNELS
        self.extractor = self.extractor_type(self.options.hidden_channels, extractor_channels)
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
        found: tuple[Tensor, Tensor] | None = self._replayed(
            edge_index, x, edge_attr, batch, num_nodes, batch_size, index
        )
        if found is not None:
            return found
        index = self.backbone.checked_index(
            x, edge_index, edge_attr, batch, num_nodes, batch_size, index
        )
        index.check_level("graph")
        features = F.relu(self.backbone.extract_all(self.extractor, x, edge_attr, index))
        state = self._last_state(features)
        pooled = self.set2set(state, index)
        hidden = self.graph_norm(LocalContext(self.graph_hidden(pooled), index.graphs.layout))
        return self.node_head(state), self.graph_out(F.relu(hidden.rows))

    def _last_state(self, features: Tensor) -> Tensor:
        """The state after the features of all L layers, [L, N, C] to [N, state_channels]."""
        w, v, b, c = self.recurrent.parameters()
        state = w.new_zeros(features.size(1), self.recurrent.hidden_size)
        # No autocast: errors of bfloat16 would accumulate over the steps.
        with torch.autocast(features.device.type, enabled=False):
            gates = F.linear(features.to(w.dtype), w, b).unbind(0)
            biases = for_steps(c.expand(state.size(0), -1), len(gates))
            for given, matrix, bias in zip(gates, for_steps(v, len(gates)), biases, strict=True):
                state = gru_step(given, state, matrix, bias)
        return state


class MultiTaskMPNN(MultiTaskSMP):
    """The ablation of the paper: `MultiTaskSMP` on node features instead of contexts.

    The arguments are those of `MultiTaskSMP`; `identifiers` has no effect.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {
        "default": MPNNLayer,
        "fast": FastMPNNLayer,
    }
    extractor_type: ClassVar[type[NodeExtractor] | type[RowExtractor]] = RowExtractor
    on_contexts = False
