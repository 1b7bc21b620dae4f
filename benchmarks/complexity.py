"""Measure the paper's complexity table: one layer of each method on growing sparse graphs.

    python benchmarks/complexity.py [--device cuda] [--output DIR]

The graphs are random with degree 3. Time is the median over forward passes without gradients, on a
CPU the processor time of one thread; memory is the peak of live tensors in such a pass, above those
before it. Whatever depends on the graph alone is computed beforehand, as all layers of a network
share it. All methods have contexts of the same numbers of rows, so that their graphs have different
sizes. These are so large that neither the time to call operations nor the processor's caches
matter. Exponents are least-squares slopes in log-log coordinates. They are printed beside those of
the paper's formulas, with m = 3n/2 and a fixed width c (PPGN is between 2 and 3 unless n is far
above c). The default layer works in blocks of bounded size, so its memory has a constant part and
its exponent is a little low. With --output, the script writes complexity.json and complexity.png to
that folder.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from sparse_graphs import cubic
from step import peak_mib, time_ms
from torch import Tensor

from smpgnn.baselines.gin import GINLayer
from smpgnn.baselines.pairs import PairIndex
from smpgnn.baselines.ppgn import PPGNLayer
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.topology import Topology
from smpgnn.files import replacing, write_text
from smpgnn.layers import DefaultSMPLayer, FastSMPLayer, SMPLayer
from smpgnn.layers.plain import MPNNLayer

#: Nodes of the graph that shows how many rows a node has.
_SAMPLE = 2_000


@dataclass(frozen=True)
class Method:
    """A row of the paper's table, and the exponents of n in it for sparse graphs."""

    name: str
    layer: Callable[[int, int], SMPLayer]
    identifiers: str  # 'nodes', a scheme, or 'pairs'
    memory: str
    time: str
    memory_exponent: int
    time_exponent: int

    def nodes(self, rows: int, num_layers: int) -> int:
        """The even number of nodes of a graph with about so many rows."""
        if self.memory_exponent == 2:
            return 2 * round(math.sqrt(rows) / 2)
        if self.identifiers == "nodes":
            return 2 * round(rows / 2)
        edge_index, _ = cubic(_SAMPLE, torch.Generator().manual_seed(0))
        sample = self.index(Topology.checked(edge_index, num_nodes=_SAMPLE), num_layers)
        return 2 * round(rows / sample.num_rows * _SAMPLE / 2)

    def index(self, topology: Topology, num_layers: int) -> ContextIndex:
        if self.identifiers == "nodes":
            return ContextIndex.of_nodes(topology)
        if self.identifiers == "pairs":
            return PairIndex.of(ContextIndex.build(topology, "onehot", num_layers))
        return ContextIndex.build(topology, self.identifiers, num_layers)


# χ is the number of colours; b, the rows of a neighbourhood, is not in the paper.
METHODS = (
    Method("GIN", GINLayer, "nodes", "n c", "m c + n c²", 1, 1),
    Method("MPNN", MPNNLayer, "nodes", "n c", "m c²", 1, 1),
    Method("Fast SMP, coloring", FastSMPLayer, "coloring", "n χ c", "m χ c + n χ c²", 1, 1),
    Method("Fast SMP", FastSMPLayer, "onehot", "n² c", "m n c + n² c²", 2, 2),
    Method("SMP, neighborhood", DefaultSMPLayer, "neighborhood", "n b c", "m b c²", 1, 1),
    Method("SMP", DefaultSMPLayer, "onehot", "n² c", "m n c²", 2, 2),
    Method("PPGN", PPGNLayer, "pairs", "n² c", "n³ c + n² c²", 2, 3),
)


@dataclass(frozen=True)
class Point:
    """One layer on one graph."""

    nodes: int
    rows_a_node: float
    ms: float
    mib: float


@dataclass(frozen=True)
class Result:
    """A row of the table, with its measurements."""

    method: str
    memory: str
    time: str
    memory_exponent: int
    time_exponent: int
    measured_memory_exponent: float
    measured_time_exponent: float
    points: tuple[Point, ...]


def exponent(points: Sequence[Point], value: Callable[[Point], float]) -> float:
    """The least-squares slope of log value over log n."""
    if len(points) < 2:
        return math.nan
    slope, _ = statistics.linear_regression(
        [math.log(point.nodes) for point in points], [math.log(value(point)) for point in points]
    )
    return slope


def elapsed_ms(step: Callable[[], Tensor], device: str) -> float:
    """On a GPU the time of a pass; on a CPU the processor time, in which others do not count."""
    if device != "cpu":
        return time_ms(step, device)
    start = time.process_time()
    step()
    return (time.process_time() - start) * 1e3


@dataclass(frozen=True)
class Trial:
    """One layer of a method, ready to run on one graph."""

    nodes: int
    num_rows: int
    step: Callable[[], Tensor]


