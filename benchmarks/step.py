"""Time one training step of the paper's three networks beside a naive version, PPGN and GIN.

    python benchmarks/step.py [--device cuda] [--cases zinc cycles-72] [--output step.json]

Our network and the naive one share parameters and batch, and the script first compares their
outputs. PPGN and GIN have the same readout, width and depth. The steps of all networks alternate,
so that a busy machine slows all of them; the script prints medians. With one thread of a CPU it
measures processor time, which depends less on what else the machine does. Memory is the peak of
live tensors during a step, above those before it. On a GPU our step is captured, as in training
(`eager` is the same step without capture), and float32 matmuls may use TF32.
"""

from __future__ import annotations

import argparse
import json
import math
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

from smpgnn.capture.steps import CapturedFunction, padded_store
from smpgnn.config.network import NetworkOptions
from smpgnn.contexts.index import ContextIndex
from smpgnn.data.store import GraphBatch
from smpgnn.files import write_text
from smpgnn.models import SMP, MultiTaskSMP
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.network import run_network

CASES: dict[str, Callable[[], Workload]] = {
    "cycles-72": cycles,
    "zinc": zinc,
    "properties": properties,
    "properties-fast": lambda: properties("fast"),
}


@dataclass(frozen=True)
class Row:
    """One line of the table; `eager_ms` is None unless our step is captured.

    There is no PPGN for node and graph targets at once.
    """

    case: str
    parameters: int
    ours_ms: float
    eager_ms: float | None
    naive_ms: float
    ppgn_ms: float | None
    gin_ms: float
    ours_mib: float
    naive_mib: float
    largest_difference: float


def baseline(name: str, model: SMP | MultiTaskSMP, work: Workload) -> nn.Module:
    """A baseline with the readout, width and depth of our network, without edge features."""
    backbone = model.backbone
    several = isinstance(model, MultiTaskSMP)
    options = NetworkOptions(
        model=name,
        hidden_channels=backbone.options.hidden_channels,
        num_layers=backbone.options.num_layers,
        norm="batch",
        extractor_channels=32 if several else 128,
    )
    return NetworkSpec(
        in_channels=backbone.in_channels,
        node_outputs=3 if several else 0,
        graph_outputs=3 if isinstance(model, MultiTaskSMP) else model.out.out_features,
        options=options,
    ).build()


def loss_of(out: Any) -> Tensor:
    parts = [out] if isinstance(out, Tensor) else list(out)
    return torch.stack([part.square().mean() for part in parts]).sum()


def make_step(model: nn.Module, work: Workload, edges: bool = True) -> Callable[[], Tensor]:
    """Forward, backward and optimiser; returns the loss."""
    fused = True if work.batch.is_cuda else None
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fused)

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        edge_attr = work.edge_attr if edges else None
        out = model(work.x, work.edge_index, edge_attr, work.batch, batch_size=work.num_graphs)
        loss = loss_of(out)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    return step


def make_captured_step(
    model: nn.Module, work: Workload, dtype: torch.dtype | None = None
) -> Callable[[], Tensor]:
    """The same step with captured forward and backward passes, as in training on a GPU."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    store = work.store().to("cuda")

    def function(batch: GraphBatch, index: ContextIndex) -> Tensor:
        with torch.autocast("cuda", dtype=dtype, enabled=dtype is not None, cache_enabled=False):
            loss = loss_of(run_network(model, batch, index))
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    captured = CapturedFunction(padded_store(model, store, work.num_graphs), function, model)
    graphs = torch.arange(work.num_graphs)
    assert captured.fits(graphs)

    def step() -> Tensor:
        loss: Tensor = captured(graphs)
        optimizer.step()
        return loss

    return step


def peak_mib(step: Callable[[], Tensor], device: str) -> float:
    """The peak memory of the tensors that a step creates."""
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
    alone = device == "cpu" and torch.get_num_threads() == 1
    clock = time.process_time if alone else time.perf_counter
    start = clock()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1000 * (clock() - start)


def difference(ours: nn.Module, naive: nn.Module, work: Workload) -> float:
    """The largest difference between the outputs in float64, relative to the largest output."""
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
    steps = {
        "ours": make_captured_step(model, work) if device == "cuda" else make_step(model, work),
        "naive": make_step(naive, work),
        "gin": make_step(baseline("gin", model, work).to(device), work, edges=False),
    }
    if isinstance(model, SMP):
        steps["ppgn"] = make_step(baseline("ppgn", model, work).to(device), work, edges=False)
    plain = make_step(model, work)
    if device == "cuda":
        steps["eager"] = plain
    for step in steps.values():
        step()
    times: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(repeat):
        for name, step in steps.items():
            times[name].append(time_ms(step, device))
    medians = {f"{name}_ms": statistics.median(values) for name, values in times.items()}
    return Row(
        case=case,
        parameters=sum(p.numel() for p in model.parameters()),
        **{"eager_ms": None, "ppgn_ms": None, **medians},  # type: ignore[arg-type]
        ours_mib=peak_mib(plain, device),
        naive_mib=peak_mib(steps["naive"], device),
        largest_difference=gap,
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
    if options.device == "cuda":
        torch.set_float32_matmul_precision("high")
    name = f"{options.threads} threads" if options.threads > 1 else "1 thread, processor time"
    if options.device == "cuda":
        name = torch.cuda.get_device_name()
    print(f"One training step on {options.device} ({name}), torch {torch.__version__}\n")
    print(
        f"{'case':<16}{'parameters':>11}{'ours ms':>9}{'naive ms':>10}{'faster':>8}{'PPGN ms':>9}"
        f"{'GIN ms':>8}{'ours MiB':>10}{'naive MiB':>11}{'smaller':>9}{'difference':>12}"
    )
    rows = []
    for case in options.cases:
        row = measure(case, options.device, options.repeat)
        rows.append(row)
        print(
            f"{row.case:<16}{row.parameters:>11,}{row.ours_ms:>9.2f}{row.naive_ms:>10.1f}"
            f"{row.naive_ms / row.ours_ms:>7.1f}×{row.ppgn_ms or math.nan:>9.1f}{row.gin_ms:>8.1f}"
            f"{row.ours_mib:>10.0f}{row.naive_mib:>11.0f}{row.naive_mib / row.ours_mib:>8.1f}×"
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
        write_text(options.output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
