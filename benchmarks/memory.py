"""Compare the estimated memory of training steps with the measured one, and show what
checkpointing saves.

    python benchmarks/memory.py [--device cuda] [--output memory.json]

The peak is the most bytes of tensors alive at one moment in the second step of training: the
weights, the state of the optimiser and the batch, which are there before it, and all that the step
makes, the gradients of the weights included. On the CPU the profiler counts it, on a GPU the
allocator does (`torch.cuda.max_memory_allocated`, above what was there before network and batch).
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import workloads
from sparse_graphs import mesh
from step import make_step, peak_mib, time_ms
from torch import Tensor
from workloads import Workload

from smpgnn.config.options import (
    CyclesOptions,
    GraphsOptions,
    PropertiesOptions,
    ZincOptions,
)
from smpgnn.config.presets import paper_preset
from smpgnn.contexts.topology import pointer
from smpgnn.data.store import GraphStore
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.estimate import step_memory
from smpgnn.training.row_counts import count_rows

#: Graphs of a batch, or nodes of the one large graph, that are measured on each device.
SIZES = {
    "cpu": {"cycles-72": (4, 16), "zinc": (16, 64), "properties": (16, 64), "mesh": (1000, 3000)},
    "cuda": {
        "cycles-72": (16, 256),
        "zinc": (128, 1024),
        "properties": (16, 512),
        "mesh": (10_000, 100_000),
    },
}


@dataclass(frozen=True)
class Case:
    """A network and a batch for it."""

    name: str
    size: int
    spec: NetworkSpec
    work: Workload


@dataclass(frozen=True)
class Row:
    """One line of the table; all sizes in MiB."""

    case: str
    size: int
    width: int
    rows: int
    kept: float
    passing: float
    index: float
    weights: float
    estimate: float
    measured: float

    @property
    def ratio(self) -> float:
        return self.estimate / self.measured


@dataclass(frozen=True)
class Saving:
    """A step without and with checkpointing."""

    case: str
    size: int
    plain_mib: float
    checkpoint_mib: float
    plain_ms: float
    checkpoint_ms: float


def spec_of(case: str, **options: Any) -> NetworkSpec:
    """The paper's network for a workload, with some options changed."""
    given: dict[str, Any] = {"residual": False, **options}
    channels = {"in_channels": 0, "edge_channels": 0, "node_outputs": 0, "graph_outputs": 1}
    if case == "cycles-72":
        wide = CyclesOptions(num_layers=8, extractor_channels=128)
        return NetworkSpec.from_options(replace(wide, **given), **channels)
    if case == "zinc":
        passing = paper_preset(ZincOptions())
        channels |= {"in_channels": 28, "edge_channels": 3}
        return NetworkSpec.from_options(replace(passing, **given), **channels)
    if case == "properties":
        channels |= {"in_channels": 2, "node_outputs": 3, "graph_outputs": 3}
        return NetworkSpec.from_options(replace(PropertiesOptions(), **given), **channels)
    if given.pop("level", "graph") == "node":
        channels |= {"node_outputs": 1, "graph_outputs": 0}
    large = GraphsOptions(hidden_channels=16, num_layers=4, message_residual=False)
    return NetworkSpec.from_options(replace(large, **given), **channels)


def cases(device: str) -> Iterator[Case]:
    """Every workload with several sizes, widths and options."""
    options: dict[str, list[dict[str, Any]]] = {
        "cycles-72": [
            {},
            {"residual": True, "hidden_channels": 64},
            {"norm": "layer"},
            {"set_terms": False},
            {"norm_place": "after", "residual": True},
            {"own_terms": True},
            {"identifiers": "neighborhood"},
            {"identifiers": "coloring"},
            {"checkpoint": True},
        ],
        "zinc": [
            {},
            {"hidden_channels": 64},
            {"message_residual": False, "residual": True},
            {"own_terms": True},
            {"identifiers": "neighborhood"},
            {"identifiers": "local", "features": "row"},
            {"checkpoint": True},
        ],
        "properties": [
            {},
            {"model": "fast-smp"},
            {"hidden_channels": 32},
            {"checkpoint": True},
            {"model": "fast-smp", "checkpoint": True},
            {"model": "mpnn"},
        ],
        "mesh": [
            {},
            {"model": "fast-smp"},
            {"level": "node", "extractor_channels": 32},
            {"model": "fast-smp", "level": "node", "hidden_channels": 32},
            {"checkpoint": True},
            {"level": "node", "extractor_channels": 32, "checkpoint": True},
        ],
    }
    for name, chosen in options.items():
        for size in SIZES[device][name]:
            work = workload(name, size)
            for changes in chosen:
                label = " ".join([name, *(_label(key, value) for key, value in changes.items())])
                yield Case(label, size, spec_of(name, **changes), work)


def _label(name: str, value: Any) -> str:
    return name if value is True else f"{name}={value}"


def workload(name: str, size: int) -> Workload:
    """The batch of this name with so many graphs; for 'mesh' one graph of so many nodes."""
    makers: dict[str, Callable[..., Workload]] = {
        "cycles-72": workloads.cycles,
        "zinc": workloads.zinc,
        "properties": workloads.properties,
    }
    if name in makers:
        return makers[name](graphs=size)
    edge_index, nodes = mesh(size, torch.Generator().manual_seed(0))
    batch = torch.zeros(nodes, dtype=torch.long)
    return Workload("mesh", workloads.cycles(1).make, None, edge_index, None, batch, 1)


