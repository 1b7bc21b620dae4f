"""SMP on single large sparse graphs: how time and memory grow with n, and a real training.

    python benchmarks/scale.py [--device cuda] [--sizes 1000 10000 100000] [--output scale.json]

Networks have level='node' and identifiers='neighborhood'. A step is forward, backward and optimiser
on the whole graph, its index made beforehand. `index` is the time to make it, with all that the
first step would make and keep. Memory is the peak of live tensors in a step that makes its index
anew, above what is live before it. A batch is such a step for some random target nodes, their
receptive field included. `dense` is what the contexts of one layer alone would need as n × n
matrices. Times are the shortest of a few, which a busy machine disturbs least; exponents are slopes
of least squares in logarithms over all sizes.

The training predicts the number of triangles through each node of a triangulated mesh from which a
fifth of the edges is missing, by mini-batches of target nodes and, for comparison, on the whole
graph; what it reports is measured on nodes that were not trained on.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from sparse_graphs import GRAPHS, mesh, triangles
from step import peak_mib, time_ms
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from smpgnn import SMP, ContextIndex, Topology, __version__
from smpgnn.contexts.growing import GrowingIndex
from smpgnn.contexts.target_nodes import TargetLoader
from smpgnn.files import write_text
from smpgnn.ops.backend import fused

NUM_LAYERS = 3


@dataclass(frozen=True)
class Point:
    """One network on one graph; seconds, MiB, and rows of each layer."""

    graph: str
    layer: str
    nodes: int
    edges: int
    rows: tuple[int, ...]
    step_s: float
    index_s: float
    peak_mib: float
    batch_s: float
    batch_mib: float
    dense_mib: float


@dataclass(frozen=True)
class Growth:
    """Exponents of n for one network on one kind of graph."""

    graph: str
    layer: str
    step: float
    index: float
    memory: float


@dataclass(frozen=True)
class Training:
    """A training run: the loss along the way and errors on nodes that were held out."""

    way: str
    nodes: int
    updates: int
    seconds: float
    losses: tuple[float, ...]
    error_before: float
    error_after: float
    exact_after: float


def make_model(layer: str, width: int, device: str) -> SMP:
    torch.manual_seed(0)
    model = SMP(
        0,
        1,
        width,
        NUM_LAYERS,
        layer,
        "neighborhood",
        level="node",
        extractor_channels=width,
        norm="batch",
        residual=True,
    )
    return model.to(device)


def make_graph(name: str, nodes: int, device: str) -> Data:
    generator = torch.Generator().manual_seed(nodes)
    edge_index, count = GRAPHS[name](nodes, generator)
    y = torch.randn(count, 1, generator=generator)
    return Data(edge_index=edge_index, num_nodes=count, y=y).to(device)


def measure(name: str, layer: str, nodes: int, options: argparse.Namespace) -> Point:
    device: str = options.device
    data = make_graph(name, nodes, device)
    model = make_model(layer, options.width, device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def update(edge_index: Tensor, index: ContextIndex, y: Tensor) -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(None, edge_index, index=index), y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    def make_index() -> GrowingIndex:
        index = model.backbone.index(Topology.checked(data.edge_index, num_nodes=data.num_nodes))
        assert isinstance(index, GrowingIndex)
        return index

    def whole(index: GrowingIndex) -> Tensor:
        return update(data.edge_index, index, data.y)

    index = make_index()
    rows = tuple(part.num_rows for part in index.layers)
    whole(index)  # kernels are made, memory is found
    step_s = _seconds(partial(whole, index), options)
    del index
    _tidy(device)
    index_s = _seconds(lambda: prepare(make_index(), device), options)
    whole_mib = peak_mib(lambda: whole(make_index()), device)
    _tidy(device)

    loader = TargetLoader(data, NUM_LAYERS)
    order = torch.randperm(data.num_nodes, generator=torch.Generator().manual_seed(0))
    targets = order[: options.targets].to(device)

    def part() -> Tensor:
        batch = loader.batch(targets)
        assert batch.y is not None
        return update(batch.edge_index, batch.index, batch.y)

    part()
    return Point(
        graph=name,
        layer=layer,
        nodes=data.num_nodes,
        edges=data.num_edges,
        rows=rows,
        step_s=step_s,
        index_s=index_s,
        peak_mib=whole_mib,
        batch_s=_seconds(part, options),
        batch_mib=peak_mib(part, device),
        dense_mib=data.num_nodes**2 * options.width * 4 / 2**20,
    )


def prepare(index: GrowingIndex, device: str) -> Tensor:
    """Make all that the first step with this index would make and keep."""
    kernels = fused(torch.empty(0, device=device))
    for layer in index.layers:
        if kernels:
            layer.routes.tensors()
        else:
            for made in (layer.lift.receive, layer.lift.send, layer.layout.weighted):
                assert made is not None
            assert layer.layout.plain is not None
        assert layer.layout.count is not None
    for widening in index.widenings:
        assert widening is None or widening.matrices is not None
    return index.layers[-1].layout.count


def _seconds(step: Callable[[], Tensor], options: argparse.Namespace) -> float:
    return min(time_ms(step, options.device) for _ in range(options.repeat)) / 1000


def _tidy(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def growth(points: Sequence[Point]) -> list[Growth]:
    """Exponents of each network on each kind of graph that was measured at several sizes."""
    found = []
    for graph, layer in dict.fromkeys((point.graph, point.layer) for point in points):
        chosen = [p for p in points if (p.graph, p.layer) == (graph, layer)]
        if len({point.nodes for point in chosen}) < 2:
            continue
        size = [math.log(point.nodes) for point in chosen]
        slopes = [
            statistics.linear_regression(size, [math.log(max(v, 1e-9)) for v in values]).slope
            for values in (
                [p.step_s for p in chosen],
                [p.index_s for p in chosen],
                [p.peak_mib for p in chosen],
            )
        ]
        found.append(Growth(graph, layer, *slopes))
    return found


def train(way: str, options: argparse.Namespace) -> Training:
    """Learn the number of triangles through each node, by 'batches' or on the 'whole' graph."""
    device: str = options.device
    generator = torch.Generator().manual_seed(0)
    edge_index, count = mesh(options.train_nodes, generator, missing=0.2)
    y = triangles(edge_index, count).float().unsqueeze(1)
    y = y.to(device)
    data = Data(edge_index=edge_index, num_nodes=count, y=y).to(device)
    order = torch.randperm(count, generator=generator).to(device)
    trained, held_out = order[: count * 4 // 5], order[count * 4 // 5 :]
    model = make_model("fast", 32, device)
    index = model.backbone.index(Topology.checked(data.edge_index, num_nodes=count))
    loader = TargetLoader(
        data, NUM_LAYERS, trained, batch_size=100, shuffle=True, generator=generator
    )
    updates = options.epochs * len(loader) if way == "batches" else options.whole_steps
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 5e-3, total_steps=max(updates, 1), pct_start=0.1
    )

    def errors() -> Tensor:
        model.eval()
        with torch.no_grad():
            out: Tensor = model(None, data.edge_index, index=index)
        model.train()
        return (out[held_out] - y[held_out]).abs().flatten()

    def update(out: Tensor, wanted: Tensor) -> Tensor:
        loss = F.mse_loss(out, wanted)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        schedule.step()
        return loss.detach()

    before = float(errors().mean())
    losses: list[Tensor] = []
    start = time.perf_counter()
    if way == "batches":
        for _ in range(options.epochs):
            for batch in loader:
                assert batch.y is not None
                losses.append(update(model(None, batch.edge_index, index=batch.index), batch.y))
    else:
        for _ in range(updates):
            out = model(None, data.edge_index, index=index)
            losses.append(update(out[trained], y[trained]))
    after = errors()
    seconds = time.perf_counter() - start
    kept = torch.stack(losses).cpu()
    means = [float(piece.mean()) for piece in kept.tensor_split(min(6, kept.numel()))]
    exact = float((after < 0.5).double().mean())
    return Training(way, count, updates, seconds, tuple(means), before, float(after.mean()), exact)


def main() -> None:
    options = _options()
    torch.set_num_threads(options.threads)
    cuda = options.device == "cuda"
    name = torch.cuda.get_device_name() if cuda else f"{options.threads} thread(s)"
    print(
        f"Node-level SMP, {NUM_LAYERS} layers, width {options.width}, {options.device} ({name}), "
        f"torch {torch.__version__}\n\n"
        f"{'graph':<7}{'layer':<9}{'nodes':>10}{'rows':>12}{'step s':>9}{'index s':>9}{'MiB':>9}"
        f"{'dense MiB':>12}{f'batch of {options.targets} s':>18}{'MiB':>7}"
    )
    points: list[Point] = []
    failed: list[str] = []
    for graph in options.graphs:
        for layer in options.layers:
            for nodes in sorted(set(options.sizes)):
                try:
                    point = measure(graph, layer, nodes, options)
                except torch.OutOfMemoryError:
                    failed.append(f"{graph} {layer} {nodes}")
                    print(f"{graph:<7}{layer:<9}{nodes:>10,} out of memory", flush=True)
                    point = None
                _tidy(options.device)
                if point is None:
                    continue
                points.append(point)
                print(
                    f"{graph:<7}{layer:<9}{point.nodes:>10,}{point.rows[-1]:>12,}"
                    f"{point.step_s:>9.3f}{point.index_s:>9.3f}{point.peak_mib:>9.0f}"
                    f"{point.dense_mib:>12,.0f}{point.batch_s:>18.3f}{point.batch_mib:>7.0f}",
                    flush=True,
                )
    exponents = growth(points)
    if exponents:
        print("\nexponents of n      step   index  memory")
        for line in exponents:
            print(
                f"{line.graph:<7}{line.layer:<9}{line.step:>8.2f}{line.index:>8.2f}"
                f"{line.memory:>8.2f}"
            )
    runs: list[Training] = []
    for way in () if options.no_train else ("batches", "whole"):
        runs.append(run := train(way, options))
        losses = ", ".join(f"{value:.3f}" for value in run.losses)
        print(
            f"\nTraining ({way}, {run.nodes:,} nodes, {run.updates} updates, "
            f"{run.seconds:.0f} s): loss {losses}\n"
            f"  held-out nodes: mean error {run.error_before:.2f} before, {run.error_after:.3f} "
            f"after; {100 * run.exact_after:.1f} % exact after rounding",
            flush=True,
        )
    if options.output:
        record = {
            "device": name,
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "threads": options.threads,
            "python": platform.python_version(),
            "torch": torch.__version__,
            "smpgnn": __version__,
            "width": options.width,
            "num_layers": NUM_LAYERS,
            "targets": options.targets,
            "points": [asdict(point) for point in points],
            "out_of_memory": failed,
            "exponents": [asdict(line) for line in exponents],
            "training": [asdict(run) for run in runs],
        }
        write_text(options.output, json.dumps(record, indent=1) + "\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=[1000, 3000, 10000], help="nodes of the graphs"
    )
    parser.add_argument("--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS))
    parser.add_argument(
        "--layers", nargs="+", choices=("fast", "default"), default=["fast", "default"]
    )
    parser.add_argument("--width", type=int, default=32, help="channels of the contexts")
    parser.add_argument("--targets", type=int, default=500, help="target nodes of a batch")
    parser.add_argument("--repeat", type=int, default=3, help="timed steps of each kind")
    parser.add_argument("--threads", type=int, default=1, help="processor threads")
    parser.add_argument("--train-nodes", type=int, default=10000, help="of the training")
    parser.add_argument("--epochs", type=int, default=9, help="of the training by batches")
    parser.add_argument(
        "--whole-steps", type=int, default=25, help="updates of the training on the whole graph"
    )
    parser.add_argument("--no-train", action="store_true", help="measure only")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    if min(options.sizes) < 16:
        parser.error("--sizes must be at least 16")
    return options


if __name__ == "__main__":
    main()
