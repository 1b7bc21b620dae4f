"""Contributions of nodes to the prediction for their graph, by integrated gradients.

A network pools the contexts U of all nodes, initially and after every layer, into one vector per
graph. Scale all contexts by α. The contribution of a node is the integral over α from 0 to 1 of its
rows times the gradient with respect to them (Sundararajan, Taly and Yan, 2017):

    c_i = ∫₀¹ ⟨U_i, ∂score(α U) / ∂U_i⟩ dα

At α = 0 the score depends on features of the whole graph only, if there are any. The layers run
once, as for a prediction; only the readout runs at every integration point. So a node contributes
all that its context knows of its surroundings, not only its own features.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import torch
from torch import Tensor, nn

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.data.store import GraphBatch, GraphStore
from smpgnn.errors import InputError
from smpgnn.inference import EXPLAIN_STEPS
from smpgnn.inference.pieces import in_pieces
from smpgnn.models.registry import NetworkSpec
from smpgnn.models.smp import SMP, Reader
from smpgnn.training.network import run_network
from smpgnn.training.tasks import OneLevelTask, Task

#: Rows of contexts that are explained at a time; those of all layers are kept.
BATCH_ROWS = 40_000


@dataclass(frozen=True, eq=False)
class Contributions:
    """The contribution of each node to each score of its graph, in float64.

    For every graph, score = rest + sum over its nodes. The rest is the score of zero contexts, the
    same for all graphs with the same features u, plus the integration error `missed`. The values of
    graphs in `errors` are NaN.

    Shapes: score, rest, missed [G, T]; nodes [N, T].
    """

    score: Tensor
    rest: Tensor
    missed: Tensor
    nodes: Tensor
    errors: Mapping[int, str] = field(default_factory=dict)

    @property
    def largest_miss(self) -> float:
        """The largest integration error."""
        return max(self.missed.abs().nan_to_num().flatten().tolist(), default=0.0)


def explain_store(
    network: nn.Module,
    task: Task,
    store: GraphStore,
    *,
    spec: NetworkSpec | None = None,
    steps: int = EXPLAIN_STEPS,
    progress: Callable[[int], None] = lambda graphs: None,
) -> Contributions:
    """The contributions of all nodes of the graphs of a store.

    Args:
        network: a trained `SMP` in eval mode.
        task: its task, with graph targets.
        store: the graphs.
        spec: the description of the network; with it, graphs too large for the memory are skipped.
        steps: number of integration points.
        progress: called with the number of finished graphs.
    """
    task = explained(task)
    if steps < 1:
        raise InputError(f"steps must be 1 or more, not {steps}.")
    assert isinstance(network, SMP)
    device = next(network.parameters()).device

    def work(batch: GraphBatch) -> tuple[Tensor, ...]:
        sizes = [batch.num_nodes, batch.num_graphs, batch.num_graphs]
        with torch.no_grad():
            reader = _reader(network, task, steps, batch.u)
            nodes, whole, bare = run_network(network, batch, reader=reader).split(sizes)
        added = torch.zeros_like(whole).index_add(0, batch.batch, nodes)
        return whole, whole - added, whole - bare - added, nodes

    empty = torch.zeros(0, len(task.score_names()), dtype=torch.float64)
    parts: list[tuple[Tensor, ...]] = [(empty, empty, empty, empty)]
    errors: dict[int, str] = {}
    done = 0
    for piece in in_pieces(store.to(device), spec, BATCH_ROWS, work, gradients=True):
        found = piece.result
        if found is None:
            (graph,) = piece.graphs
            errors[graph] = piece.error
            gap = empty.new_full((int(store.num_nodes[graph]), empty.size(1)), torch.nan)
            found = (gap[:1], gap[:1], gap[:1], gap)
        elif not bool(found[0].isfinite().all()):
            bad = torch.nonzero(~found[0].isfinite().all(1)).flatten().tolist()
            errors |= {piece.graphs[row]: "the prediction is not a finite number" for row in bad}
        parts.append(tuple(tensor.cpu() for tensor in found))
        done += len(piece.graphs)
        progress(done)
    score, rest, missed, nodes = (torch.cat(column) for column in zip(*parts, strict=True))
    return Contributions(score, rest, missed, nodes, errors)


def mean_contributions(members: Sequence[Contributions]) -> Contributions:
    """The contributions to the mean of the scores of several networks."""
    if len(members) == 1:
        return members[0]
    return Contributions(
        score=torch.stack([one.score for one in members]).mean(0),
        rest=torch.stack([one.rest for one in members]).mean(0),
        missed=torch.stack([one.missed for one in members]).mean(0),
        nodes=torch.stack([one.nodes for one in members]).mean(0),
        errors={graph: why for one in members for graph, why in one.errors.items()},
    )


def explained(task: Task) -> OneLevelTask:
    """The task, if its scores belong to graphs."""
    if not isinstance(task, OneLevelTask) or task.level != "graph":
        raise InputError("node predictions cannot be explained: use a model with graph targets.")
    return task


def _reader(network: SMP, task: OneLevelTask, steps: int, u: Tensor | None) -> Reader:
    """Computes the contributions of nodes, the scores, and the scores of zero contexts.

    Pooling is homogeneous: it maps α U to α times the pooled U. So the gradient with respect to the
    pooled vectors is integrated, then propagated to the rows once. It jumps where a ReLU becomes
    active, mostly at small α, so the integration points are denser there.

    Shapes: the result is [N + 2 B, T].
    """

    def read(layers: list[LocalContext], index: ContextIndex) -> Tensor:
        with torch.enable_grad():
            rows = [context.rows.detach().requires_grad_() for context in layers]
            shown = [c.with_rows(r) for c, r in zip(layers, rows, strict=True)]
            pooled = network.pool([network.values(context) for context in shown], index)

        def score(share: float) -> tuple[Tensor, list[Tensor]]:
            shares = [(share * part.detach()).requires_grad_() for part in pooled]
            first, after = shares
            return task.scores(network.of_pooled(first, after, u)), shares

        whole, bare = score(1.0)[0].double(), score(0.0)[0].double()
        nodes = whole.new_zeros(index.topology.num_nodes, whole.size(1))
        slopes = [[torch.zeros_like(part) for part in pooled] for _ in range(whole.size(1))]
        ends = [(step / steps) ** 2 for step in range(steps + 1)]
        for low, high in pairwise(ends):
            with torch.enable_grad():
                values, shares = score((low + high) / 2)
                sums = values.sum(0).unbind()  # graphs are independent
            for one, totals in zip(sums, slopes, strict=True):
                found = torch.autograd.grad(one, shares, retain_graph=True)
                for total, slope in zip(totals, found, strict=True):
                    total += slope * (high - low)
        for column, totals in enumerate(slopes):
            back = torch.autograd.grad(pooled, rows, totals, retain_graph=True)
            for context, slope in zip(layers, back, strict=True):
                parts = (slope.double() * context.rows).sum(1)
                nodes[:, column].index_add_(0, context.layout.owner, parts)
        return torch.cat([nodes, whole, bare])

    return read
