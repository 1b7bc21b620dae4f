"""Time one training step of each member of the family (docs/concepts/family.md), SMP and PPGN.

    python benchmarks/family.py [--device cuda] [--graphs 128] [--output family.json]

All have the same depth, width, readout and batch of graphs of the size of ZINC's molecules. Their
steps alternate, so that a busy machine slows all of them; times are medians, of the process on a
CPU. Memory is the peak of live tensors during a step, above those before it. The index of rows is
part of the step on a CPU. On a GPU steps are captured where training captures them.
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
from step import baseline, make_captured_step, make_step, peak_mib
from workloads import Workload, zinc

from smpgnn.capture.steps import can_capture
from smpgnn.config.network import TERMS
from smpgnn.files import write_text
from smpgnn.models import SMP

RADIUS, LAYERS, WIDTH = 3, 6, 32
LOCAL = {"identifiers": "local", "context_radius": RADIUS}
FIRST = {"features": "both", "first_rows": ("distance", "bond", "walks")}
#: The members by name; the first is the one that the others are compared with.
MEMBERS: dict[str, dict[str, Any]] = {
    "SMP": LOCAL,
    "first rows": {**LOCAL, **FIRST},
    **{term: {**LOCAL, "terms": (term,)} for term in TERMS},
    "inside + folklore": {**LOCAL, "terms": ("inside", "folklore")},
    "pairs 1": {**LOCAL, "identifiers": "pairs", "pair_distance": 1},
    "pairs 2": {**LOCAL, "identifiers": "pairs", "pair_distance": 2},
    "SMP, all rows": {"identifiers": "onehot"},
    "inside, all rows": {"identifiers": "onehot", "terms": ("inside",)},
    "product, all rows": {"identifiers": "onehot", "terms": ("product",)},
    "block-product, all rows": {"identifiers": "onehot", "terms": ("block-product",)},
}


@dataclass(frozen=True)
class Row:
    """One member: `ratio` is that of its step to the step of SMP on local contexts."""

    member: str
    parameters: int
    rows: int
    messages: int
    ms: float
    ratio: float
    mib: float
    captured: bool


def network(options: dict[str, Any], work: Workload) -> SMP:
    assert work.x is not None
    assert work.edge_attr is not None
    return SMP(
        work.x.size(1), 1, WIDTH, LAYERS, edge_channels=work.edge_attr.size(1), norm="batch",
        residual=True, extractor_channels=128, shared_extractor=True, **options,
    )  # fmt: skip


def measure(work: Workload, device: str, repeat: int, chosen: list[str]) -> list[Row]:
    """The members in `chosen`, and PPGN."""
    models: dict[str, Any] = {name: network(MEMBERS[name], work).to(device) for name in chosen}
    models["PPGN"] = baseline("ppgn", models[chosen[0]], work).to(device)
    captured = {name: can_capture(model, torch.device(device)) for name, model in models.items()}
    steps: dict[str, Callable[[], Any]] = {
        name: make_captured_step(model, work)
        if captured[name]
        else make_step(model, work, edges=name != "PPGN")
        for name, model in models.items()
    }
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(repeat + 1):
        for name, step in steps.items():
            taken = time_ms(step, device)
            if turn:  # the first compiles and allocates
                times[name].append(taken)
    medians = {name: statistics.median(values) for name, values in times.items()}
    found = []
    for name, model in models.items():
        index = model.backbone.checked_index(
            work.x, work.edge_index, None if name == "PPGN" else work.edge_attr, work.batch,
            None, work.num_graphs, None,
        )  # fmt: skip
        found.append(
            Row(
                member=name,
                parameters=sum(p.numel() for p in model.parameters()),
                rows=index.num_rows,
                messages=index.lift.source.numel(),
                ms=medians[name],
                ratio=medians[name] / medians[chosen[0]],
                mib=peak_mib(make_step(model, work, edges=name != "PPGN"), device),
                captured=captured[name],
            )
        )
    return found


def time_ms(step: Callable[[], Any], device: str) -> float:
    """Wall-clock time on a GPU, time of the process on a CPU."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    start = clock()
    step()
    if device == "cuda":
        torch.cuda.synchronize()
    return 1000 * (clock() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--members", nargs="+", choices=list(MEMBERS), default=list(MEMBERS))
    parser.add_argument("--graphs", type=int, default=128, help="graphs in the batch")
    parser.add_argument("--repeat", type=int, default=7, help="timed steps of each member")
    parser.add_argument("--threads", type=int, default=1, help="processor threads")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    gpu = options.device == "cuda"
    if gpu:
        torch.set_float32_matmul_precision("high")
    name = torch.cuda.get_device_name() if gpu else f"{options.threads} threads"
    work = zinc(options.graphs).to(options.device)
    chosen = ["SMP", *(member for member in options.members if member != "SMP")]
    rows = measure(work, options.device, options.repeat, chosen)
    print(f"One training step of {options.graphs} graphs on {options.device} ({name})\n")
    names = f"{'parameters':>11}{'rows':>9}{'messages':>10}{'ms':>9}{'× SMP':>8}{'MiB':>7}"
    print(f"{'member':<26}{names}")
    for row in rows:
        print(
            f"{row.member:<26}{row.parameters:>11,}{row.rows:>9,}{row.messages:>10,}{row.ms:>9.1f}"
            f"{row.ratio:>8.2f}{row.mib:>7.0f}"
        )
    if options.output:
        record = {
            "device": name,
            "machine": platform.machine(),
            "torch": torch.__version__,
            "graphs": options.graphs,
            "layers": LAYERS,
            "width": WIDTH,
            "radius": RADIUS,
            "rows": [asdict(row) for row in rows],
        }
        write_text(options.output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
