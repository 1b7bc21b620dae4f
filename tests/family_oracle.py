"""A plain transcription of the family (docs/concepts/family.md): row by row, graph by graph.

A row of context i has a label: a node, a pair of nodes, or None for the far row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import local_oracle
import networkx as nx
import oracle
import torch
from oracle import DenseGraph, linear, matrix
from torch import Tensor

from smpgnn import SMP
from smpgnn.contexts.first_rows import FirstRows
from smpgnn.layers import DefaultSMPLayer, FamilySMPLayer

Contexts = list[Tensor]  # of the nodes of a graph: one row per label


class Rows:
    """The labels of the rows of each context of a graph."""

    def __init__(self, graph: DenseGraph, identifiers: str, radius: int, distance: int) -> None:
        hops, nodes = graph.hops(), range(graph.num_nodes)
        self.graph, self.nodes, self.hops = graph, nodes, hops
        self.marks = 2 if identifiers == "pairs" else 1
        near = [[j for j in nodes if hops[i][j] <= radius] for i in nodes]
        self.labels: list[list[Any]] = [[*nodes] for _ in nodes]
        if identifiers == "local":
            self.labels = [[*near[i], None] for i in nodes]
        if identifiers == "pairs":
            self.labels = [
                [*((j, k) for j in near[i] for k in near[i] if hops[j][k] <= distance), None]
                for i in nodes
            ]
        pairs = {frozenset(edge) for edge in graph.edges}
        blocks = nx.biconnected_components(nx.Graph([tuple(p) for p in pairs if len(p) == 2]))
        self.blocks = [set(block) for block in blocks]

    def own(self, i: int) -> int:
        return self.labels[i].index((i, i) if self.marks == 2 else i)

    def has(self, i: int, label: Any) -> bool:
        return label is not None and label in self.labels[i]

    def row(self, us: Contexts, i: int, label: Any) -> Tensor:
        """U_i[label], or the far row of i."""
        return us[i][self.labels[i].index(label) if self.has(i, label) else -1]


def initial(here: Rows, first: FirstRows, dtype: torch.dtype, edge_channels: int) -> Contexts:
    graph = here.graph
    a = graph.adjacency()
    degree = a.sum(1).clamp(min=1)
    powers = [a / degree[:, None]]
    for _ in range(first.walk_steps - 1):
        powers.append(a / degree[:, None] @ powers[-1])

    def channels(i: int, j: int | None) -> Tensor:
        none = torch.zeros(0 if graph.x is None else graph.x.size(1), dtype=dtype)
        x = [none] * graph.num_nodes if graph.x is None else graph.x
        own = [torch.tensor([float(i == j)], dtype=dtype)]
        if first.features == "own":
            own.append(x[i] if i == j else 0 * none)
        elif first.features == "context":
            own.append(x[i])
        else:
            own.append(0 * none if j is None else x[j])
            own += [x[i]] if first.features == "both" else []
        if "distance" in first.parts:
            hot = [0.0] * (first.radius + 2)
            far = j is None or here.hops[i][j] > first.radius
            hot[first.radius + 1 if far else int(here.hops[i][j])] = 1.0
            own.append(torch.tensor(hot, dtype=dtype))
        if "walks" in first.parts:
            own.append(torch.stack([p[i, j] if j is not None else p.sum() * 0 for p in powers]))
        if "bond" in first.parts:
            total = torch.zeros(max(1, edge_channels), dtype=dtype)
            for e, edge in enumerate(graph.edges):
                if edge == (j, i):
                    total = total + (graph.y[e] if edge_channels else 1)
            own.append(total)
        return torch.cat(own)

    def row(i: int, label: Any) -> Tensor:
        if here.marks == 1:
            return channels(i, label)
        return torch.cat([channels(i, j) for j in ((None, None) if label is None else label)])

    return [torch.stack([row(i, label) for label in here.labels[i]]) for i in here.nodes]


def layer(layer: DefaultSMPLayer, us: Contexts, here: Rows) -> Contexts:
    """SMP's messages and update, and the terms, one row after another."""
    hat, graph, options = local_oracle.set_map(layer.set_map, us, here), here.graph, layer.options
    terms = options.terms if isinstance(layer, FamilySMPLayer) else ()
    new = []
    for i in here.nodes:
        rows = []
        for place, label in enumerate(here.labels[i]):
            u = hat[i][place]
            total = torch.zeros_like(u)
            for e, (k, to) in enumerate(graph.edges):
                if to != i:
                    continue
                sent = here.row(hat, k, label)
                hidden = linear(layer.message_receiver, u) + linear(layer.message_sender, sent)
                if layer.message_edge is not None:
                    hidden = hidden + linear(layer.message_edge, graph.y[e])
                if "folklore" in terms:
                    hidden = hidden + linear(layer.message_arc, here.row(hat, i, k))
                message = linear(layer.message_out, hidden.clamp(min=0))
                message = message + sent if options.message_residual else message
                total = total + message / graph.average_degree
            hidden = linear(layer.update_own, u) + linear(layer.update_messages, total)
            value = linear(layer.update_out, hidden.clamp(min=0))
            value = value + u if options.update_residual else value
            for name in terms:
                if name != "folklore":
                    value = value + term(name, layer, hat, here, i, label, u)
            rows.append(value)
        new.append(torch.stack(rows))
    return new


