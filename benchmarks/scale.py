"""Time and memory of SMP on single large sparse graphs, by the number of nodes.

    python benchmarks/scale.py [--device cuda] [--sizes 1000 10000 100000] [--output scale.json]

Networks have level='node' and identifiers='neighborhood'. For each graph the script measures:

- step: forward, backward and optimiser on the whole graph, with its index computed beforehand.
- index: computing this index, with everything that the first step would cache.
- peak: live tensors during a step that computes its index, above those before the step.
- batch: a step on some random target nodes, including their receptive field.
- dense: the size of the contexts of a single layer as n × n matrices.

Times are the minimum over a few repetitions. Exponents are least-squares slopes in log-log
coordinates over all sizes.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch
from sparse_graphs import GRAPHS
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
    """One network on one graph: seconds, MiB, and the rows of each layer."""

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
    whole(index)  # compiles kernels and allocates memory
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
    """Compute everything that the first step with this index would cache."""
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
        assert widening is None or widening.by_row is not None
    return index.layers[-1].layout.count


def _seconds(step: Callable[[], Tensor], options: argparse.Namespace) -> float:
    return min(time_ms(step, options.device) for _ in range(options.repeat)) / 1000


def _tidy(device: str) -> None:
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()


def growth(points: Sequence[Point]) -> list[Growth]:
    """Exponents of each network on each kind of graph with several sizes."""
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
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    options = parser.parse_args()
    if min(options.sizes) < 16:
        parser.error("--sizes must be at least 16")
    return options


if __name__ == "__main__":
    main()
