"""The oracle: a slow, plain, dense transcription of the paper's equations, graph by graph.

A context tensor U has shape [n, R, C]: U[i, r] is the row of identifier r in the context of node i.
With one-hot identifiers R = n and node j has identifier j. With a colouring R is the number of
colours. With R = 1 and identifier 0 for all nodes, contexts are the node features of the MPNN
ablation.

The oracle uses the weights of the modules of `smpgnn`, so that gradients can be compared, too. It
shares no other code with them. Networks process a list of graphs one by one; only batch norm
couples them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from smpgnn.layers import (
    DefaultSMPLayer,
    FastSMPLayer,
    MarkedSetLinear,
    RowBatchNorm,
    RowLayerNorm,
    RowLinear,
    SetLinear,
)
from smpgnn.models import SMP, MultiTaskSMP
from smpgnn.models.backbone import Backbone
from smpgnn.models.global_features import GlobalFeatures
from smpgnn.pooling import (
    GraphExtractor,
    NodeExtractor,
    NodePooling,
    PooledNodeExtractor,
    RowExtractor,
)


@dataclass(frozen=True)
class DenseGraph:
    """One graph: edges are pairs (j, i), j sends to i; x [n, F]; y [E, D]; identifier [n]."""

    num_nodes: int
    edges: tuple[tuple[int, int], ...]
    x: Tensor | None = None
    y: Tensor | None = None
    identifier: tuple[int, ...] = ()

    @property
    def num_rows(self) -> int:
        return max(self.identifier, default=-1) + 1

    @property
    def average_degree(self) -> float:
        return len(self.edges) / self.num_nodes

    def adjacency(self) -> Tensor:
        """A[i, j]: how often j sends to i."""
        a = torch.zeros(self.num_nodes, self.num_nodes, dtype=torch.float64)
        for j, i in self.edges:
            a[i, j] += 1
        return a

    def hops(self) -> list[list[float]]:
        """hops[i][j]: how many layers until what j sends has reached i (Floyd–Warshall)."""
        n = self.num_nodes
        d = [[0.0 if i == j else float("inf") for j in range(n)] for i in range(n)]
        for j, i in self.edges:
            d[i][j] = min(d[i][j], 1.0)
        for k in range(n):
            for i in range(n):
                for j in range(n):
                    d[i][j] = min(d[i][j], d[i][k] + d[k][j])
        return d

    def undirected(self) -> DenseGraph:
        both = self.edges + tuple((i, j) for j, i in self.edges)
        return DenseGraph(self.num_nodes, both, identifier=self.identifier)


# ---------------------------------------------------------------------------- pieces


def matrix(module: nn.Module) -> Tensor:
    """W of x W + b; towers are blocks on the diagonal."""
    if isinstance(module, nn.Linear):
        return module.weight.t()
    towers, rows, columns = module.weight.shape
    whole = module.weight.new_zeros(towers * rows, towers * columns)
    for t in range(towers):
        whole[t * rows : (t + 1) * rows, t * columns : (t + 1) * columns] = module.weight[t]
    return whole


def linear(module: nn.Module, value: Tensor) -> Tensor:
    result = value @ matrix(module)
    return result if module.bias is None else result + module.bias


def perceptron(hidden: nn.Module, out: nn.Module, value: Tensor) -> Tensor:
    return linear(out, linear(hidden, value).clamp(min=0))


def stack(values: Sequence[Tensor], like: Tensor, *shape: int) -> Tensor:
    """`torch.stack`, with the right shape where there is nothing to stack."""
    return torch.stack(list(values)) if len(values) else like.new_zeros(0, *shape)


def initial(
    graph: DenseGraph,
    dtype: torch.dtype = torch.float64,
    features: str = "own",
) -> Tensor:
    """U_i[i, :] = [1, x_i] and zero elsewhere; or the other rows hold features, too.

    With 'context' those of its node, U_i[j, 1:] = x_i; with 'row' those of the node that the row
    describes, U_i[j, 1:] = x_j.
    """
    width = 1 if graph.x is None else 1 + graph.x.size(1)
    zero, one = torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype)
    contexts = []
    for i in range(graph.num_nodes):
        rows = [torch.zeros(width, dtype=dtype) for _ in range(graph.num_rows)]
        if features == "context" and graph.x is not None:
            rows = [torch.cat([zero, graph.x[i]]) for _ in rows]
        for j in range(graph.num_nodes if features == "row" and width > 1 else 0):
            rows[graph.identifier[j]] = torch.cat([zero, graph.x[j]])
        rows[graph.identifier[i]] = one if graph.x is None else torch.cat([one, graph.x[i]])
        contexts.append(torch.stack(rows))
    return stack(contexts, torch.zeros(0, dtype=dtype), graph.num_rows, width)


def set_map(module: nn.Module, u: Tensor, graph: DenseGraph) -> Tensor:
    """Û_i = U_i W1 + 1 1ᵀ U_i W2 / n + 1 cᵀ + 𝟙_i 1ᵀ U_i W3 / n, and terms of the own row."""
    if isinstance(module, RowLinear):
        return linear(module.w1, u)
    assert isinstance(module, SetLinear)
    n = graph.num_rows
    ones = u.new_ones(n, 1)
    contexts = []
    for i in range(graph.num_nodes):
        indicator = u.new_zeros(n, 1)
        indicator[graph.identifier[i]] = 1
        hat = (
            u[i] @ matrix(module.w1)
            + ones @ ones.t() @ u[i] @ matrix(module.w2) / n
            + ones @ module.w2.bias.unsqueeze(0)
            + indicator @ ones.t() @ u[i] @ matrix(module.w3) / n
        )
        if isinstance(module, MarkedSetLinear):
            own = indicator.t() @ u[i]
            hat = hat + ones @ own @ matrix(module.own_to_all)
            hat = hat + indicator @ own @ matrix(module.own_to_own)
        contexts.append(hat)
    return stack(contexts, u, n, module.w1.out_channels)


def whole(new: Tensor, graph: DenseGraph) -> Tensor:
    """All of a new context divided by d_avg; as it is in a graph without edges."""
    return new / graph.average_degree if graph.edges else new


def default_layer(layer: DefaultSMPLayer, u: Tensor, graph: DenseGraph) -> Tensor:
    """Two-layer perceptrons for each message and each update, edge by edge."""
    hat = set_map(layer.set_map, u, graph)
    total = [torch.zeros_like(hat[i]) for i in range(graph.num_nodes)]
    for e, (j, i) in enumerate(graph.edges):
        hidden = linear(layer.message_receiver, hat[i]) + linear(layer.message_sender, hat[j])
        if layer.message_edge is not None:
            hidden = hidden + linear(layer.message_edge, graph.y[e])
        message = linear(layer.message_out, hidden.clamp(min=0))
        if layer.options.message_residual:
            message = message + hat[j]
        total[i] = total[i] + message / (1 if layer.options.divide_update else graph.average_degree)
    contexts = []
    for i in range(graph.num_nodes):
        hidden = linear(layer.update_own, hat[i]) + linear(layer.update_messages, total[i])
        new = linear(layer.update_out, hidden.clamp(min=0))
        new = new + hat[i] if layer.options.update_residual else new
        contexts.append(whole(new, graph) if layer.options.divide_update else new)
    return stack(contexts, hat, graph.num_rows, layer.out_channels)


def fast_layer(layer: FastSMPLayer, u: Tensor, graph: DenseGraph) -> Tensor:
    """Û_i + Σ_j (Û_j + Û_i W4 ⊙ Û_j W5) / d_avg, edge by edge."""
    hat = set_map(layer.set_map, u, graph)
    contexts = [hat[i] for i in range(graph.num_nodes)]
    for j, i in graph.edges:
        message = hat[j] + (hat[i] @ matrix(layer.w4)) * (hat[j] @ matrix(layer.w5))
        contexts[i] = contexts[i] + message / (
            1 if layer.options.divide_update else graph.average_degree
        )
    if layer.options.divide_update:
        contexts = [whole(new, graph) for new in contexts]
    return stack(contexts, hat, graph.num_rows, layer.out_channels)


def smp_layer(layer: nn.Module, u: Tensor, graph: DenseGraph) -> Tensor:
    if isinstance(layer, FastSMPLayer):
        return fast_layer(layer, u, graph)
    assert isinstance(layer, DefaultSMPLayer)
    return default_layer(layer, u, graph)


def batch_moments(values: Sequence[Tensor]) -> tuple[int, Tensor, Tensor]:
    """Number, mean and variance (divided by the number) of all rows of all tensors."""
    rows = torch.cat([value.reshape(-1, value.size(-1)) for value in values])
    count = rows.size(0)
    mean = rows.sum(0) / count
    return count, mean, ((rows - mean) ** 2).sum(0) / count


def running_statistics(norm: RowBatchNorm, values: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """What the running mean and variance become after a training step on these values."""
    count, mean, variance = batch_moments(values)
    variance = variance * count / max(count - 1, 1)
    keep = 1 - norm.momentum
    return (
        keep * norm.running_mean + norm.momentum * mean.detach(),
        keep * norm.running_var + norm.momentum * variance.detach(),
    )


def batch_norm(norm: RowBatchNorm, values: Sequence[Tensor]) -> list[Tensor]:
    """Batch norm over all rows of all contexts of all graphs."""
    if sum(value.numel() for value in values) == 0:
        return list(values)
    if norm.training:
        _, mean, variance = batch_moments(values)
    else:
        mean, variance = norm.running_mean, norm.running_var
    return [(v - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias for v in values]


def layer_norm(norm: RowLayerNorm, value: Tensor) -> Tensor:
    mean = value.sum(-1, keepdim=True) / value.size(-1)
    variance = ((value - mean) ** 2).sum(-1, keepdim=True) / value.size(-1)
    return (value - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def normalize(norm: nn.Module, values: Sequence[Tensor]) -> list[Tensor]:
    if isinstance(norm, RowBatchNorm):
        return batch_norm(norm, values)
    if isinstance(norm, RowLayerNorm):
        return [layer_norm(norm, value) for value in values]
    return list(values)


# ---------------------------------------------------------------------------- pooling


def graph_extractor(module: GraphExtractor, u: Tensor, graph: DenseGraph) -> Tensor:
    """MLP(Σ_i U_i[i], Σ_ij U_i[j]), both divided by their number of terms for 'mean': [C].

    For 'scaled-sum' they are divided by s and by s times the number of rows, for graphs of a usual
    size s. For 'max' the largest terms instead of the sums; zeros for an empty graph.
    """
    parts = []
    for way in module.reduce.split("+"):
        trace, total = u.new_zeros(u.size(-1)), u.new_zeros(u.size(-1))
        if way == "max" and graph.num_nodes:
            own = torch.stack([u[i, graph.identifier[i]] for i in range(graph.num_nodes)])
            trace, total = own.amax(0), u.amax(1).amax(0)
        elif way != "max":
            for i in range(graph.num_nodes):
                trace = trace + u[i, graph.identifier[i]]
                for r in range(graph.num_rows):
                    total = total + u[i, r]
        if way == "mean" and graph.num_nodes:
            trace = trace / graph.num_nodes
            total = total / (graph.num_nodes * graph.num_rows)
        if way == "scaled-sum" and graph.num_nodes:
            trace = trace / module.usual_nodes
            total = total / (module.usual_nodes * graph.num_rows)
        parts += [trace, total]
    return perceptron(module.hidden, module.out, torch.cat(parts))


def node_extractor(module: NodeExtractor, u: Tensor, graph: DenseGraph) -> Tensor:
    """Lin(V_i[i], mean_j V_i[j], max_j V_i[j]) with V = MLP(U): [n, C]."""
    features = []
    for i in range(graph.num_nodes):
        v = perceptron(module.row_hidden, module.row_out, u[i])
        pooled = torch.cat([v[graph.identifier[i]], v.sum(0) / graph.num_rows, v.amax(0)])
        features.append(linear(module.out, pooled))
    return stack(features, u, module.out.out_features)


def pooled_node_extractor(
    module: PooledNodeExtractor, u: Tensor, graph: DenseGraph, reduction: str
) -> Tensor:
    """The sum, mean or largest of the node features; zeros for an empty graph: [C]."""
    features = node_extractor(module.nodes, u, graph)
    if graph.num_nodes == 0:
        return u.new_zeros(features.size(1))
    if reduction == "max":
        return features.amax(0)
    return features.sum(0) / (graph.num_nodes if reduction == "mean" else 1)


def extract(module: nn.Module, u: Tensor, graph: DenseGraph, reduction: str = "") -> Tensor:
    if isinstance(module, GraphExtractor):
        return graph_extractor(module, u, graph)
    if isinstance(module, NodeExtractor):
        return node_extractor(module, u, graph)
    if isinstance(module, PooledNodeExtractor):
        return pooled_node_extractor(module, u, graph, reduction)
    if isinstance(module, RowExtractor):
        rows = [u[i, 0] for i in range(graph.num_nodes)]
        return perceptron(module.hidden, module.out, stack(rows, u, u.size(-1)))
    assert isinstance(module, NodePooling)
    parts = []
    for way in module.reduce.split("+"):
        total = u.new_zeros(u.size(-1))
        for i in range(graph.num_nodes if way != "max" else 0):
            unit = {"mean": graph.num_nodes, "scaled-sum": module.usual_nodes}.get(way, 1)
            total = total + u[i, 0] / unit
        parts.append(u[:, 0].amax(0) if way == "max" and graph.num_nodes else total)
    return perceptron(module.hidden, module.out, torch.cat(parts))


# ---------------------------------------------------------------------------- networks


def contexts(backbone: Backbone, graphs: Sequence[DenseGraph]) -> Iterator[list[Tensor]]:
    """U⁽⁰⁾, U⁽¹⁾, … of all graphs."""
    dtype = next(backbone.parameters()).dtype
    us = [initial(graph, dtype, backbone.options.features) for graph in graphs]
    yield us
    for norm, layer in zip(backbone.norms, backbone.layers, strict=True):
        normal = us if backbone.norm_after else normalize(norm, us)
        new = [smp_layer(layer, u, graph) for u, graph in zip(normal, graphs, strict=True)]
        if backbone.norm_after:
            new = normalize(norm, new)
        if backbone.options.residual and layer.in_channels == layer.out_channels:
            new = [b + a for a, b in zip(us, new, strict=True)]
        us = new
        yield us


def global_features(module: GlobalFeatures, u: Tensor) -> Tensor:
    """The features of graphs in standard deviations from their mean; 0 where unknown."""
    rows = [
        [
            0.0 if value != value else min(max((value - mean) / scale, -10.0), 10.0)
            for value, mean, scale in zip(
                row, module.mean.tolist(), module.scale.tolist(), strict=True
            )
        ]
        for row in u.tolist()
    ]
    return torch.tensor(rows, dtype=u.dtype).reshape(u.shape)


def smp(
    model: SMP, graphs: Sequence[DenseGraph], reduction: str = "", u: Tensor | None = None
) -> Tensor:
    """The network of the left architecture figure: [B, out], or [N, out] for nodes."""
    sums: list[Tensor] = []
    for number, us in enumerate(contexts(model.backbone, graphs)):
        if number == 0:
            extractor, share = model.first_extractor, 1.0
        else:
            shared = len(model.extractors) == 1
            extractor = model.extractors[0 if shared else number - 1]
            share = 1 / model.options.num_layers
        here = [extract(extractor, u, g, reduction) for u, g in zip(us, graphs, strict=True)]
        sums = (
            [share * v for v in here]
            if not sums
            else [s + share * v for s, v in zip(sums, here, strict=True)]
        )
    h = torch.stack(sums) if model.level == "graph" else torch.cat(sums)
    given = h
    if u is not None:
        of_graphs = global_features(model.globals, u)
        if model.level == "node":
            of_graphs = torch.cat(
                [f.expand(g.num_nodes, -1) for f, g in zip(of_graphs, graphs, strict=True)]
            )
        given = torch.cat([h, of_graphs], dim=1)
    return linear(model.out, h + linear(model.head, given).clamp(min=0))


def gru_step(cell: nn.GRUCell, value: Tensor, state: Tensor) -> Tensor:
    """Cho et al. 2014, in the order of gates of PyTorch: reset, update, new."""
    from_value = (value @ cell.weight_ih.t() + cell.bias_ih).chunk(3, dim=-1)
    from_state = (state @ cell.weight_hh.t() + cell.bias_hh).chunk(3, dim=-1)
    reset = torch.sigmoid(from_value[0] + from_state[0])
    update = torch.sigmoid(from_value[1] + from_state[1])
    new = torch.tanh(from_value[2] + reset * from_state[2])
    return (1 - update) * new + update * state


def set2set(module: nn.Module, states: Tensor) -> Tensor:
    """Vinyals et al. 2016: a query by an LSTM, attention over the set, [n, C] to [2 C]."""
    width, unit = states.size(1), module.unit
    query_star = states.new_zeros(2 * width)
    hidden, cell = states.new_zeros(width), states.new_zeros(width)
    for _ in range(module.steps):
        gates = (
            query_star @ unit.weight_ih.t()
            + unit.bias_ih
            + hidden @ unit.weight_hh.t()
            + unit.bias_hh
        )
        write, forget, new, out = gates.chunk(4)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(write) * torch.tanh(new)
        hidden = torch.sigmoid(out) * torch.tanh(cell)
        attention = torch.softmax(states @ hidden, dim=0)
        query_star = torch.cat([hidden, attention @ states])
    return query_star


def multitask(model: MultiTaskSMP, graphs: Sequence[DenseGraph]) -> tuple[Tensor, Tensor]:
    """The network of the right architecture figure: [N, node_channels], [B, graph_channels]."""
    states: list[Tensor] = []
    for number, us in enumerate(contexts(model.backbone, graphs)):
        if number == 0:
            width = model.recurrent.hidden_size
            states = [u.new_zeros(g.num_nodes, width) for u, g in zip(us, graphs, strict=True)]
            continue
        features = [
            extract(model.extractor, u, g).clamp(min=0) for u, g in zip(us, graphs, strict=True)
        ]
        states = [gru_step(model.recurrent, f, s) for f, s in zip(features, states, strict=True)]
    pooled = torch.stack([set2set(model.set2set, state) for state in states])
    (hidden,) = batch_norm(model.graph_norm, [linear(model.graph_hidden, pooled)])
    nodes = torch.cat(states)
    for module in model.node_head:
        nodes = nodes.clamp(min=0) if isinstance(module, nn.ReLU) else linear(module, nodes)
    return nodes, linear(model.graph_out, hidden.clamp(min=0))
