"""Pooling: from contexts to features of nodes and of graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.config.network import READOUTS
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.identifiers import onehot_identifiers
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError
from smpgnn.ops import Dense, for_steps, lstm_step, pool_contexts
from smpgnn.tracing import traced

#: Node values [N, …], a list of blocks of columns for each kind of pooling: 'mean', 'sum', 'max'.
NodeValues = dict[str, list[Tensor]]


class Readout(nn.Module):
    """Pool node values over each graph and apply a two-layer perceptron.

    Args:
        channels: width of the node values.
        out_channels: width of the result and of the hidden layer.
        reduce: 'mean', 'sum', 'scaled-sum', 'max', or two of them: 'mean+max', 'sum+max',
            'mean+scaled-sum'.
        usual_nodes: typical number of nodes of a graph, by which 'scaled-sum' divides.
    """

    def __init__(
        self, channels: int, out_channels: int, reduce: str = "mean", usual_nodes: float = 1.0
    ) -> None:
        super().__init__()
        check_readout("reduce", reduce, usual_nodes)
        self.channels, self.reduce, self.usual_nodes = channels, reduce, usual_nodes
        self.ways = reduce.split("+")
        self.hidden = nn.Linear(len(self.ways) * channels, out_channels)
        self.out = nn.Linear(out_channels, out_channels)

    def forward(self, context: LocalContext, index: ContextIndex) -> Tensor:
        return self.perceptron(self.pool([self.values(context)], index)[:, 0])

    def pool(self, values: Sequence[NodeValues], index: ContextIndex) -> Tensor:
        """Pool the `values` of L contexts over the nodes of each graph, all layers at once.

        Shape of the result: [B, L, ways · channels].
        """
        pooled = {}
        for kind in values[0]:
            columns = torch.cat([part for layer in values for part in layer[kind]], dim=1)
            join = index.graphs.max if kind == "max" else index.graphs.sum
            pooled[kind] = join(columns).view(-1, len(values), self.channels)
        parts = [self._scaled(way, pooled[_kind(way)], index) for way in self.ways]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)

    def perceptron(self, pooled: Tensor) -> Tensor:
        """Apply the perceptron to pooled values: […, ways · channels] to […, out_channels]."""
        out: Tensor = self.out(F.relu(self.hidden(pooled)))
        return out

    def values(self, context: LocalContext) -> NodeValues:
        """The node values to pool, for each kind of pooling."""
        return {kind: self.columns(kind, context) for kind in map(_kind, self.ways)}

    def columns(self, kind: str, context: LocalContext) -> list[Tensor]:
        """The node values for one kind ('mean', 'sum', 'max'), in blocks of [N, channels]."""
        raise NotImplementedError

    def _scaled(self, way: str, joined: Tensor, index: ContextIndex) -> Tensor:
        """Scale sums over nodes, [B, L, channels], for a mean or a scaled sum."""
        if way == "mean":
            return joined / index.graphs.size(joined.dtype).unsqueeze(1)
        return joined / self.usual_nodes if way == "scaled-sum" else joined


def _kind(way: str) -> str:
    """How the rows of a context are pooled if nodes are pooled in this way."""
    return "mean" if way == "scaled-sum" else way


def perceptrons(readouts: Sequence[Readout], pooled: Tensor) -> Tensor:
    """Apply L readouts' perceptrons to the values pooled after L layers, in two batched matmuls.

    Shapes: pooled [B, L, …], result [B, L, out_channels].
    """
    if traced():  # inductor cannot lower a batched matmul with an unknown number of graphs
        each = zip(readouts, pooled.unbind(1), strict=True)
        return torch.stack([readout.perceptron(values) for readout, values in each], dim=1)
    hidden = F.relu(_products([readout.hidden for readout in readouts], pooled.permute(1, 2, 0)))
    return _products([readout.out for readout in readouts], hidden).permute(2, 0, 1)


def _products(maps: Sequence[nn.Linear], columns: Tensor) -> Tensor:
    """L linear maps, [L, in, B] to [L, out, B]; gradients of weights have the weights' layout."""
    weights = torch.stack([linear.weight for linear in maps])
    biases = torch.stack([linear.bias for linear in maps])
    return torch.baddbmm(biases.unsqueeze(2), weights, columns)


