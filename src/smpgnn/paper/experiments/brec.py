"""BREC's protocol for one pair of graphs, reliable paired comparisons (RPC), as coded there.

A network with 16 outputs gets 32 relabelled copies of both graphs, G, H, G, H, …, and is trained to
make the outputs of each pair of copies dissimilar. Hotelling's statistic of the differences then
tells whether they are more than noise, and the same statistic on copies of one of the two graphs
whether the network is reliable. The threshold is 31 F₀.₉₅(16, 16); like the authors' code, the
statistic leaves out the factor 32 of Hotelling's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from smpgnn.capture.graphs import capture, side_stream
from smpgnn.capture.pause import eager_calls
from smpgnn.capture.steps import can_capture
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.topology import Topology
from smpgnn.data.brec import GraphPair
from smpgnn.models.registry import NetworkSpec
from smpgnn.paper.experiments.brec_options import BrecOptions, UntrainedBrecOptions
from smpgnn.paper.theory.scale import rescaled

OUTPUTS = 16
COPIES = 32
THRESHOLD = 72.34
#: Statistics this close count as equal.
CLOSE = 1e-6
#: Training stops below this loss.
ENOUGH = 0.2


@dataclass(frozen=True)
class Comparison:
    """The result for one pair: both statistics, and the epochs of training."""

    pair: int
    statistic: float
    of_copies: float
    epochs: int
    seconds: float

    @property
    def told_apart(self) -> bool:
        """More than noise, and not the noise itself."""
        close = abs(self.statistic - self.of_copies) <= CLOSE + 1e-5 * abs(self.of_copies)
        return self.statistic > THRESHOLD and not close

    @property
    def reliable(self) -> bool:
        """Copies of one graph are not told apart; False also if the statistic is not a number."""
        return self.of_copies < THRESHOLD


def spec_of(options: BrecOptions) -> NetworkSpec:
    """The network of a row, for graphs without features."""
    return NetworkSpec(graph_outputs=OUTPUTS, options=options.network)


def fresh_network(options: BrecOptions) -> nn.Module:
    """The network with fresh weights, of a scale that keeps differences from fading."""
    return rescaled(spec_of(options).build())


def compare(
    pair: GraphPair, number: int, options: BrecOptions, device: torch.device
) -> tuple[float, float, int]:
    """Both statistics of pair `number`, and the epochs of training, from fresh weights."""
    torch.manual_seed(1_000_003 * options.seed + number)
    untrained = isinstance(options, UntrainedBrecOptions)
    network = fresh_network(options).to(device, torch.float64 if untrained else None)
    rng = np.random.default_rng(number)  # all rows and seeds get the same copies
    both = _indices(network, [pair.first, pair.second] * COPIES, rng, options.batch_size, device)
    one = pair.second if rng.integers(2) else pair.first
    same = _indices(network, [one, one] * COPIES, rng, options.batch_size, device)
    epochs = 0 if untrained else _train(network, both, options)
    network.eval()
    with torch.no_grad():
        return _statistic(network, both), _statistic(network, same), epochs


def _train(network: nn.Module, batches: Sequence[ContextIndex], options: BrecOptions) -> int:
    """Train as the protocol says; the number of epochs.

    On a GPU the first epoch is that of the protocol, and shows all kernels; then an epoch with its
    optimiser is captured as one CUDA graph, which the others replay.
    """
    device = batches[0].topology.device
    captures = can_capture(network, device)
    optimizer = torch.optim.Adam(
        network.parameters(),
        # a captured epoch sees changes of the rate in a tensor only
        torch.tensor(options.lr, device=device) if captures else options.lr,
        weight_decay=options.weight_decay,
        capturable=captures,
        fused=captures or None,
    )
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=options.decay, patience=options.decay_epochs
    )
    criterion = nn.CosineEmbeddingLoss(margin=0.0)
    total = torch.zeros((), device=device)

    def train_epoch() -> None:
        total.zero_()
        for index in batches:
            optimizer.zero_grad()
            out = _outputs(network, index)
            loss = criterion(out[::2], out[1::2], -out.new_ones(len(out) // 2))
            loss.backward()
            optimizer.step()
            total.add_(loss.detach() * (len(out) // 2) / COPIES)

    run = train_epoch
    network.train()
    for epoch in range(1, options.epochs + 1):
        with side_stream() if captures and epoch == 1 else nullcontext():
            run()
        mean = float(total)
        if mean < ENOUGH:
            return epoch
        schedule.step(mean)
        if captures and epoch == 1:
            run = _captured(train_epoch, network)
    return options.epochs


def _captured(function: Callable[[], None], network: nn.Module) -> Callable[[], None]:
    """The replay of a function that has run once in a `side_stream`; else the function itself."""
    try:
        return capture([function], network, warm_up=0)[0].replay
    except RuntimeError as error:
        warnings.warn(f"BREC: an epoch cannot be captured and runs eagerly: {error}", stacklevel=2)
        return function


def _statistic(network: nn.Module, batches: Sequence[ContextIndex]) -> float:
    """The statistic of the differences of consecutive outputs."""
    out = torch.cat([_outputs(network, index) for index in batches])
    gap = out[::2] - out[1::2]
    mean = gap.mean(0)
    return float(mean @ torch.linalg.pinv(torch.cov(gap.T)) @ mean)


def _outputs(network: nn.Module, index: ContextIndex) -> Tensor:
    topology = index.topology
    with eager_calls():  # the networks of a pair are called too few times to be replayed
        out: Tensor = network(None, topology.edge_index, None, topology.batch, index=index)
    return out


def _indices(
    network: nn.Module,
    graphs: Sequence[nx.Graph],
    rng: np.random.Generator,
    batch_size: int,
    device: torch.device,
) -> list[ContextIndex]:
    """Relabelled copies of the graphs in batches, with the rows of their contexts."""
    found: list[ContextIndex] = []
    for start in range(0, len(graphs), batch_size):
        topology = _relabelled(graphs[start : start + batch_size], rng, device)
        backbone: Any = network.backbone
        index = backbone.index(topology)
        extend = getattr(network, "extend", None)  # of baselines with inputs of their own
        found.append(index if extend is None else extend(index, 0))
    return found


def _relabelled(
    graphs: Sequence[nx.Graph], rng: np.random.Generator, device: torch.device
) -> Topology:
    """A batch of the graphs with their nodes and edges in random orders."""
    edges: list[NDArray[np.int64]] = []
    start, sizes = 0, [len(graph) for graph in graphs]
    for graph in graphs:
        name = start + rng.permutation(len(graph))
        ends = name[np.array(graph.edges, dtype=np.int64).reshape(-1, 2)]
        edges.append(rng.permutation(np.concatenate([ends, ends[:, ::-1]])))
        start += len(graph)
    batch = torch.arange(len(graphs)).repeat_interleave(torch.tensor(sizes))
    edge_index = torch.from_numpy(np.concatenate(edges).T.copy())
    return Topology.checked(edge_index.to(device), batch.to(device), num_graphs=len(graphs))
