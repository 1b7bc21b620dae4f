"""Time a training loop around the plain call, `model(x, edge_index, edge_attr, batch)`.

    python benchmarks/plain.py [--device cuda] [--output plain.json] [--profile zinc-paper]

Each step takes another batch of molecules (128, sizes as in ZINC), already on the device, and does
forward, backward and Adam; the loops of all networks alternate. `index` is the share of the step
that builds the `ContextIndex`; `prepared` is the step with an index built beforehand. GINE and GPS
are those of PyTorch Geometric with as many layers and channels as the network of Table 3. The other
rows are that network with what is not replayed (wide layers, coloring, checkpointing).
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINEConv, GPSConv, global_mean_pool
from workloads import Workload, zinc

from smpgnn.config.options import ZincOptions
from smpgnn.config.settings import with_values
from smpgnn.contexts.topology import Topology
from smpgnn.files import write_text
from smpgnn.models import SMP

BATCHES = 10


@dataclass(frozen=True)
class Row:
    """Milliseconds per step of one network; `index_ms` and `prepared_ms` only of ours."""

    network: str
    parameters: int
    step_ms: float
    forward_ms: float
    index_ms: float | None = None
    prepared_ms: float | None = None


class Peer(nn.Module):
    """A network of PyTorch Geometric: GINE or GPS convolutions with batch norm and residuals."""

    def __init__(self, kind: str, channels: int, layers: int) -> None:
        super().__init__()
        self.node, self.edge = nn.Linear(28, channels), nn.Linear(3, channels)
        self.convs, self.norms = nn.ModuleList(), nn.ModuleList()
        for _ in range(layers):
            mlp = nn.Sequential(
                nn.Linear(channels, channels), nn.ReLU(), nn.Linear(channels, channels)
            )
            conv: nn.Module = GINEConv(mlp)
            self.convs.append(conv if kind == "gine" else GPSConv(channels, conv, heads=4))
            self.norms.append(nn.BatchNorm1d(channels))
        self.kind, self.out = kind, nn.Linear(channels, 1)

    def forward(self, x: Tensor, edge_index: Tensor, edge_attr: Tensor, batch: Tensor) -> Tensor:
        x, edges = self.node(x), self.edge(edge_attr)
        for conv, norm in zip(self.convs, self.norms, strict=True):
            if self.kind == "gine":
                x = x + norm(conv(x, edge_index, edges)).relu()
            else:
                x = conv(x, edge_index, batch, edge_attr=edges)
        pooled: Tensor = global_mean_pool(x, batch)
        out: Tensor = self.out(pooled)
        return out


def default_network() -> SMP:
    """The network of `smpgnn train zinc`."""
    return SMP(28, 1, edge_channels=3, options=ZincOptions().network)


def paper_network(**changes: Any) -> SMP:
    """The network of Table 3, with changes."""
    options = with_values(zinc(1).make().options, changes, "changes")
    return SMP(28, 1, edge_channels=3, options=options)


def networks() -> dict[str, Callable[[], nn.Module]]:
    return {
        "zinc-paper": zinc(2).make,
        "zinc-default": default_network,
        "gine": lambda: Peer("gine", 32, 12),
        "gps": lambda: Peer("gps", 32, 12),
        "width-96": lambda: paper_network(hidden_channels=96),
        "width-192": lambda: paper_network(hidden_channels=192),
        "coloring": lambda: paper_network(identifiers="coloring"),
        "neighborhood": lambda: paper_network(identifiers="neighborhood"),
        "checkpoint": lambda: paper_network(checkpoint=True),
    }


class Loop:
    """The training loop of one network over batches of other graphs each step."""

    def __init__(self, name: str, works: Sequence[Workload], device: str) -> None:
        torch.manual_seed(0)
        self.name, self.works, self.device = name, works, device
        self.model = networks()[name]().to(device)
        fused = True if device == "cuda" else None
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, fused=fused)
        self.step_number = 0
        self.indices: list[Any] = []

    def prepare(self) -> None:
        self.indices = [self.index(work) for work in self.works]

    def index(self, work: Workload) -> Any:
        model: Any = self.model
        topology = Topology.checked(work.edge_index, work.batch, num_nodes=work.batch.numel())
        return model.backbone.index(topology)

    def forward(self, prepared: bool = False) -> Tensor:
        number = self.step_number % len(self.works)
        work, self.step_number = self.works[number], self.step_number + 1
        more = {"index": self.indices[number]} if prepared else {}
        out: Tensor = self.model(work.x, work.edge_index, work.edge_attr, work.batch, **more)
        return out

    def step(self, prepared: bool = False) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(prepared).square().mean()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def build(self) -> None:
        self.index(self.works[self.step_number % len(self.works)])
        self.step_number += 1

    def evaluate(self) -> None:
        with torch.no_grad():
            self.forward()

    def ms(self, call: Callable[[], None], steps: int) -> float:
        """Mean time of so many consecutive calls."""
        self.wait()
        start = time.perf_counter()
        for _ in range(steps):
            call()
        self.wait()
        return 1000 * (time.perf_counter() - start) / steps

    def wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def measure(names: Sequence[str], device: str, graphs: int, rounds: int) -> list[Row]:
    works = [zinc(graphs, seed=seed).to(device) for seed in range(BATCHES)]
    loops = [Loop(name, works, device) for name in names]
    kinds: dict[str, Callable[[Loop], Callable[[], None]]] = {
        "step": lambda loop: loop.step,
        "forward": lambda loop: loop.evaluate,
        "index": lambda loop: loop.build,
        "prepared": lambda loop: lambda: loop.step(prepared=True),
    }
    times: dict[tuple[str, str], list[float]] = {}
    for loop in loops:
        for _ in range(3):
            loop.step()
        if isinstance(loop.model, SMP):
            loop.prepare()
    for _ in range(rounds):
        for loop in loops:
            ours = isinstance(loop.model, SMP)
            for kind, call in kinds.items():
                if ours or kind in ("step", "forward"):
                    found = loop.ms(call(loop), BATCHES if device == "cuda" else 2)
                    times.setdefault((loop.name, kind), []).append(found)
    middle = {key: statistics.median(values) for key, values in times.items()}
    return [
        Row(
            loop.name,
            sum(p.numel() for p in loop.model.parameters()),
            middle[loop.name, "step"],
            middle[loop.name, "forward"],
            middle.get((loop.name, "index")),
            middle.get((loop.name, "prepared")),
        )
        for loop in loops
    ]


def show_profile(name: str, device: str, graphs: int) -> None:
    """Where the time of a step goes: Python functions, then launches."""
    import cProfile
    import pstats

    works = [zinc(graphs, seed=seed).to(device) for seed in range(BATCHES)]
    loop = Loop(name, works, device)
    for _ in range(5):
        loop.step()
    loop.wait()
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(BATCHES):
        loop.step()
    loop.wait()
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(45)
    activities = [torch.profiler.ProfilerActivity.CPU]
    if device == "cuda":
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=activities) as found:
        for _ in range(3):
            loop.step()
        loop.wait()
    table = found.key_averages().table(
        sort_by="self_cpu_time_total", row_limit=60, max_name_column_width=60
    )
    print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--networks", nargs="+", choices=list(networks()), default=list(networks()))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--graphs", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--profile", choices=list(networks()), help="profile one network instead")
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    if options.profile:
        show_profile(options.profile, options.device, options.graphs)
        return
    rows = measure(options.networks, options.device, options.graphs, options.rounds)
    name = torch.cuda.get_device_name() if options.device == "cuda" else platform.processor()
    print(f"{name or 'CPU'}, torch {torch.__version__}, {options.graphs} molecules per batch\n")
    heads = (("parameters", 11), ("step ms", 9), ("forward", 9), ("index", 8), ("prepared", 10))
    print(f"{'network':<14}" + "".join(f"{head:>{width}}" for head, width in heads))
    for row in rows:
        more = "".join(
            f"{'' if value is None else f'{value:.2f}':>{width}}"
            for value, width in ((row.index_ms, 8), (row.prepared_ms, 10))
        )
        print(
            f"{row.network:<14}{row.parameters:>11,}{row.step_ms:>9.2f}{row.forward_ms:>9.2f}{more}"
        )
    if options.output:
        record = {
            "device": name,
            "torch": torch.__version__,
            "graphs": options.graphs,
            "rows": [asdict(row) for row in rows],
        }
        write_text(options.output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