class GraphExtractor(Readout):
    r"""A two-layer perceptron of the trace and the sum of all contexts.

    .. math:: \text{MLP}\Bigl(\sum_i U_i[i, :],\ \sum_{i, j} U_i[j, :]\Bigr)

    `reduce='sum'` is this equation, as in the paper. 'mean' divides both sums by the number of
    their terms, n and n², which keeps their scale for larger graphs. 'scaled-sum' divides the first
    by `usual_nodes` and the second by n `usual_nodes`; use it for targets that are sums over the
    parts of a graph. 'max' takes the maximum over the terms instead, so that a single node can
    decide in a graph of any size. Empty graphs get zeros.

    Args:
        in_channels: width of the contexts.
        out_channels: width of the result and of the hidden layer.
        reduce: 'mean', 'sum', 'scaled-sum', 'max', or two of them: 'mean+max', 'sum+max',
            'mean+scaled-sum'.
        usual_nodes: typical number of nodes of a graph, by which 'scaled-sum' divides.

    Shapes: rows [P, in_channels] to [B, out_channels].
    """

    def __init__(
        self, in_channels: int, out_channels: int, reduce: str = "mean", usual_nodes: float = 1.0
    ) -> None:
        super().__init__(2 * in_channels, out_channels, reduce, usual_nodes)

    def columns(self, kind: str, context: LocalContext) -> list[Tensor]:
        if kind == "max":
            return [context.own(), context.max()]
        if kind == "sum":
            return [context.own(), context.sum()]
        # the mean of means is the mean if all contexts have the same number of rows
        return [context.own(), context.mean()]


class NodeExtractor(nn.Module):
    r"""Features of node i from its context: a perceptron on each row, then own row, mean and max.

    .. math:: \text{Lin}\bigl(V_i[i, :],\ \text{mean}_j V_i[j, :],\ \max_j V_i[j, :]\bigr),
              \quad V_i[j, :] = \text{MLP}(U_i[j, :])

    Args:
        in_channels: width of the contexts.
        out_channels: width of the result.
        hidden_channels: width of the perceptron; default: `out_channels`.

    Shapes: rows [P, in_channels] to [N, out_channels].
    """

    def __init__(
        self, in_channels: int, out_channels: int, hidden_channels: int | None = None
    ) -> None:
        super().__init__()
        width = hidden_channels or out_channels
        self.row_hidden = nn.Linear(in_channels, width)
        self.row_out = nn.Linear(width, width)
        self.out = nn.Linear(3 * width, out_channels)

    def forward(self, context: LocalContext, index: ContextIndex) -> Tensor:
        return self.of_layers([context])[0]

    def of_layers(self, contexts: Sequence[LocalContext]) -> Tensor:
        """The features after each of L layers whose contexts have the same rows, [L, N, …]."""
        rows = stacked([context.rows for context in contexts])
        v = self.row_out(F.relu(self.row_hidden(rows)))
        out: Tensor = self.out(pool_contexts(v, contexts[0].layout))
        return out


class PooledNodeExtractor(nn.Module):
    """Graph features from `NodeExtractor` and any aggregation of PyTorch Geometric.

    Args:
        in_channels: width of the contexts.
        out_channels: width of the node features.
        aggregation: 'sum', 'mean', 'max', 'softmax', …, or an instance that keeps the width.

    Shapes: rows [P, in_channels] to [B, out_channels].
    """

    def __init__(self, in_channels: int, out_channels: int, aggregation: Any = "sum") -> None:
        super().__init__()
        self.nodes = NodeExtractor(in_channels, out_channels)
        self.aggregation = resolve_aggregation(aggregation)

    def forward(self, context: LocalContext, index: ContextIndex) -> Tensor:
        features = self.nodes(context, index)
        pooled: Tensor = self.aggregation(
            features, index.topology.batch, dim_size=index.topology.num_graphs
        )
        return pooled


