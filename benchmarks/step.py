"""Time one training step of the paper's three networks, beside the naive way, in one run.

    python benchmarks/step.py [--device cuda] [--cases zinc cycles-72] [--output step.json]

Both ways run on the same parameters and batch, and their outputs are compared first. Steps of the
two alternate, so that a busy machine slows both; the median is shown. Memory is the peak of live
tensors during a step, above what is live before it.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from naive import NaiveMultiTask, NaiveSMP
from torch import Tensor, nn
from workloads import Workload, cycles, properties, zinc

from smpgnn.models import SMP

CASES: dict[str, Callable[[], Workload]] = {
    "cycles-72": cycles,
    "zinc": zinc,
    "properties": properties,
    "properties-fast": lambda: properties("fast"),
}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    case: str
    parameters: int
    ours_ms: float
    naive_ms: float
    ours_mib: float
    naive_mib: float
    largest_difference: float

    @property
    def faster(self) -> float:
        return self.naive_ms / self.ours_ms

    @property
    def smaller(self) -> float:
        return self.naive_mib / self.ours_mib


def make_step(model: nn.Module, work: Workload) -> Callable[[], Tensor]:
    """Forward, backward and optimiser; returns the loss."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=False)

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        out = model(work.x, work.edge_index, work.edge_attr, work.batch, batch_size=work.num_graphs)
        parts = [out] if isinstance(out, Tensor) else list(out)
        loss = torch.stack([part.square().mean() for part in parts]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    return step


def peak_mib(step: Callable[[], Tensor], device: str) -> float:
    """The most memory that tensors made by a step hold at one time."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        return float(torch.cuda.max_memory_allocated() - before) / 2**20
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        step()
    events: Any = profile.profiler
    changes = [
        (event.start_ns(), event.nbytes())
        for event in events.kineto_results.events()
        if event.name() == "[memory]"
    ]
    live = peak = 0
    for _, nbytes in sorted(changes, key=lambda change: change[0]):
        live += nbytes
        peak = max(peak, live)
    return peak / 2**20


def time_ms(step: Callable[[], Tensor], device: str) -> float:
    start = time.perf_counter()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1000 * (time.perf_counter() - start)


def difference(ours: nn.Module, naive: nn.Module, work: Workload) -> float:
    """The largest difference of the two outputs in float64, relative to the largest output."""
    x = None if work.x is None else work.x.double()
    edge_attr = None if work.edge_attr is None else work.edge_attr.double()
    arguments = (x, work.edge_index, edge_attr, work.batch)
    ours.double()
    with torch.no_grad():  # in training mode: batch norm with the statistics of this batch
        a = ours(*arguments, batch_size=work.num_graphs)
        b = naive(*arguments, batch_size=work.num_graphs)
    ours.float()
    pairs = [(a, b)] if isinstance(a, Tensor) else zip(a, b, strict=True)
    return max(float((p - q).abs().max() / q.abs().max()) for p, q in pairs)


def measure(case: str, device: str, repeat: int) -> Row:
    torch.manual_seed(0)
    work = CASES[case]().to(device)
    model = work.make().to(device)
    naive = NaiveSMP(model) if isinstance(model, SMP) else NaiveMultiTask(model)
    gap = difference(model, naive, work)
    steps = make_step(model, work), make_step(naive, work)
    for step in steps:
        step()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeat):
        for collected, step in zip(times, steps, strict=True):
            collected.append(time_ms(step, device))
    return Row(
        case,
        sum(p.numel() for p in model.parameters()),
        statistics.median(times[0]),
        statistics.median(times[1]),
        peak_mib(steps[0], device),
        peak_mib(steps[1], device),
        gap,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--repeat", type=int, default=7, help="timed steps of each way")
    parser.add_argument("--threads", type=int, default=2, help="processor threads")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    name = (
        torch.cuda.get_device_name() if options.device == "cuda" else f"{options.threads} threads"
    )
    print(f"One training step on {options.device} ({name}), torch {torch.__version__}\n")
    print(
        f"{'case':<16}{'parameters':>11}{'ours ms':>10}{'naive ms':>10}{'faster':>9}"
        f"{'ours MiB':>10}{'naive MiB':>11}{'smaller':>9}{'difference':>12}"
    )
    rows = []
    for case in options.cases:
        row = measure(case, options.device, options.repeat)
        rows.append(row)
        print(
            f"{row.case:<16}{row.parameters:>11,}{row.ours_ms:>10.1f}{row.naive_ms:>10.1f}"
            f"{row.faster:>8.1f}×{row.ours_mib:>10.0f}{row.naive_mib:>11.0f}{row.smaller:>8.1f}×"
            f"{row.largest_difference:>12.1e}",
            flush=True,
        )
    if options.output:
        record = {
            "device": name,
            "machine": platform.machine(),
            "torch": torch.__version__,
            "rows": [asdict(row) for row in rows],
        }
        options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
