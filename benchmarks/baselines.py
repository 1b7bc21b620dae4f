"""Time one training step of every baseline and of the multi-task network (GRU and Set2Set).

    python benchmarks/baselines.py [--models ppgn gat] [--output baselines.json]

Baselines run on a synthetic batch of the size of ZINC, with the widths of Table 3 where they are in
it; with `several` targets they and our two networks run on a batch of the size of graph properties.
On a GPU a step is timed launch by launch (`eager`) and as training runs it (`captured`), both under
deterministic algorithms, with TF32 products. To compare two versions, run this file on a quiet
machine once with each of their `src` folders as PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from gpu import consecutive_ms, count_launches
from step import make_captured_step, make_step, peak_mib
from torch import Tensor, nn
from workloads import Workload, properties, zinc

from smpgnn.capture.steps import can_capture
from smpgnn.config.models import MODELS
from smpgnn.config.network import NetworkOptions
from smpgnn.files import write_text
from smpgnn.models.registry import NetworkSpec

#: Layers and width on ZINC where they are not 4 and 64.
SIZES = {
    "gin": (4, 97),
    "pna": (4, 35),
    "dgn": (4, 42),
    "mpnn-jt": (4, 56),
    "ppgn": (6, 32),
    "ring-gnn": (6, 32),
}
OURS = ("smp", "fast-smp", "mpnn", "fast-mpnn")
BASELINES = [entry for entry in MODELS.values() if entry.name not in OURS]
Case = tuple[str, Callable[[int], Workload], Callable[[Workload], nn.Module]]


def cases() -> list[Case]:
    """Name, batch of so many graphs and network of every row of the table."""
    alone: list[Case] = [
        (entry.name, zinc, _builder(entry.name, entry.edges)) for entry in BASELINES
    ]
    several: list[Case] = [
        (
            f"{entry.name}, several",
            partial(properties, "default"),
            _builder(entry.name, False, several=True),
        )
        for entry in BASELINES
        if entry.multitask
    ]
    ours: list[Case] = [
        (name, partial(properties, layer), lambda work: work.make())
        for name, layer in (("smp, several", "default"), ("fast-smp, several", "fast"))
    ]
    return [*alone, *several, *ours]


def _builder(name: str, edges: bool, several: bool = False) -> Callable[[Workload], nn.Module]:
    layers, width = (8, 64) if several else SIZES.get(name, (4, 64))

    def build(work: Workload) -> nn.Module:
        assert work.x is not None
        attributes = work.edge_attr if edges else None
        options = NetworkOptions(
            model=name,
            hidden_channels=width,
            num_layers=layers,
            norm="batch",
            residual=True,
            shared_extractor=True,
            extractor_channels=32 if several else 64,
        )
        return NetworkSpec(
            in_channels=work.x.size(1),
            edge_channels=0 if attributes is None else attributes.size(1),
            node_outputs=3 if several else 0,
            graph_outputs=3 if several else 1,
            max_nodes=int(torch.bincount(work.batch).max()),
            options=options,
        ).build()

    return build


def cpu_ms(step: Callable[[], Tensor], repeat: int = 3) -> float:
    """The median time of a step on the CPU."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        step()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def measure(case: Case, graphs: int | None, device: str) -> dict[str, Any]:
    """Milliseconds a step, launches of a captured step, and MiB of an eager one."""
    name, batch, build = case
    torch.manual_seed(0)
    work = batch(graphs or (16 if "several" in name else 128)).to(device)
    model = build(work).to(device)
    backbone: Any = model.backbone
    eager = make_step(model, work, edges=bool(backbone.edge_channels))
    for _ in range(3 if device == "cuda" else 1):
        eager()
    row: dict[str, Any] = {"model": name, "captured_ms": None, "launches": None}
    row["eager_ms"] = consecutive_ms(eager) if device == "cuda" else cpu_ms(eager)
    row["mib"] = peak_mib(eager, device)
    if can_capture(model, torch.device(device)):
        captured = make_captured_step(model, work)
        captured()
        row |= {"captured_ms": consecutive_ms(captured), "launches": count_launches(captured)}
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    names = [name for name, _, _ in cases()]
    parser.add_argument("--models", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--graphs", type=int, help="graphs of a batch (128, or 16 with several)")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.set_float32_matmul_precision("high")
        torch.use_deterministic_algorithms(True, warn_only=True)
        settings: Any = torch.utils.deterministic
        settings.fill_uninitialized_memory = False
    warnings.filterwarnings("ignore", message=".*deterministic.*", category=UserWarning)
    machine = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{machine}, torch {torch.__version__}\n")
    print(f"{'model':<22}{'eager ms':>10}{'captured ms':>13}{'launches':>10}{'MiB':>8}")
    rows = []
    for case in cases():
        if case[0] not in options.models:
            continue
        try:
            row = measure(case, options.graphs, device)
        except RuntimeError as error:  # one network that fails does not hide the others
            row = {"model": case[0], "error": str(error)}
            print(f"{case[0]:<22}  {error}".split("\n")[0], flush=True)
        else:
            captured = "" if row["captured_ms"] is None else f"{row['captured_ms']:.2f}"
            print(
                f"{row['model']:<22}{row['eager_ms']:>10.2f}{captured:>13}"
                f"{row['launches'] or '':>10}{row['mib']:>8.0f}",
                flush=True,
            )
        rows.append(row)
        if device == "cuda":
            torch.cuda.empty_cache()
    if options.output:
        record = {"device": machine, "torch": torch.__version__, "rows": rows}
        write_text(options.output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