def prepare(method: Method, nodes: int, width: int, num_layers: int, device: str) -> Trial:
    """A layer and random contexts on a graph of this size."""
    torch.manual_seed(0)
    edge_index, _ = cubic(nodes, torch.Generator().manual_seed(nodes))
    topology = Topology.checked(edge_index, num_nodes=nodes).to(device)
    index = method.index(topology, num_layers)
    layer = method.layer(width, width).to(device)
    context = LocalContext(torch.randn(index.num_rows, width, device=device), index.layout)

    def step() -> Tensor:
        with torch.no_grad():
            result: LocalContext = layer(context, index)
        return result.rows

    return Trial(nodes, index.num_rows, step)


def run(method: Method, sizes: Sequence[int], options: argparse.Namespace) -> Result:
    """Measure all sizes of a method; passes alternate, so a busy machine slows all sizes alike."""
    device: str = options.device
    trials = [prepare(method, n, options.width, options.layers, device) for n in sizes]
    times: list[list[float]] = [[] for _ in trials]
    for number in range(1 + options.repeat):
        for collected, trial in zip(times, trials, strict=True):
            elapsed = elapsed_ms(trial.step, device)
            if number:  # the first pass allocates
                collected.append(elapsed)
    points = tuple(
        Point(
            trial.nodes,
            trial.num_rows / trial.nodes,
            statistics.median(collected),
            peak_mib(trial.step, device),
        )
        for trial, collected in zip(trials, times, strict=True)
    )
    return Result(
        method.name,
        method.memory,
        method.time,
        method.memory_exponent,
        method.time_exponent,
        exponent(points, lambda point: point.mib),
        exponent(points, lambda point: point.ms),
        points,
    )


def table(results: Sequence[Result]) -> str:
    """One line per method: the paper's formulas and exponents, and the measured ones."""
    lines = [
        f"{'':<20}{'memory':<8}{'exponent of n':>15}   {'time':<16}{'exponent of n':>15}"
        f"{'largest n':>12}{'rows a node':>13}{'ms':>9}{'MiB':>9}",
        f"{'':<28}{'paper  measured':>15}   {'':<16}{'paper  measured':>15}",
    ]
    for result in results:
        last = result.points[-1]
        lines.append(
            f"{result.method:<20}{result.memory:<8}"
            f"{result.memory_exponent:>5}{result.measured_memory_exponent:>10.2f}   "
            f"{result.time:<16}{result.time_exponent:>5}{result.measured_time_exponent:>10.2f}"
            f"{last.nodes:>12,}{last.rows_a_node:>13,.0f}{last.ms:>9.1f}{last.mib:>9.1f}"
        )
    return "\n".join(lines)


def draw(results: Sequence[Result], path: Path, title: str) -> None:
    """Plot time and memory over n, with the measured exponents in the legend."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2)
    for panel, label in zip(
        panels, ("time of a forward pass (ms)", "peak memory (MiB)"), strict=True
    ):
        panel.set(xscale="log", yscale="log", xlabel="nodes n", ylabel=label)
        panel.grid(True, which="major", alpha=0.3)
    for result, marker in zip(results, "osD^v<>", strict=False):
        nodes = [point.nodes for point in result.points]
        for panel, values, slope in (
            (panels[0], [p.ms for p in result.points], result.measured_time_exponent),
            (panels[1], [p.mib for p in result.points], result.measured_memory_exponent),
        ):
            label = f"{result.method}: $n^{{{slope:.2f}}}$"
            panel.plot(nodes, values, marker=marker, markersize=4, linewidth=1.2, label=label)
    for panel in panels:
        panel.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)
    figure.suptitle(title, fontsize=10)
    with replacing(path) as beside:
        figure.savefig(beside, dpi=150, format="png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--rows",
        type=int,
        nargs="+",
        default=[2**18, 400_000, 2**19, 800_000, 2**20, 1_600_000],
        help="rows of the contexts; a layer of 32 channels has 32 MiB for the smallest default",
    )
    parser.add_argument("--width", type=int, default=32, help="channels c")
    parser.add_argument(
        "--layers",
        type=int,
        default=2,
        help="layers of the network (χ and b grow with it)",
    )
    parser.add_argument("--repeat", type=int, default=5, help="timed passes of each method")
    parser.add_argument("--output", type=Path, help="folder for complexity.json and complexity.png")
    options = parser.parse_args()
    if min(options.rows) < 64:
        parser.error("--rows must be at least 64")
    torch.set_num_threads(1)
    name = torch.cuda.get_device_name() if options.device == "cuda" else "1 thread"
    title = (
        f"One layer, c = {options.width}, random graphs of degree 3, {options.device} ({name}), "
        f"torch {torch.__version__}"
    )
    print(title + "\n")
    results = []
    for method in METHODS:
        sizes = {method.nodes(rows, options.layers) for rows in options.rows}
        results.append(run(method, sorted(sizes), options))
    print(table(results))
    if options.output:
        options.output.mkdir(parents=True, exist_ok=True)
        record = {
            "device": name,
            "machine": platform.machine(),
            "torch": torch.__version__,
            "width": options.width,
            "layers": options.layers,
            "results": [asdict(result) for result in results],
        }
        write_text(options.output / "complexity.json", json.dumps(record, indent=1) + "\n")
        draw(results, options.output / "complexity.png", title)


if __name__ == "__main__":
    main()
