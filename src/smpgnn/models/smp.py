"""SMP: the network for graph targets or node targets (architecture figure, left)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.config.network import NetworkOptions
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError, check_counts
from smpgnn.layers import FastMPNNLayer, MPNNLayer, SMPLayer
from smpgnn.models.base import Network
from smpgnn.models.global_features import GlobalFeatures
from smpgnn.pooling import (
    GraphExtractor,
    NodeExtractor,
    NodePooling,
    NodeValues,
    PooledNodeExtractor,
    Readout,
    RowExtractor,
    perceptrons,
)

LEVELS = ("graph", "node")

#: Maps U⁽⁰⁾ and the contexts after every layer to a result.
Reader = Callable[[list[LocalContext], ContextIndex], Tensor]


class SMP(Network):
    r"""A structural message-passing network, called like a network of PyTorch Geometric.

    Extractors read the initial contexts and the contexts after every layer,

    .. math:: h = \text{Ext}_0(U^{(0)}) + \tfrac1L \sum_{l=1}^{L} \text{Ext}_l(U^{(l)}),

    and a head maps their features to the result,

    .. math:: \text{Lin}(\text{dropout}(h + \text{relu}(\text{Lin}\, [h, u]))),

    where u are the features of the graph, if it has any.

    Args:
        in_channels: number of node features; 0: none, and `x` is None.
        out_channels: number of outputs per graph or node.
        hidden_channels: width of the contexts.
        num_layers: number of layers; each reaches one hop further.
        layer: 'default' (perceptrons, edge features) or 'fast' (no edge features); None: 'default'.
        identifiers: type of contexts. 'onehot' has n rows per context, 'coloring' (Algorithm 1)
            one per colour. 'neighborhood' has rows for visible nodes only and gives the same
            results as 'onehot'. 'local' has rows for the nodes within `context_radius` hops and one
            for all others, 'pairs' for pairs of nodes; these are other networks (not in the
            paper). The weights depend on the type for 'pairs' only.
        edge_channels: number of edge features; 0: none.
        level: 'graph' (result [B, out_channels]) or 'node' (result [N, out_channels]).
        pooling: for graphs: 'extractor' (trace and sum, each divided by the number of its terms) or
            an aggregation of PyTorch Geometric ('sum', 'mean', …) of node features. All extractors
            share an instance that has weights.
        usual_nodes: number of nodes of an average graph, the unit of the readout 'scaled-sum'.
        global_channels: number of features u of each graph (temperature, descriptors, …); 0: none.
            `globals.fit` standardises them.
        options: size, contexts, norm, readout and layers of the network. Arguments by name have
            priority, and the class and `layer` have priority over `options.model`.
        changes: fields of `NetworkOptions` and `LayerOptions` by name: dropout, norm, residual,
            readout, towers, ….
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int | None = None,
        num_layers: int | None = None,
        layer: str | None = None,
        identifiers: str | None = None,
        edge_channels: int = 0,
        *,
        level: str = "graph",
        pooling: Any = "extractor",
        usual_nodes: float = 1.0,
        global_channels: int = 0,
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
        if level not in LEVELS:
            raise InputError(f"level must be one of {', '.join(LEVELS)}, not {level!r}.")
        check_counts(out_channels=out_channels, at_least=1)
        check_counts(global_channels=global_channels, at_least=0)
        self.level, self.usual_nodes = level, usual_nodes
        chosen = self.options
        width = chosen.extractor_channels or 4 * chosen.hidden_channels
        self.first_extractor = self._extractor(self.backbone.first_channels, width, pooling)
        self.extractors = nn.ModuleList(
            self._extractor(chosen.hidden_channels, width, pooling)
            for _ in range(1 if chosen.shared_extractor else chosen.num_layers)
        )
        self.globals = GlobalFeatures(global_channels) if global_channels else None
        self.head = nn.Linear(width + global_channels, width)
        self.dropout = nn.Dropout(chosen.dropout)
        self.out = nn.Linear(width, out_channels)

    def _extractor(self, in_channels: int, out_channels: int, pooling: Any) -> nn.Module:
        if self.level == "node":
            return NodeExtractor(in_channels, out_channels)
        if isinstance(pooling, str) and pooling == "extractor":
            return GraphExtractor(in_channels, out_channels, self.options.readout, self.usual_nodes)
        return PooledNodeExtractor(in_channels, out_channels, pooling)

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
        reader: Reader | None = None,
        u: Tensor | None = None,
    ) -> Tensor:
        """The outputs for each graph [B, out_channels] or node [N, out_channels].

        Args:
            x: node features [N, in_channels], or None.
            edge_index: senders and receivers [2, E].
            edge_attr: edge features [E, edge_channels], or None.
            batch: the graph of each node [N]; None for a single graph.
            num_nodes: needed only if `x` and `batch` are None and the last nodes have no edges.
            batch_size: number of graphs; needed only if the last ones are empty.
            index: the rows of the contexts (`smpgnn.context_index`); None: computed in this call.
            reader: computes the result from U⁽⁰⁾, …, U⁽ᴸ⁾ instead of the extractors and the head.
            u: features of the graphs [B, global_channels], or None; NaN: unknown.
        """
        if reader is None and u is None and self.globals is None:
            found: Tensor | None = self._replayed(
                edge_index, x, edge_attr, batch, num_nodes, batch_size, index
            )
            if found is not None:
                return found
        index = self.backbone.checked_index(
            x, edge_index, edge_attr, batch, num_nodes, batch_size, index
        )
        index.check_level(self.level)
        self._check_globals(u, index)
        if reader is not None:
            return reader(self.backbone(x, edge_attr, index), index)
        if isinstance(self.first_extractor, Readout):
            values = self.backbone(x, edge_attr, index, lambda number, u: self.values(u))
            return self.of_pooled(*self.pool(values, index), u)
        last = len(self.extractors)
        extractors = [self.first_extractor, *self.extractors]
        first, *after = self.backbone(
            x,
            edge_attr,
            index,
            lambda number, u: self.backbone.extract(extractors[min(number, last)], u, index),
        )
        if u is not None and self.level == "node":
            u = u[index.topology.batch]
        return self._result(first + torch.stack(after).mean(0), u)

    def values(self, context: LocalContext) -> NodeValues:
        """The values of each node that readouts of graphs pool."""
        readout = self.extractors[0]
        assert isinstance(readout, Readout)
        return readout.values(context)

    def pool(self, values: Sequence[NodeValues], index: ContextIndex) -> tuple[Tensor, Tensor]:
        """Pool the `values` of U⁽⁰⁾, and those of all layers in one step; homogeneous in U."""
        first, after = self.first_extractor, self.extractors[0]
        assert isinstance(first, Readout)
        assert isinstance(after, Readout)
        return first.pool(values[:1], index)[:, 0], after.pool(values[1:], index)

    def of_pooled(self, first: Tensor, after: Tensor, u: Tensor | None = None) -> Tensor:
        """The result from the two results of `pool`, and the features of the graphs."""
        features = self.first_extractor.perceptron(first)  # type: ignore[operator]
        if len(self.extractors) == 1:
            features = features + self.extractors[0].perceptron(after).mean(1)  # type: ignore[operator]
        else:
            readouts: Any = list(self.extractors)
            features = features + perceptrons(readouts, after).mean(1)
        return self._result(features, u)

    def _check_globals(self, u: Tensor | None, index: ContextIndex) -> None:
        if self.globals is not None:
            self.globals.check(u, index.topology.num_graphs)
        elif u is not None:
            raise InputError("u is given, but global_channels is 0: leave u out.")

    def _result(self, features: Tensor, u: Tensor | None) -> Tensor:
        given = features
        if self.globals is not None and u is not None:
            given = torch.cat([features, self.globals(u)], dim=1)
        features = features + F.relu(self.head(given))
        out: Tensor = self.out(self.dropout(features))
        return out


class MPNN(SMP):
    """The ablation of the paper: `SMP` on node features instead of contexts.

    Each node has one row, [1, x_i]. The arguments are those of `SMP`; `layer='default'` is the
    paper's MPNN, 'fast' its Fast MPNN. `identifiers` and `pooling` have no effect.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {
        "default": MPNNLayer,
        "fast": FastMPNNLayer,
    }

    on_contexts = False

    def _extractor(self, in_channels: int, out_channels: int, pooling: Any) -> nn.Module:
        if self.level == "node":
            return RowExtractor(in_channels, out_channels)
        return NodePooling(in_channels, out_channels, self.options.readout, self.usual_nodes)
