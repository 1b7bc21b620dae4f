"""A plain transcription of SMP with local contexts: one row per node within r hops, a far row."""

from __future__ import annotations

import oracle
import torch
from oracle import DenseGraph, linear, matrix
from torch import Tensor, nn

from smpgnn import SMP
from smpgnn.layers import DefaultSMPLayer, FastSMPLayer, MarkedSetLinear, SetLinear
from smpgnn.pooling import GraphExtractor, NodeExtractor

Contexts = list[Tensor]  # of the nodes of a graph: the rows of the nodes near, then the far row


class Near:
    """A graph, and the nodes within r hops of each of its nodes, in their order."""

    def __init__(self, graph: DenseGraph, radius: int) -> None:
        hops, nodes = graph.hops(), range(graph.num_nodes)
        self.graph, self.nodes = graph, nodes
        self.near = [[j for j in nodes if hops[i][j] <= radius] for i in nodes]

    def own(self, i: int) -> int:
        return self.near[i].index(i)

    def heard(self, us: Contexts, i: int, k: int) -> Tensor:
        """For each row of i the row of its neighbour k that it hears."""
        rows = [us[k][self.near[k].index(j) if j in self.near[k] else -1] for j in self.near[i]]
        return torch.stack([*rows, us[k][-1]])


def initial(here: Near, dtype: torch.dtype, features: str) -> Contexts:
    contexts, x = [], here.graph.x
    for i in here.nodes:
        one = torch.ones(1, dtype=dtype)
        own = one if x is None else torch.cat([one, x[i]])
        rows = [torch.zeros_like(own) for _ in range(len(here.near[i]) + 1)]
        for place, j in enumerate([*here.near[i], None]):
            source = {"own": None, "context": i, "row": j}[features]
            if x is not None and source is not None:
                rows[place] = torch.cat([0 * one, x[source]])
        rows[here.own(i)] = own
        contexts.append(torch.stack(rows))
    return contexts


def set_map(module: nn.Module, us: Contexts, here: Near) -> Contexts:
    """Means over the rows of a context, each once, the far row among them."""
    contexts = []
    for i, u in enumerate(us):
        hat = u @ matrix(module.w1)
        if not isinstance(module, SetLinear):
            contexts.append(hat if module.w1.bias is None else hat + module.w1.bias)
            continue
        mean = u.sum(0) / u.size(0)
        mark = torch.zeros(u.size(0), 1, dtype=u.dtype)
        mark[here.own(i)] = 1
        hat = hat + mean @ matrix(module.w2) + module.w2.bias + mark * (mean @ matrix(module.w3))
        if isinstance(module, MarkedSetLinear):
            own = u[here.own(i)]
            hat = hat + own @ matrix(module.own_to_all) + mark * (own @ matrix(module.own_to_own))
        contexts.append(hat)
    return contexts


def smp_layer(layer: nn.Module, us: Contexts, here: Near) -> Contexts:
    hat, graph = set_map(layer.set_map, us, here), here.graph
    total = [torch.zeros_like(u) for u in hat]
    for e, (k, i) in enumerate(graph.edges):
        sent = here.heard(hat, i, k)
        if isinstance(layer, FastSMPLayer):
            message = sent + (hat[i] @ matrix(layer.w4)) * (sent @ matrix(layer.w5))
        else:
            assert isinstance(layer, DefaultSMPLayer)
            hidden = linear(layer.message_receiver, hat[i]) + linear(layer.message_sender, sent)
            if layer.message_edge is not None:
                hidden = hidden + linear(layer.message_edge, graph.y[e])
            message = linear(layer.message_out, hidden.clamp(min=0))
            message = message + sent if layer.options.message_residual else message
        total[i] = total[i] + message / graph.average_degree
    if isinstance(layer, FastSMPLayer):
        return [u + t for u, t in zip(hat, total, strict=True)]
    contexts = []
    for u, t in zip(hat, total, strict=True):
        hidden = linear(layer.update_own, u) + linear(layer.update_messages, t)
        new = linear(layer.update_out, hidden.clamp(min=0))
        contexts.append(new + u if layer.options.update_residual else new)
    return contexts


def extract(module: nn.Module, us: Contexts, here: Near) -> Tensor:
    """[C] of a graph, or [n, C] of its nodes."""
    if isinstance(module, NodeExtractor):
        features = []
        for i, u in enumerate(us):
            v = oracle.perceptron(module.row_hidden, module.row_out, u)
            pooled = torch.cat([v[here.own(i)], v.sum(0) / v.size(0), v.amax(0)])
            features.append(linear(module.out, pooled))
        return oracle.stack(features, module.out.weight, module.out.out_features)
    assert isinstance(module, GraphExtractor)
    parts = []
    for way in module.reduce.split("+"):
        width = module.hidden.in_features // (2 * len(module.reduce.split("+")))
        trace, total = (module.hidden.weight.new_zeros(width) for _ in range(2))
        if way == "max" and us:
            trace = torch.stack([u[here.own(i)] for i, u in enumerate(us)]).amax(0)
            total = torch.stack([u.amax(0) for u in us]).amax(0)
        elif us:
            trace = torch.stack([u[here.own(i)] for i, u in enumerate(us)]).sum(0)
            rows = [u.sum(0) if way == "sum" else u.sum(0) / u.size(0) for u in us]
            total = torch.stack(rows).sum(0)
        unit = {"mean": max(1, len(us)), "scaled-sum": module.usual_nodes}.get(way, 1)
        parts += [trace / unit, total / unit]
    return oracle.perceptron(module.hidden, module.out, torch.cat(parts))


def normalize(norm: nn.Module, graphs: list[Contexts]) -> list[Contexts]:
    flat = iter(oracle.normalize(norm, [u for us in graphs for u in us]))
    return [[next(flat) for _ in us] for us in graphs]


def local_smp(model: SMP, graphs: tuple[DenseGraph, ...], radius: int) -> Tensor:
    backbone, here = model.backbone, [Near(graph, radius) for graph in graphs]
    contexts = [initial(one, torch.float64, backbone.options.features) for one in here]
    sums = [extract(model.first_extractor, us, n) for us, n in zip(contexts, here, strict=True)]
    for number, (norm, layer) in enumerate(zip(backbone.norms, backbone.layers, strict=True)):
        normal = contexts if backbone.norm_after else normalize(norm, contexts)
        new = [smp_layer(layer, us, n) for us, n in zip(normal, here, strict=True)]
        new = normalize(norm, new) if backbone.norm_after else new
        if backbone.options.residual and layer.in_channels == layer.out_channels:
            new = [
                [b + a for a, b in zip(old, us, strict=True)]
                for old, us in zip(contexts, new, strict=True)
            ]
        contexts = new
        extractor = model.extractors[min(number, len(model.extractors) - 1)]
        for g, (us, n) in enumerate(zip(contexts, here, strict=True)):
            sums[g] = sums[g] + extract(extractor, us, n) / backbone.options.num_layers
    h = torch.stack(sums) if model.level == "graph" else torch.cat(sums)
    return linear(model.out, h + linear(model.head, h).clamp(min=0))