def term(
    name: str, layer: FamilySMPLayer, hat: Contexts, here: Rows, i: int, j: Any, u: Tensor
) -> Tensor:
    """What one term adds to row j of context i, which is u."""
    part, graph = layer.parts[name], here.graph
    if name == "inside":
        total = torch.zeros_like(u)
        for e, (k, to) in enumerate(graph.edges):
            if to != j:
                continue
            hidden = linear(part.receiver, u) + linear(part.sender, here.row(hat, i, k))
            if part.edge is not None:
                hidden = hidden + linear(part.edge, graph.y[e])
            if part.arc is not None:
                hidden = hidden + linear(part.arc, here.row(hat, k, j))
            total = total + hidden.clamp(min=0) / graph.average_degree
        hidden = linear(part.own, u) + linear(part.messages, total)
        return linear(part.out, hidden.clamp(min=0))
    if name == "mirror":
        turned = u if j is None else here.row(hat, j, i)
        own = u if j is None else here.row(hat, j, j)
        return turned @ matrix(part.transposed) + own @ matrix(part.diagonal)
    total = torch.zeros_like(u)
    for k in here.nodes if j is not None else ():
        together = any({i, j, k} <= block for block in here.blocks)
        if here.has(i, k) and here.has(k, j) and (together or name == "product"):
            left = here.row(hat, i, k) @ matrix(part.left)
            total = total + left * (here.row(hat, k, j) @ matrix(part.right))
    return (total / (1 + total.abs()).sqrt()) @ matrix(part.out)


def contexts(model: SMP, graphs: Sequence[DenseGraph]) -> tuple[list[Rows], list[list[Contexts]]]:
    """U⁽⁰⁾, U⁽¹⁾, … of all graphs."""
    backbone, options = model.backbone, model.options
    here = [
        Rows(graph, options.identifiers, options.context_radius, options.pair_distance)
        for graph in graphs
    ]
    first, dtype = FirstRows.of(options), next(model.parameters()).dtype
    us = [initial(one, first, dtype, backbone.edge_channels) for one in here]
    found = [us]
    for norm, one in zip(backbone.norms, backbone.layers, strict=True):
        normal = local_oracle.normalize(norm, us)
        new = [layer(one, u, rows) for u, rows in zip(normal, here, strict=True)]
        if options.residual and one.in_channels == one.out_channels:
            new = [
                [b + a for a, b in zip(old, fresh, strict=True)]
                for old, fresh in zip(us, new, strict=True)
            ]
        us = new
        found.append(us)
    return here, found


def smp(model: SMP, graphs: Sequence[DenseGraph]) -> Tensor:
    """The network: [B, out], or [N, out] for nodes."""
    here, found = contexts(model, graphs)
    sums: list[Any] = [0.0] * len(graphs)
    for number, us in enumerate(found):
        extractor = model.extractors[number - 1] if number else model.first_extractor
        share = 1 / model.options.num_layers if number else 1.0
        for g, (u, rows) in enumerate(zip(us, here, strict=True)):
            sums[g] = sums[g] + share * local_oracle.extract(extractor, u, rows)
    h = torch.stack(sums) if model.level == "graph" else torch.cat(sums)
    return oracle.linear(model.out, h + linear(model.head, h).clamp(min=0))


def first_rows(model: SMP, graphs: Sequence[DenseGraph]) -> Tensor:
    """U⁽⁰⁾ of all graphs, row after row."""
    return torch.cat([u for us in contexts(model, graphs)[1][0] for u in us])
