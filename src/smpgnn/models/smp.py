"""SMP: the network for one output a graph or a node (architecture figure, left)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError, check_counts
from smpgnn.layers import DefaultSMPLayer, FastMPNNLayer, FastSMPLayer, MPNNLayer, SMPLayer
from smpgnn.models.backbone import Backbone
from smpgnn.pooling import (
    GraphExtractor,
    NodeExtractor,
    NodePooling,
    NodeValues,
    PooledNodeExtractor,
    Readout,
    RowExtractor,
    check_readout,
    perceptrons,
)

LEVELS = ("graph", "node")

#: From U⁽⁰⁾ and the contexts after every layer to a result.
Reader = Callable[[list[LocalContext], ContextIndex], Tensor]


class SMP(nn.Module):
    r"""A structural message-passing network, called like a network of PyTorch Geometric.

    Features are extracted from the contexts before the first and after every layer,

    .. math:: h = \text{Ext}_0(U^{(0)}) + \tfrac1L \sum_{l=1}^{L} \text{Ext}_l(U^{(l)}),

    and pass a head: :math:`\text{Lin}(\text{dropout}(h + \text{relu}(\text{Lin}\, h)))`.

    Args:
        in_channels: node features; 0 for graphs without (then `x` is None).
        out_channels: numbers to predict for each graph or node.
        hidden_channels: width of the contexts.
        num_layers: number of layers, and with it how many hops a node can see.
        layer: 'default' (perceptrons, edge features) or 'fast' (no edge features).
        identifiers: 'onehot' (n rows a context), 'coloring' (Algorithm 1) or 'neighborhood' (the
            same results as 'onehot' with rows for the visible nodes only); or 'local' (rows for the
            nodes within `context_radius` hops and one for all others: another network, not in the
            paper). No part of the weights: a state dict loads under any scheme.
        context_radius: hops within which the contexts of 'local' tell nodes apart.
        edge_channels: edge features; 0 for none.
        level: 'graph' (result [B, out_channels]) or 'node' ([N, out_channels]).
        dropout: share of the features dropped before the last map, in training.
        extractor_channels: width of the features; four times `hidden_channels` where not given.
        shared_extractor: one extractor for the contexts after all layers, to save weights.
        pooling: for graphs: 'extractor' (trace and sum, each divided by the number of its terms) or
            an aggregation of PyTorch Geometric ('sum', 'mean', …) of node features. An instance
            with weights of its own is shared by all extractors.
        readout: for graphs: 'mean', 'sum', 'scaled-sum', 'max' or two of them ('mean+max',
            'sum+max', 'mean+scaled-sum'), how the extractor joins nodes and pairs; with 'max' what
            is learned on small graphs holds on larger ones where one place decides, 'scaled-sum'
            suits what is a sum over its parts.
        usual_nodes: nodes of a usual graph, the unit of 'scaled-sum'.
        norm: 'batch', 'layer' or None: of the rows.
        norm_place: 'before' every layer but the first, or 'after' every layer, before its input is
            added.
        residual: add the input of a layer to its output.
        features: where node features stand at first: 'own' (those of a node in its own row of its
            context, as in the paper), 'context' (in every row of its context) or 'row' (in its row
            of every context; with 'onehot' and 'local').
        checkpoint: keep only the input of each layer for the gradient, and run it again then:
            the same results in less memory and more time.
        layer_options: further arguments of the layer: towers, set_scale, message_residual, ….
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {
        "default": DefaultSMPLayer,
        "fast": FastSMPLayer,
    }

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        hidden_channels: int,
        num_layers: int,
        layer: str = "default",
        identifiers: str = "onehot",
        edge_channels: int = 0,
        level: str = "graph",
        dropout: float = 0.0,
        *,
        extractor_channels: int | None = None,
        shared_extractor: bool = False,
        pooling: Any = "extractor",
        readout: str = "mean",
        usual_nodes: float = 1.0,
        norm: str | None = None,
        norm_place: str = "before",
        residual: bool = False,
        checkpoint: bool = False,
        context_radius: int = 3,
        features: str = "own",
        **layer_options: Any,
    ) -> None:
        super().__init__()
        if level not in LEVELS:
            raise InputError(f"level must be one of {', '.join(LEVELS)}, not {level!r}.")
        check_counts(out_channels=out_channels, at_least=1)
        check_counts(hidden_channels=hidden_channels, at_least=1)
        if extractor_channels is not None:
            check_counts(extractor_channels=extractor_channels, at_least=1)
        if not 0 <= dropout < 1:
            raise InputError(f"dropout must be at least 0 and below 1, not {dropout}.")
        check_readout("readout", readout, usual_nodes)
        self.level, self.readout, self.usual_nodes = level, readout, usual_nodes
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
        width = 4 * hidden_channels if extractor_channels is None else extractor_channels
        self.first_extractor = self._extractor(1 + in_channels, width, pooling)
        self.extractors = nn.ModuleList(
            self._extractor(hidden_channels, width, pooling)
            for _ in range(1 if shared_extractor else num_layers)
        )
        self.head = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)
        self.out = nn.Linear(width, out_channels)

    def _extractor(self, in_channels: int, out_channels: int, pooling: Any) -> nn.Module:
        if self.level == "node":
            return NodeExtractor(in_channels, out_channels)
        if isinstance(pooling, str) and pooling == "extractor":
            return GraphExtractor(in_channels, out_channels, self.readout, self.usual_nodes)
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
    ) -> Tensor:
        """One row of `out_channels` numbers for each graph or node.

        Args:
            x: node features [N, in_channels], or None.
            edge_index: senders and receivers [2, E].
            edge_attr: edge features [E, edge_channels], or None.
            batch: the graph of each node [N]; None for a single graph.
            num_nodes: needed only where `x` and `batch` are None and the last nodes have no edge.
            batch_size: number of graphs; needed only where the last ones are empty.
            index: rows prepared beforehand (`smpgnn.context_index`), instead of anew in each call.
            reader: computes the result from U⁽⁰⁾, …, U⁽ᴸ⁾ in place of the extractors and head.
        """
        index = self.backbone.checked_index(
            x, edge_index, edge_attr, batch, num_nodes, batch_size, index
        )
        index.check_level(self.level)
        if reader is not None:
            return reader(self.backbone(x, edge_attr, index), index)
        if isinstance(self.first_extractor, Readout):
            values = self.backbone(x, edge_attr, index, lambda number, u: self.values(u))
            return self.of_pooled(*self.pool(values, index))
        last = len(self.extractors)
        extractors = [self.first_extractor, *self.extractors]
        first, *after = self.backbone(
            x,
            edge_attr,
            index,
            lambda number, u: self.backbone.extract(extractors[min(number, last)], u, index),
        )
        return self._result(first + torch.stack(after).mean(0))

    def values(self, context: LocalContext) -> NodeValues:
        """What readouts of graphs take from each node of a context."""
        readout = self.extractors[0]
        assert isinstance(readout, Readout)
        return readout.values(context)

    def pool(self, values: Sequence[NodeValues], index: ContextIndex) -> tuple[Tensor, Tensor]:
        """Pool the `values` of U⁽⁰⁾, and those of all layers at once; homogeneous in U."""
        first, after = self.first_extractor, self.extractors[0]
        assert isinstance(first, Readout)
        assert isinstance(after, Readout)
        return first.pool(values[:1], index)[:, 0], after.pool(values[1:], index)

    def of_pooled(self, first: Tensor, after: Tensor) -> Tensor:
        """The result from what `pool` gives."""
        features = self.first_extractor.perceptron(first)  # type: ignore[operator]
        if len(self.extractors) == 1:
            features = features + self.extractors[0].perceptron(after).mean(1)  # type: ignore[operator]
        else:
            readouts: Any = list(self.extractors)
            features = features + perceptrons(readouts, after).mean(1)
        return self._result(features)

    def _result(self, features: Tensor) -> Tensor:
        features = features + F.relu(self.head(features))
        out: Tensor = self.out(self.dropout(features))
        return out


class MPNN(SMP):
    """The ablation of the paper: the frame and layers of `SMP` on node features, not contexts.

    Takes the arguments of `SMP`; `layer='default'` is its MPNN, 'fast' its Fast MPNN. `identifiers`
    and `pooling` have no meaning here: a node has one row, its features [1, x_i], and a graph the
    mean of its nodes, or what `readout` says.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {
        "default": MPNNLayer,
        "fast": FastMPNNLayer,
    }

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.backbone.identifiers = "nodes"

    def _extractor(self, in_channels: int, out_channels: int, pooling: Any) -> nn.Module:
        if self.level == "node":
            return RowExtractor(in_channels, out_channels)
        return NodePooling(in_channels, out_channels, self.readout, self.usual_nodes)


def layer_factory(
    types: dict[str, type[SMPLayer]], name: str, edge_channels: int, options: dict[str, Any]
) -> partial[SMPLayer]:
    """What makes the layers of this name, with these options."""
    if name not in types:
        raise InputError(f"layer must be one of {', '.join(types)}, not {name!r}.")
    make: Callable[..., SMPLayer] = types[name]
    return partial(make, edge_channels=edge_channels, **options)
