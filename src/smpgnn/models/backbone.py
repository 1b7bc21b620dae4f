"""From a batch of graphs to the contexts after each layer, for all networks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from smpgnn.config.network import ONE_NODE, NetworkOptions
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.first_rows import FirstRows
from smpgnn.contexts.growing import GrowingIndex
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.rows import NodeRows
from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError, check_counts, check_device, check_tensor
from smpgnn.layers.base import SMPLayer, check_edge_attr
from smpgnn.layers.norm import RowBatchNorm, row_norm
from smpgnn.models.recompute import recomputed
from smpgnn.ops.backend import fused
from smpgnn.pooling import NodeExtractor, PooledNodeExtractor, RowExtractor
from smpgnn.tracing import traced


class Backbone(nn.Module):
    """A stack of layers on contexts: U⁽⁰⁾, U⁽¹⁾, …, U⁽ᴸ⁾.

    Args:
        layer: makes a layer from its input and output width.
        in_channels: number of node features; 0: none.
        edge_channels: number of edge features; 0: none.
        options: width and number of the layers, type of contexts, norm, residual, checkpointing.
        on_contexts: False for networks with one row per node.
    """

    def __init__(
        self,
        layer: Callable[[int, int], SMPLayer],
        in_channels: int,
        edge_channels: int,
        options: NetworkOptions,
        *,
        on_contexts: bool = True,
    ) -> None:
        super().__init__()
        check_counts(in_channels=in_channels, edge_channels=edge_channels, at_least=0)
        check_counts(num_layers=options.num_layers, at_least=1)
        self.in_channels, self.edge_channels, self.options = in_channels, edge_channels, options
        self.identifiers = options.identifiers if on_contexts else "nodes"
        self._check_rows()
        self.first_rows = FirstRows.of(options) if on_contexts else FirstRows(options.features)
        marks = 2 if self.identifiers == "pairs" else 1
        self.first_channels = self.first_rows.channels(in_channels, edge_channels, marks)
        widths = [self.first_channels] + [options.hidden_channels] * options.num_layers
        self.layers = nn.ModuleList(layer(a, b) for a, b in pairwise(widths))
        self.norm_after = options.norm_place == "after"
        normed = widths[1:] if self.norm_after else widths[:-1]
        self.norms = nn.ModuleList(
            row_norm(options.norm if number or self.norm_after else None, width)
            for number, width in enumerate(normed)
        )

    def index(self, topology: Topology) -> ContextIndex:
        """The rows of the contexts of these graphs."""
        if self.identifiers == "nodes":
            return ContextIndex.of_nodes(topology)
        if self.identifiers == "neighborhood" and not traced():
            return GrowingIndex.of(topology, self.options.num_layers)
        options = self.options
        return ContextIndex.build(
            topology,
            self.identifiers,
            options.num_layers,
            options.context_radius,
            options.pair_distance,
        )

    def checked_index(
        self,
        x: Tensor | None,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor | None,
        num_nodes: int | None,
        batch_size: int | None,
        index: ContextIndex | None,
    ) -> ContextIndex:
        """Check the arguments of a call, and build the index unless it is given."""
        self._check_x(x)
        for name, given in (("x", x), ("edge_index", edge_index), ("batch", batch)):
            if isinstance(given, Tensor):
                check_device(name, given, self._device)
        if x is not None:
            if num_nodes is not None and num_nodes != x.size(0):
                raise InputError(f"num_nodes is {num_nodes}, but x has {x.size(0)} rows.")
            num_nodes = x.size(0)
        if index is None:
            index = self.index(
                Topology.checked(edge_index, batch, num_nodes=num_nodes, num_graphs=batch_size)
            )
        else:
            self._check_index(index, num_nodes, edge_index, batch)
            index = index.uncached() if traced() else index
        check_edge_attr(edge_attr, self.edge_channels, index.topology.num_edges)
        if edge_attr is not None and edge_attr.dtype != self._dtype:
            raise InputError(self._other_dtype("edge_attr", edge_attr))
        check_device("edge_attr", edge_attr, self._device)
        return index

    def forward(
        self,
        x: Tensor | None,
        edge_attr: Tensor | None,
        index: ContextIndex,
        read: Callable[[int, LocalContext], Any] = lambda number, context: context,
    ) -> list[Any]:
        """The results of `read` for U⁽⁰⁾ and for the contexts after layers 1, …, L.

        By default these are the contexts themselves. If `read` returns less, the rows of a layer
        are freed as soon as the next layer has used them.
        """
        context = self.first_rows(index, x, edge_attr, self._dtype)
        found = [read(0, index.read(context, 0))]
        for number, weights in enumerate(self._assembled_weights(), start=1):
            arguments = number, context, edge_attr, index, weights
            if self.options.checkpoint:
                modules = [self.norms[number - 1], self.layers[number - 1]]
                context = recomputed(self._apply_layer, modules, *arguments)
            else:
                context = self._apply_layer(*arguments)
            found.append(read(number, index.read(context, number)))
        return found

    def _assembled_weights(self) -> list[Any]:
        """The results of `SMPLayer.assemble_weights` if all layers have one type."""
        layers = list(self.layers)
        if len({type(layer) for layer in layers}) > 1:
            return [None] * len(layers)
        return self.layers[0].assemble_weights(layers)  # type: ignore[operator,no-any-return]

    def _apply_layer(
        self,
        number: int,
        context: LocalContext,
        edge_attr: Tensor | None,
        index: ContextIndex,
        weights: Any,
    ) -> LocalContext:
        """The contexts after layer `number`: norm, layer and residual."""
        norm, layer = self.norms[number - 1], self.layers[number - 1]
        context, here = index.enter(context, number), index.of_layer(number)
        y = None if edge_attr is None else edge_attr[: here.topology.num_edges]
        if self.norm_after:
            new: LocalContext = norm(layer(context, here, y))
        elif layer.merges_norm:
            new = layer(context, here, y, norm, weights)
        else:
            new = layer(norm(context), here, y)
        if self.options.residual and new.num_channels == context.num_channels:
            new = new.with_rows(new.rows + context.rows)
        # Padding must remain finite; batch norm and some layers set it to zero.
        contained = layer.contained or isinstance(self.norms[-1], RowBatchNorm)
        if not contained and new.layout.unowned is not None:
            new = new.with_rows(new.rows.masked_fill(new.layout.unowned, 0.0))
        # Extractors and the next norm need statistics of the rows: compute all in one pass.
        following = None if self.norm_after else self.norms[number : number + 1]
        squares = bool(following) and isinstance(following[0], RowBatchNorm)  # type: ignore[index]
        return new.measured(squares=self.training and squares)

    def extract(self, extractor: nn.Module, context: LocalContext, index: ContextIndex) -> Tensor:
        """The features of an extractor; with checkpointing, one on all rows is recomputed."""
        if self.options.checkpoint and isinstance(extractor, NodeExtractor | PooledNodeExtractor):
            features: Tensor = recomputed(extractor, [extractor], context, index)
        else:
            features = extractor(context, index)
        return features

    def extract_all(
        self,
        extractor: NodeExtractor | RowExtractor,
        x: Tensor | None,
        edge_attr: Tensor | None,
        index: ContextIndex,
    ) -> Tensor:
        """The node features of one extractor after each of L layers, [L, N, …].

        On a GPU it reads all layers in one step, to launch fewer kernels. This needs contexts with
        the same rows, and these are kept for the backward pass anyway.
        """
        if torch.is_grad_enabled() and not self.options.checkpoint:
            _, *layers = self(x, edge_attr, index)
            layout = layers[0].layout
            if fused(layers[0].rows) and all(context.layout is layout for context in layers):
                return extractor.of_layers(layers)
            return torch.stack([extractor(context, index) for context in layers])
        _, *features = self(
            x,
            edge_attr,
            index,
            lambda number, context: self.extract(extractor, context, index) if number else None,
        )
        return torch.stack(features)

    def _check_rows(self) -> None:
        """Raise an error if the options ask for what these contexts do not have."""
        options, kind = self.options, self.identifiers
        if kind == "nodes":
            if options.first_rows or options.features == "both":
                raise InputError("first_rows and features='both' go with contexts only.")
            return
        if kind in ("coloring", "neighborhood"):
            asked = "first_rows" if options.first_rows else f"features={options.features!r}"
            if options.first_rows or options.features in ("row", "both"):
                raise InputError(
                    f"{asked} goes with identifiers='local' or 'onehot': a row of '{kind}' may "
                    "stand for several nodes; take features='own' with it."
                )
        if kind not in ONE_NODE and options.layer.terms:
            raise InputError(
                "terms goes with identifiers='local' or 'onehot': a row of "
                f"'{kind}' may stand for several nodes."
            )

    @property
    def _dtype(self) -> torch.dtype:
        return next(self.parameters()).dtype

    @property
    def _device(self) -> torch.device:
        return next(self.parameters()).device

    def _check_x(self, x: Tensor | None) -> None:
        if x is None:
            if self.in_channels:
                raise InputError(f"x is missing: in_channels is {self.in_channels}.")
            return
        check_tensor("x", x)
        if x.dim() != 2 or x.size(1) != self.in_channels:
            raise InputError(
                f"x must have shape [number of nodes, {self.in_channels}], not {list(x.shape)}."
            )
        if x.dtype != self._dtype:
            raise InputError(self._other_dtype("x", x))

    def _other_dtype(self, name: str, value: Tensor) -> str:
        return (
            f"{name} is {value.dtype} but the network {self._dtype}: convert one of them "
            f"({name}.float(), model.double(), …)."
        )

    def _check_index(
        self,
        index: ContextIndex,
        num_nodes: int | None,
        edge_index: Tensor,
        batch: Tensor | None,
    ) -> None:
        if not isinstance(index, ContextIndex):
            raise InputError(
                f"index must be a ContextIndex, not {type(index).__name__}: build it with "
                "smpgnn.context_index or ContextIndex.build."
            )
        topology, radius = index.topology, index.radius
        check_tensor("edge_index", edge_index)
        same_nodes = num_nodes in (None, topology.num_nodes)
        unseen = traced()  # values cannot be compared
        same_edges = (
            unseen
            or edge_index is topology.edge_index
            or torch.equal(edge_index.long(), topology.edge_index)
        )
        same_graphs = unseen or batch is None or batch is topology.batch  # the index has it, too
        if batch is not None and not same_graphs:
            check_tensor("batch", batch)
            same_graphs = torch.equal(batch.long(), topology.batch)
        if isinstance(index.table, NodeRows) != (self.identifiers == "nodes"):
            raise InputError(
                "index has rows of another kind: this network works on "
                + ("nodes." if self.identifiers == "nodes" else "contexts.")
            )
        options, local = self.options, self.identifiers in ("local", "pairs")
        wanted = options.context_radius if local else None
        if index.table.context_radius != wanted:
            raise InputError(
                f"index has a row per node within {_hops(index.table.context_radius)}, but this "
                f"network needs {_hops(wanted)}: build it with the same identifiers and "
                "context_radius."
            )
        distance = options.pair_distance if self.identifiers == "pairs" else None
        if getattr(index.table, "pair_distance", None) != distance:
            raise InputError(
                "index has other rows than this network: build it with the same identifiers and "
                "pair_distance."
            )
        if not (same_nodes and same_edges and same_graphs):
            raise InputError(
                f"index is of other graphs ({topology.num_graphs} with {topology.num_nodes} nodes "
                f"and {topology.num_edges} edges): build it from the same batch."
            )
        if radius is not None and radius < self.options.num_layers:
            raise InputError(
                f"index is for {radius} layers, but the network has "
                f"{self.options.num_layers}: build it for as many layers."
            )


def _hops(context_radius: int | None) -> str:
    return "as many hops as layers" if context_radius is None else f"{context_radius} hops"
