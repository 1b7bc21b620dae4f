"""How near recorded steps on a GPU come to what its memory allows.

    python benchmarks/gpu.py [--cases zinc zinc-1024] [--output gpu.json]

For each case: the time of a recorded step with TF32 products and in bfloat16 autocast when steps
follow one another, as they do in training, the time of one that is waited for, the number of
kernels it launches, and the floor: the bytes that the layers must move, divided by the bandwidth
of a large copy on this card in the same run. Bytes are counted in passes over one tensor of rows
(rows × width × 4 bytes), in two ways.

`stages` counts what must go through memory because something global separates it: the exchange
between neighbours and the statistics of the norm. A fast layer reads x and writes û, reads û and
writes x' (4 passes); backward reads g, û and writes dS, dû₀; reads dS, dû₀, x and writes dû; reads
dû, x and writes dx (4 + 4 + 3). A default layer reads x and writes û, a, b; reads these and writes
x' (4 + 4); backward reads g, û, a, b and writes dR, dS, dû₀; reads dR, dS, dû₀, a, b, û, x and
writes dû; reads dû, x and writes dx (7 + 8 + 3); two less without the neighbour's own context dS.

`ideal` lets everything between two statistics stay on the chip, which no kernel here attempts: x
read and x' written; backward x and g read for the statistics, then read again and dx written (2 + 2
+ 3 passes).
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from step import make_recorded_step
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from workloads import Workload, cycles, properties, zinc

from smpgnn.files import write_text
from smpgnn.layers import DefaultSMPLayer

CASES: dict[str, Callable[[], Workload]] = {
    "cycles-72": cycles,
    "zinc": zinc,
    "properties": properties,
    "properties-fast": lambda: properties("fast"),
    "cycles-72, 512 graphs": lambda: cycles(512),
    "ZINC, 1024 graphs, width 64": lambda: zinc(1024, 64),
}
IDEAL = 7


@dataclass(frozen=True)
class Row:
    """One case: milliseconds, launches, passes over a tensor of rows a layer, MiB."""

    case: str
    rows: int
    width: int
    layers: int
    tf32_ms: float
    tf32_alone_ms: float
    bfloat16_ms: float
    launches: int
    stages: int
    floor_ms: float
    ideal_floor_ms: float
    over_floor: float
    over_ideal_floor: float


def copy_bandwidth() -> float:
    """Bytes read plus bytes written in a second by a large copy on the card."""
    source = torch.rand(2**28, device="cuda")
    target = torch.empty_like(source)
    times = []
    for _ in range(12):
        start, end = (
            torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            for _ in range(2)
        )
        start.record()
        target.copy_(source)
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return 2 * source.numel() * 4 / float(statistics.median(times))


def following_ms(step: Callable[[], Tensor], groups: int = 7, steps: int = 10) -> float:
    """Time of a step among steps that follow one another: the median over groups of them."""
    times = []
    for _ in range(groups):
        start, end = (
            torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            for _ in range(2)
        )
        start.record()
        for _ in range(steps):
            step()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / steps)
    return float(statistics.median(times))


def alone_ms(step: Callable[[], Tensor], repeat: int = 20) -> float:
    """Wall time of a step that is waited for."""
    times = []
    for _ in range(repeat):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times)


def count_launches(step: Callable[[], Tensor]) -> int:
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        step()
        torch.cuda.synchronize()
    return sum(event.count for event in found.key_averages())


def measure(case: str, bandwidth: float) -> Row:
    torch.manual_seed(0)
    work = CASES[case]()
    model = work.make().cuda()
    step = make_recorded_step(model, work)
    step()
    tf32, alone = following_ms(step), alone_ms(step)
    launches = count_launches(step)
    del step
    half_step = make_recorded_step(model, work, torch.bfloat16)
    half_step()
    half = following_ms(half_step)
    rows = int(torch.bincount(work.batch).square().sum())
    backbone = model.backbone
    layer = backbone.layers[0]
    stages = 15
    if isinstance(layer, DefaultSMPLayer):
        stages = 26 if layer.options.message_residual else 24
    one = 1000 * rows * backbone.options.hidden_channels * 4 / bandwidth
    floor, ideal = (passes * backbone.options.num_layers * one for passes in (stages, IDEAL))
    return Row(
        case,
        rows,
        backbone.options.hidden_channels,
        backbone.options.num_layers,
        tf32,
        alone,
        half,
        launches,
        stages,
        floor,
        ideal,
        tf32 / floor,
        tf32 / ideal,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    bandwidth = copy_bandwidth()
    name = torch.cuda.get_device_name()
    print(f"{name}, torch {torch.__version__}, copy {bandwidth / 1e12:.2f} TB/s\n")
    print(
        f"{'case':<28}{'TF32 ms':>9}{'alone':>9}{'bf16 ms':>9}{'launches':>10}{'floor ms':>10}"
        f"{'over':>7}{'ideal ms':>10}{'over':>7}"
    )
    rows = []
    for case in options.cases:
        row = measure(case, bandwidth)
        rows.append(row)
        print(
            f"{row.case:<28}{row.tf32_ms:>9.2f}{row.tf32_alone_ms:>9.2f}"
            f"{row.bfloat16_ms:>9.2f}{row.launches:>10}"
            f"{row.floor_ms:>10.3f}{row.over_floor:>6.1f}×{row.ideal_floor_ms:>10.3f}"
            f"{row.over_ideal_floor:>6.1f}×",
            flush=True,
        )
        torch.cuda.empty_cache()
    if options.output:
        record = {
            "device": name,
            "torch": torch.__version__,
            "bandwidth_bytes_s": bandwidth,
            "rows": [asdict(row) for row in rows],
        }
        write_text(options.output, json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
