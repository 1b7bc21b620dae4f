"""What every baseline is put through, whatever its convolution."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import oracle
import pytest
import torch
from oracle import DenseGraph
from strategies import ODD, Structure, cycle, make_case, path, randomize
from torch import Tensor, nn

from smpgnn import SMP
from smpgnn.data.cycles import cycle_graphs
from smpgnn.testing import Graph

plain_initial = oracle.initial  # where `convolution` has put another in its place, too

OPTIONS: list[dict[str, Any]] = [
    {"norm": "batch", "residual": True},
    {"level": "node", "norm": "layer"},
    {"shared_extractor": True, "extractor_channels": 5, "in_channels": 0},
]


def make(network: type[SMP], options: dict[str, Any] | None = None, seed: int = 0) -> SMP:
    """A small network with random weights, in float64."""
    arguments = {"in_channels": 2, "hidden_channels": 4, "num_layers": 3, "out_channels": 2}
    return randomize(network(**{**arguments, **(options or {})}), seed)


def width(options: dict[str, Any]) -> int:
    return int(options.get("in_channels", 2))


@contextmanager
def convolution(
    layer: Callable[[Any, Tensor, DenseGraph], Tensor],
    initial: Callable[[DenseGraph, torch.dtype], Tensor] = oracle.initial,
) -> Iterator[None]:
    """The oracle of `SMP` with another layer, and another input if given."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "smp_layer", layer)
        patch.setattr(oracle, "initial", initial)
        yield


def pair_input(
    graph: DenseGraph,
    dtype: torch.dtype = torch.float64,
    features: str = "own",
) -> Tensor:
    """T⁽⁰⁾ of the baselines of order two, [δ_ij, δ_ij x_i, A_ij], shape [n, n, 2 + F]."""
    return torch.cat([plain_initial(graph), graph.adjacency().unsqueeze(2)], dim=2).to(dtype)


def sequential(module: nn.Sequential, value: Tensor) -> Tensor:
    """Linear, relu, linear, with the matrices written out."""
    return oracle.perceptron(module[0], module[2], value)


def different_graphs(in_channels: int = 2) -> list[Graph]:
    """Graphs of different sizes, some odd."""
    structures = [*(s for s in ODD.values() if s[0]), cycle(6), path(7)]
    cases = [make_case([s], in_channels, 0, k) for k, s in enumerate(structures)]
    return [Graph(c.x, c.edge_index, num_nodes=c.num_nodes) for c in cases]


def assert_finite(model: SMP) -> None:
    """Outputs and gradients on empty, one-node, edgeless and other odd graphs, alone and mixed."""
    sets: list[list[Structure]] = [[structure] for structure in ODD.values()]
    sets += [[ODD["empty"], path(3)], [path(3), ODD["empty"], ODD["single"]], list(ODD.values())]
    for training in (True, False):
        model.train(training)
        for structures in sets:
            case = make_case(structures, model.backbone.in_channels)
            model.zero_grad()
            out = case.call(model)
            rows = case.num_nodes if model.level == "node" else case.num_graphs
            assert out.shape == (rows, 2)
            out.sum().backward()
            for value in [out, *(p.grad for p in [*model.parameters(), *case.leaves()])]:
                assert value is None or value.isfinite().all()


def overfit(network: type[SMP], steps: int = 100, **options: Any) -> float:
    """The share of 8 small graphs, half with a 4-cycle, that are told right after training."""
    torch.manual_seed(0)
    batch = cycle_graphs(4, 12, 8, seed=1).batch()
    target = batch.y.flatten()
    model = network(0, 2, 16, 4, norm="batch", **options)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    rate = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)

    def call() -> Tensor:
        return model(None, batch.edge_index, batch=batch.batch, batch_size=batch.num_graphs)

    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(call(), target)
        loss.backward()
        optimizer.step()
        rate.step()
    with torch.no_grad():
        for _ in range(50):  # the running statistics catch up with the last weights
            call()
        model.eval()
        return (call().argmax(1) == target).double().mean().item()