def store_of(work: Workload) -> GraphStore:
    """The graphs of a workload, without features: enough to count rows."""
    graph = work.batch[work.edge_index[0]]
    node_ptr = pointer(torch.bincount(work.batch, minlength=work.num_graphs))
    edge_ptr = pointer(torch.bincount(graph, minlength=work.num_graphs))
    return GraphStore(node_ptr, edge_ptr, work.edge_index - node_ptr[graph])


def measured_peak(spec: NetworkSpec, work: Workload, device: str) -> float:
    """The peak in MiB of a training step."""
    gc.collect()
    before = torch.cuda.memory_allocated() if device == "cuda" else 0
    torch.manual_seed(0)
    work = work.to(device)
    model = spec.build().to(device)
    step = make_step(model, work)
    step()
    model.zero_grad(set_to_none=True)
    gc.collect()
    if device == "cuda":
        there = float(torch.cuda.memory_allocated() - before)
    else:
        given = (work.x, work.edge_index, work.edge_attr, work.batch)
        weights = [*model.parameters(), *model.buffers()]
        states = 2 * sum(_bytes(parameter) for parameter in model.parameters())  # of Adam
        there = states + sum(_bytes(value) for value in (*given, *weights) if value is not None)
    return there / 2**20 + peak_mib(step, device)


def _bytes(value: Tensor) -> float:
    return float(value.numel() * value.element_size())


def _mib(size: float) -> float:
    return round(size / 2**20, 2)


def measure(case: Case, device: str) -> Row:
    """A line of the table."""
    counted = count_rows(store_of(case.work), case.spec).batch()
    found = step_memory(case.spec, counted, torch.device(device), optimizer="adam")
    peak = measured_peak(case.spec, case.work, device)
    return Row(
        case.name,
        case.size,
        case.spec.hidden_channels,
        round(counted.rows[-1]),
        kept=_mib(found.kept),
        passing=_mib(found.passing),
        index=_mib(found.index),
        weights=_mib(found.weights),
        estimate=_mib(found.total),
        measured=round(peak, 2),
    )


def savings(chosen: list[Case], rows: list[Row], device: str, repeat: int) -> Iterator[Saving]:
    """What the cases with checkpointing save; steps without and with it alternate."""
    measured = {(row.case, row.size): row.measured for row in rows}
    for case in chosen:
        if not case.spec.checkpoint:
            continue
        work, steps = case.work.to(device), []
        for checkpoint in (False, True):
            model = replace(case.spec, checkpoint=checkpoint).build().to(device)
            steps.append(make_step(model, work))
            steps[-1]()
        times = [[time_ms(step, device) for step in steps] for _ in range(repeat)]
        plain_ms, checkpoint_ms = (statistics.median(column) for column in zip(*times, strict=True))
        plain = case.name.removesuffix(" checkpoint")
        yield Saving(
            plain,
            case.size,
            measured[plain, case.size],
            measured[case.name, case.size],
            round(plain_ms, 2),
            round(checkpoint_ms, 2),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="Estimated and measured memory of training steps.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--cases", nargs="+", metavar="NAME", help="only those that start so")
    parser.add_argument("--repeat", type=int, default=5, help="timed steps of each way")
    parser.add_argument("--threads", type=int, default=1, help="processor threads")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    os.environ.setdefault("KINETO_LOG_LEVEL", "5")
    torch.set_num_threads(options.threads)
    name = (
        torch.cuda.get_device_name() if options.device == "cuda" else f"{options.threads} threads"
    )
    print(f"Peak of one training step on {options.device} ({name}), torch {torch.__version__}\n")
    print(
        f"{'case':<52}{'size':>8}{'rows':>10}{'kept':>9}{'passing':>9}{'index':>9}{'weights':>9}"
        f"{'estimate':>10}{'measured':>10}{'ratio':>7}   (MiB)"
    )
    if options.device == "cuda":  # workspaces of libraries are not the step's
        measured_peak(spec_of("properties"), workload("properties", 4), "cuda")
    chosen = [
        case
        for case in cases(options.device)
        if not options.cases or case.name.startswith(tuple(options.cases))
    ]
    rows: list[Row] = []
    for case in chosen:
        row = measure(case, options.device)
        rows.append(row)
        print(
            f"{row.case:<52}{row.size:>8,}{row.rows:>10,}{row.kept:>9.1f}{row.passing:>9.1f}"
            f"{row.index:>9.1f}{row.weights:>9.1f}{row.estimate:>10.1f}{row.measured:>10.1f}"
            f"{row.ratio:>7.2f}",
            flush=True,
        )
    ratios = [row.ratio for row in rows]
    print(f"\nestimate / measured: {min(ratios):.3f} to {max(ratios):.3f} in {len(rows)} cases\n")
    saved: list[Saving] = []
    print(f"{'checkpointing':<52}{'size':>8}{'plain MiB':>11}{'MiB':>9}{'smaller':>9}{'slower':>8}")
    for line in savings(chosen, rows, options.device, options.repeat):
        saved.append(line)
        print(
            f"{line.case:<52}{line.size:>8,}{line.plain_mib:>11.1f}{line.checkpoint_mib:>9.1f}"
            f"{line.plain_mib / line.checkpoint_mib:>8.1f}×"
            f"{line.checkpoint_ms / line.plain_ms:>7.2f}×",
            flush=True,
        )
    if options.output:
        record = {
            "device": name,
            "machine": platform.machine(),
            "torch": torch.__version__,
            "peak": "tensors alive in a step, with weights, optimiser and batch",
            "rows": [asdict(row) | {"ratio": round(row.ratio, 4)} for row in rows],
            "checkpointing": [asdict(line) for line in saved],
        }
        options.output.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
