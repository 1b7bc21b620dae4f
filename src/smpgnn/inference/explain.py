"""What each node adds to the prediction for its graph.

A network of the frame reads its result off the contexts of all nodes. Take a share α of all
contexts, before and after every layer: from α = 0, where the result is the same for every graph, to
α = 1 the context of each node adds the integral of its rows times the gradient (the integrated
gradients of Sundararajan, Taly and Yan, 2017). The layers run once, as in a prediction; only the
perceptrons behind the readout run at every point of the integral. So a node adds what it knows of
its surroundings, as far as the layers reach, and not its own features alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

#: Rows of contexts worked on at a time: those after all layers are kept.
BATCH_ROWS = 40_000


@dataclass(frozen=True, eq=False)
class Contributions:
    """What each node of a store adds to each score of its graph, in float64.

    Of every graph: score = rest + sum over its nodes. The rest is the score of contexts that are
    all zero, which is the same for all graphs, and what the integral misses: `missed`.
    Shapes: score, rest, missed [G, T]; nodes [N, T]. `errors` says of some graphs why there is
    nothing: their values are NaN.
    """

    score: Tensor
    rest: Tensor
    missed: Tensor
    nodes: Tensor
    errors: Mapping[int, str] = field(default_factory=dict)


def explain_store(
    network: nn.Module,
    task: Task,
    store: GraphStore,
    *,
    spec: NetworkSpec | None = None,
    steps: int = EXPLAIN_STEPS,
    progress: Callable[[int], None] = lambda graphs: None,
) -> Contributions:
    """The contributions of all nodes of some graphs, from integrals of `steps` points.

    With the `spec` of the network, graphs that are too large for the memory are not tried.
    `progress` is told how many graphs are done.
    """
    task = explained(task)
    if steps < 1:
        raise InputError(f"steps must be 1 or more, not {steps}.")
    assert isinstance(network, SMP)
    device = next(network.parameters()).device
    reader = _reader(network, task, steps)

    def work(batch: GraphBatch) -> tuple[Tensor, ...]:
        sizes = [batch.num_nodes, batch.num_graphs, batch.num_graphs]
        with torch.no_grad():
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


def explained(task: Task) -> OneLevelTask:
    """The task, if its scores belong to graphs."""
    if not isinstance(task, OneLevelTask) or task.level != "graph":
        raise InputError("node predictions cannot be explained: use a model with graph targets.")
    return task


def _reader(network: SMP, task: OneLevelTask, steps: int) -> Reader:
    """Makes the contributions of nodes, the scores, and the scores of zeros: [N + 2 B, T].

    A share of all contexts is pooled to the same share of what the whole ones are pooled to, so
    the slopes are found from there, and taken back to the rows once. The slope
    jumps where a unit leaves zero, and most do at small shares: so the points lie closer there.
    """

    def read(layers: list[LocalContext], index: ContextIndex) -> Tensor:
        with torch.enable_grad():
            rows = [context.rows.detach().requires_grad_() for context in layers]
            shown = [c.with_rows(r) for c, r in zip(layers, rows, strict=True)]
            pooled = network.pool([network.values(context) for context in shown], index)

        def score(share: float) -> tuple[Tensor, list[Tensor]]:
            shares = [(share * part.detach()).requires_grad_() for part in pooled]
            return task.scores(network.of_pooled(*shares)), shares

        whole, bare = score(1.0)[0].double(), score(0.0)[0].double()
        nodes = whole.new_zeros(index.topology.num_nodes, whole.size(1))
        slopes = [[torch.zeros_like(part) for part in pooled] for _ in range(whole.size(1))]
        ends = [(step / steps) ** 2 for step in range(steps + 1)]
        for low, high in pairwise(ends):
            with torch.enable_grad():
                values, shares = score((low + high) / 2)
                sums = values.sum(0).unbind()  # graphs have nothing to do with each other
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
