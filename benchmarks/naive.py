"""A naive implementation: contexts padded to the largest graph, and one message per edge.

It uses the parameters of a network of the library, so both compute the same function. Padding is
masked wherever it would change the result.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.layers import DefaultSMPLayer, FastSMPLayer, RowBatchNorm, SetLinear
from smpgnn.models import SMP, MultiTaskSMP
from smpgnn.pooling import GraphExtractor, NodeExtractor, SetToSet


class Padded:
    """A batch of graphs whose contexts are padded to n_max rows: U has shape [N, n_max, C]."""

    def __init__(self, edge_index: Tensor, batch: Tensor, num_graphs: int) -> None:
        self.sender, self.receiver = edge_index
        self.batch, self.num_graphs = batch, num_graphs
        size = torch.bincount(batch, minlength=num_graphs)
        self.size = size[batch].view(-1, 1, 1)
        start = F.pad(size.cumsum(0), (1, 0))[batch]
        self.place = torch.arange(batch.numel(), device=batch.device) - start
        self.width = int(size.max())
        rows = torch.arange(self.width, device=batch.device)
        self.mask = (rows < self.size.view(-1, 1)).unsqueeze(2)  # [N, n_max, 1]
        edges = torch.bincount(batch[self.receiver], minlength=num_graphs)
        average = edges.double() / size.clamp(min=1)
        self.average_degree = average[batch].clamp(min=1e-12).view(-1, 1, 1)

    def initial(self, x: Tensor | None, like: Tensor) -> Tensor:
        own = like.new_ones(self.batch.numel(), 1)
        own = own if x is None else torch.cat([own, x], dim=1)
        u = like.new_zeros(self.batch.numel(), self.width, own.size(1))
        u[torch.arange(len(own), device=own.device), self.place] = own
        return u

    def own(self, u: Tensor) -> Tensor:
        return u[torch.arange(u.size(0), device=u.device), self.place]

    def mean(self, u: Tensor) -> Tensor:
        return (u * self.mask).sum(1) / self.size.squeeze(2)

    def max(self, u: Tensor) -> Tensor:
        return u.masked_fill(~self.mask, -torch.inf).amax(1)

    def sum_messages(self, messages: Tensor) -> Tensor:
        """Σ_j over the neighbours divided by d_avg: [E, n_max, C] to [N, n_max, C]."""
        out = messages.new_zeros(self.batch.numel(), *messages.shape[1:])
        average = self.average_degree.to(messages.dtype)
        return out.index_add(0, self.receiver, messages) / average

    def graph_mean(self, values: Tensor) -> Tensor:
        out = values.new_zeros(self.num_graphs, values.size(1)).index_add(0, self.batch, values)
        size = torch.bincount(self.batch, minlength=self.num_graphs).clamp(min=1)
        mean: Tensor = out / size.unsqueeze(1)
        return mean


def set_map(module: SetLinear, u: Tensor, graphs: Padded) -> Tensor:
    mean = graphs.mean(u)
    eye = torch.zeros(u.shape[:2], device=u.device, dtype=u.dtype)
    eye[torch.arange(u.size(0), device=u.device), graphs.place] = 1
    own = eye.unsqueeze(2) * module.w3(mean).unsqueeze(1)
    prepared: Tensor = module.w1(u) + module.w2(mean).unsqueeze(1) + own
    return prepared


def layer(module: nn.Module, u: Tensor, edge_attr: Tensor | None, graphs: Padded) -> Tensor:
    assert isinstance(module, DefaultSMPLayer | FastSMPLayer)
    assert isinstance(module.set_map, SetLinear)
    u = set_map(module.set_map, u, graphs)
    u_i, u_j = u[graphs.receiver], u[graphs.sender]  # [E, n_max, C]
    if isinstance(module, FastSMPLayer):
        return u + graphs.sum_messages(u_j + module.w4(u_i) * module.w5(u_j))
    hidden = module.message_receiver(u_i) + module.message_sender(u_j)
    if module.message_edge is not None:
        hidden = hidden + module.message_edge(edge_attr).unsqueeze(1)
    messages = module.message_out(F.relu(hidden))
    if module.options.message_residual:
        messages = messages + u_j
    total = graphs.sum_messages(messages)
    new: Tensor = module.update_out(F.relu(module.update_own(u) + module.update_messages(total)))
    return new + u if module.options.update_residual else new


def norm(module: nn.Module, u: Tensor, graphs: Padded) -> Tensor:
    if not isinstance(module, RowBatchNorm):
        return u
    real = graphs.mask.squeeze(2)
    out = torch.zeros_like(u)
    out[real] = nn.BatchNorm1d.forward(module, u[real])
    return out


def graph_features(module: nn.Module, u: Tensor, graphs: Padded) -> Tensor:
    assert isinstance(module, GraphExtractor)
    trace, total = graphs.graph_mean(graphs.own(u)), graphs.graph_mean(graphs.mean(u))
    out: Tensor = module.out(F.relu(module.hidden(torch.cat([trace, total], dim=1))))
    return out


def node_features(module: NodeExtractor, u: Tensor, graphs: Padded) -> Tensor:
    v = module.row_out(F.relu(module.row_hidden(u)))
    pooled = torch.cat([graphs.own(v), graphs.mean(v), graphs.max(v)], dim=1)
    out: Tensor = module.out(pooled)
    return out


def set_to_set(module: SetToSet, state: Tensor, graphs: Padded) -> Tensor:
    """Set2Set on node states padded to the largest graph."""
    batch, count = graphs.batch, graphs.num_graphs
    values = state.new_zeros(count, graphs.width, state.size(1))
    values[batch, graphs.place] = state
    there = torch.zeros(values.shape[:2], dtype=torch.bool, device=state.device)
    there[batch, graphs.place] = True
    star = state.new_zeros(count, 2 * state.size(1))
    hidden = memory = state.new_zeros(count, state.size(1))
    for _ in range(module.steps):
        hidden, memory = module.unit(star, (hidden, memory))
        scores = (values * hidden.unsqueeze(1)).sum(2).masked_fill(~there, -torch.inf)
        read = (torch.softmax(scores, dim=1).unsqueeze(2) * values).sum(1)
        star = torch.cat([hidden, read], dim=1)
    return star


class NaiveSMP(nn.Module):
    """The naive `SMP` for graph targets, with the parameters of `model`."""

    def __init__(self, model: SMP) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        x: Tensor | None,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor,
        batch_size: int,
    ) -> Tensor:
        model, backbone = self.model, self.model.backbone
        graphs = Padded(edge_index, batch, batch_size)
        u = graphs.initial(x, model.out.weight)
        features = graph_features(model.first_extractor, u, graphs)
        after = []
        last = len(model.extractors) - 1
        for number, (norm_, layer_) in enumerate(zip(backbone.norms, backbone.layers, strict=True)):
            u = layer(layer_, norm(norm_, u, graphs), edge_attr, graphs)
            after.append(graph_features(model.extractors[min(number, last)], u, graphs))
        features = features + torch.stack(after).mean(0)
        features = features + F.relu(model.head(features))
        out: Tensor = model.out(model.dropout(features))
        return out


class NaiveMultiTask(nn.Module):
    """The naive `MultiTaskSMP`, with the parameters of `model`."""

    def __init__(self, model: MultiTaskSMP) -> None:
        super().__init__()
        self.model = model

    def forward(
        self,
        x: Tensor | None,
        edge_index: Tensor,
        edge_attr: Tensor | None,
        batch: Tensor,
        batch_size: int,
    ) -> tuple[Tensor, Tensor]:
        model, backbone = self.model, self.model.backbone
        graphs = Padded(edge_index, batch, batch_size)
        u = graphs.initial(x, model.graph_out.weight)
        state = u.new_zeros(u.size(0), model.recurrent.hidden_size)
        assert isinstance(model.extractor, NodeExtractor)
        for norm_, layer_ in zip(backbone.norms, backbone.layers, strict=True):
            u = layer(layer_, norm(norm_, u, graphs), edge_attr, graphs)
            state = model.recurrent(F.relu(node_features(model.extractor, u, graphs)), state)
        pooled = set_to_set(model.set2set, state, graphs)
        hidden = F.relu(nn.BatchNorm1d.forward(model.graph_norm, model.graph_hidden(pooled)))
        return model.node_head(state), model.graph_out(hidden)
