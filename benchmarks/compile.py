"""Time the default network of molecules eagerly and under torch.compile, in one run.

    python benchmarks/compile.py [--device cuda] [--layers 6] [--output compile.json]

Each call gets another batch of molecule-like graphs, so the sizes differ. Eager and compiled calls
alternate; `dynamic=True` compiles once for all sizes. `index inside` builds the rows of the
contexts in the call, `index given` takes a `ContextIndex`; eager calls with a given index find its
lists computed from the warm-up. On a CPU the figures are processor time of one thread, which other
programs on the machine change little.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._dynamo.utils import counters
from workloads import Workload, zinc

from smpgnn import SMP, ContextIndex, Topology
from smpgnn.config.options import MoleculesOptions
from smpgnn.files import write_text


def main() -> None:
    parser = argparse.ArgumentParser(description="Time eager and compiled calls.")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--graphs", type=int, default=64)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    works = [zinc(options.graphs, seed=seed).to(options.device) for seed in range(options.batches)]
    rows = []
    for given in (False, True):
        for training in (False, True):
            rows.append(_row(works, options.layers, given, training, options.device))
            print(_line(rows[-1]), flush=True)
    record = {
        "device": _name(options.device), "torch": torch.__version__, "graphs": options.graphs,
        "layers": options.layers, "batches": options.batches, "rows": rows,
    }  # fmt: skip
    if options.output is not None:
        write_text(options.output, json.dumps(record, indent=1) + "\n")


def _row(
    works: Sequence[Workload], layers: int, given: bool, training: bool, device: str
) -> dict[str, Any]:
    """Medians of eager and compiled calls, which alternate, and what compiling took."""
    torch.manual_seed(0)
    chosen = MoleculesOptions().network.changed(num_layers=layers)
    x, y = works[0].x, works[0].edge_attr
    assert x is not None
    assert y is not None
    model = SMP(x.size(1), 1, edge_channels=y.size(1), options=chosen).to(device).train(training)
    torch._dynamo.reset()
    counters.clear()
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    indices = [_index(work, chosen.context_radius) if given else None for work in works]
    calls = [
        [_call(kind, work, index, training) for work, index in zip(works, indices, strict=True)]
        for kind in (model, compiled)
    ]
    start = _processor_time()
    calls[1][0]()
    compiling = _processor_time() - start
    with torch.no_grad():
        gap = None if training else _largest_gap(model, compiled, works[0])
    model.train(training)
    times: list[list[float]] = [[], []]
    for repeat in range(3):
        for eager, fast in zip(*calls, strict=True):
            for kind, call in enumerate((eager, fast)):
                taken = _time(call, device)
                if repeat:  # the first round warms up
                    times[kind].append(1000 * taken)
    eager_ms, compiled_ms = map(statistics.median, times)
    return {
        "index": "given" if given else "inside", "pass": "training" if training else "inference",
        "eager_ms": eager_ms, "compiled_ms": compiled_ms, "speedup": eager_ms / compiled_ms,
        "compiling_s": compiling, "compilations": counters["stats"]["unique_graphs"],
        "difference": gap,
    }  # fmt: skip


def _index(work: Workload, radius: int) -> ContextIndex:
    topology = Topology.checked(work.edge_index, work.batch, num_graphs=work.num_graphs)
    return ContextIndex.build(topology, "local", 1, radius)


def _call(
    network: Any, work: Workload, index: ContextIndex | None, training: bool
) -> Callable[[], None]:
    """A forward pass without gradients, or forward and backward pass."""

    def call() -> None:
        with torch.set_grad_enabled(training):
            out = network(work.x, work.edge_index, work.edge_attr, work.batch, index=index)
        if training:
            out.square().mean().backward()

    return call


def _largest_gap(model: nn.Module, compiled: Any, work: Workload) -> float:
    arguments: tuple[Tensor | None, ...] = (work.x, work.edge_index, work.edge_attr, work.batch)
    return float((model(*arguments) - compiled(*arguments)).abs().max())


def _processor_time() -> float:
    """Seconds of processor time of this process and the compilers that it has called."""
    return sum(os.times()[:4])


def _time(call: Callable[[], None], device: str) -> float:
    """Seconds: of the GPU's clock, or processor time."""
    if device == "cuda":
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        return time.perf_counter() - start
    start = time.process_time()
    call()
    return time.process_time() - start


def _line(row: dict[str, Any]) -> str:
    return (
        f"index {row['index']:6} {row['pass']:9}  eager {row['eager_ms']:7.1f} ms  compiled "
        f"{row['compiled_ms']:7.1f} ms  {row['speedup']:.2f}×  compiling {row['compiling_s']:.0f} s"
        f" ({row['compilations']} graphs)"
    )


def _name(device: str) -> str:
    if device == "cuda":
        return str(torch.cuda.get_device_name())
    return f"{platform.processor() or platform.machine()}, 1 thread"


if __name__ == "__main__":
    main()