class SetToSet(nn.Module):
    r"""Set2Set (Vinyals et al., 2016): an LSTM that reads a set of nodes several times.

    .. math:: q_t = \text{LSTM}([q_{t-1}, r_{t-1}]), \quad
              r_t = \sum_i \text{softmax}_i(x_i \cdot q_t)\, x_i

    Args:
        channels: width of the node features.
        steps: number of times the set is read.

    Shapes: x [N, channels] to [B, 2 · channels].
    """

    def __init__(self, channels: int, steps: int) -> None:
        super().__init__()
        self.channels, self.steps = channels, steps
        self.unit = nn.LSTMCell(2 * channels, channels)

    def forward(self, x: Tensor, index: ContextIndex) -> Tensor:
        w, v, b, c = self.unit.parameters()
        # Rounding to bfloat16 would add up over the steps: no autocast in here.
        with torch.autocast(x.device.type, enabled=False):
            nodes, absent = self._dense(x.to(w.dtype), index)
            # The input is [q, r]. The weights of the nodes sum to 1, so the gates of r are the mean
            # of the gates of the nodes; the matrices of q as input and as state are added.
            bias = b + c
            gates = F.linear(nodes, w[:, self.channels :], bias)
            each = [nodes.transpose(1, 2), gates, w[:, : self.channels] + v]
            query = memory = read = nodes.new_zeros(nodes.size(0), self.channels)
            given, attention = bias.repeat(nodes.size(0), 1), None
            steps = [for_steps(value, self.steps) for value in each]
            for keys, values, matrix in zip(*steps, strict=True):
                if attention is not None:
                    given = torch.bmm(attention, values).squeeze(1)
                query, memory = lstm_step(given, query, memory, matrix)
                attention = torch.baddbmm(absent, query.unsqueeze(1), keys).softmax(dim=2)
            if attention is not None:
                read = torch.bmm(attention, nodes).squeeze(1)
            return torch.cat([query, read], dim=1)

    def _dense(self, x: Tensor, index: ContextIndex) -> tuple[Tensor, Tensor]:
        """The nodes graph by graph [B, n, C], and −∞ where a graph has fewer [B, 1, n].

        An empty graph has a node of zeros.
        """
        topology, largest = index.topology, index.graphs.largest
        width = torch.sym_max(largest, 1)  # type: ignore[no-untyped-call]
        place = torch.arange(width, device=x.device)
        first, size = topology.graph_ptr[:-1, None], topology.graph_size[:, None]
        row = torch.where(place < size, first + place, topology.num_nodes)
        last = max(0, row.numel() - 1)  # padding may have more nodes than any graph
        entry = (topology.batch * width + onehot_identifiers(topology)).clamp(max=last)
        absent = torch.zeros_like(row, dtype=x.dtype)
        absent = absent.masked_fill(place >= size.clamp(min=1), -torch.inf)
        return Dense(row, entry).spread(x), absent.unsqueeze(1)


class NodePooling(Readout):
    """Pool node features and apply a two-layer perceptron (for the MPNN ablation and baselines).

    Args:
        in_channels: width of the rows.
        out_channels: width of the result and of the hidden layer.
        reduce: 'mean', 'sum' or 'max' over the nodes of a graph, 'scaled-sum' for the sum divided
            by `usual_nodes`, or two of them: 'mean+max', 'sum+max', 'mean+scaled-sum'.
        usual_nodes: typical number of nodes of a graph.

    Shapes: rows [N, in_channels], one per node, to [B, out_channels].
    """

    def columns(self, kind: str, context: LocalContext) -> list[Tensor]:
        return [context.own()]


class RowExtractor(nn.Module):
    """A two-layer perceptron on node features (for the MPNN ablation).

    Shapes: rows [N, in_channels], one per node, to [N, out_channels].
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(in_channels, out_channels)
        self.out = nn.Linear(out_channels, out_channels)

    def forward(self, context: LocalContext, index: ContextIndex) -> Tensor:
        return self.of_layers([context])[0]

    def of_layers(self, contexts: Sequence[LocalContext]) -> Tensor:
        """The features after each of L layers, [L, N, out_channels]."""
        own = stacked([context.own() for context in contexts])
        out: Tensor = self.out(F.relu(self.hidden(own)))
        return out


def stacked(layers: Sequence[Tensor]) -> Tensor:
    """Stack the values after L layers, L times [R, C] to [L, R, C]; a view if L = 1."""
    return layers[0].unsqueeze(0) if len(layers) == 1 else torch.stack(list(layers))


def check_readout(name: str, value: str, usual_nodes: float) -> None:
    if value not in READOUTS:
        raise InputError(f"{name} must be one of {', '.join(READOUTS)}, not {value!r}.")
    if not usual_nodes > 0:
        raise InputError(f"usual_nodes must be above 0, not {usual_nodes}.")


def resolve_aggregation(aggregation: Any) -> nn.Module:
    """The aggregation of PyTorch Geometric of this name, or the given instance."""
    from torch_geometric.nn import Aggregation
    from torch_geometric.nn.resolver import aggregation_resolver

    if isinstance(aggregation, Aggregation):
        instance: nn.Module = aggregation
        return instance
    refused = InputError(
        f"pooling={aggregation!r} is neither 'extractor' nor an aggregation of PyTorch "
        "Geometric, such as 'sum', 'mean' or 'max'."
    )
    if not isinstance(aggregation, str):
        raise refused
    try:
        found: nn.Module = aggregation_resolver(aggregation)
    except (ValueError, TypeError) as error:
        raise refused from error
    return found
