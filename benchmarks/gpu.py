"""Compare captured steps on a GPU with a lower bound from its memory bandwidth.

    python benchmarks/gpu.py [--cases zinc zinc-1024] [--output gpu.json]

For each case the script measures a captured step with TF32 matmuls and in bfloat16 autocast, in
consecutive steps as in training; a single synchronised step; and the number of kernels. The lower
bound (`floor`) is the number of bytes that the layers must move, divided by the bandwidth of a
large copy on the same GPU. Bytes are counted in passes over one tensor of rows (rows × width × 4
bytes), in two ways.

`stages` counts what must go through memory because something global separates it: the exchange
between neighbours and the statistics of the norm. A fast layer reads x and writes û, reads û and
writes x' (4 passes); backward reads g, û and writes dS, dû₀; reads dS, dû₀, x and writes dû; reads
dû, x and writes dx (4 + 4 + 3). A default layer reads x and writes û, a, b; reads these and writes
x' (4 + 4); backward reads g, û, a, b and writes dR, dS, dû₀; reads dR, dS, dû₀, a, b, û, x and
writes dû; reads dû, x and writes dx (7 + 8 + 3); two less without the neighbour's own context dS.

`ideal` assumes that everything between two statistics stays on the chip, which none of our kernels
does: read x and write x'; backward read x and g for the statistics, then read both again and write
dx (2 + 2 + 3 passes).
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from step import CASES as STEP_CASES
from step import make_captured_step, time_ms
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from workloads import Workload, cycles, zinc

from smpgnn.files import write_text
from smpgnn.layers import DefaultSMPLayer

CASES: dict[str, Callable[[], Workload]] = {
    **STEP_CASES,
    "cycles-72, 512 graphs": lambda: cycles(512),
    "ZINC, 1024 graphs, width 64": lambda: zinc(1024, 64),
}
IDEAL = 7


@dataclass(frozen=True)
class Row:
    """One case: milliseconds, kernels, passes over a tensor of rows per layer, lower bounds."""

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


def elapsed_ms(call: Callable[[], object]) -> float:
    """Time of a call on the GPU."""
    start, end = (
        torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        for _ in range(2)
    )
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def copy_bandwidth() -> float:
    """Bytes read plus bytes written per second by a large copy."""
    source = torch.rand(2**28, device="cuda")
    target = torch.empty_like(source)
    times = [elapsed_ms(lambda: target.copy_(source)) for _ in range(12)]
    return 2 * source.numel() * 4 * 1000 / statistics.median(times)


def consecutive_ms(step: Callable[[], Tensor], groups: int = 7, steps: int = 10) -> float:
    """Time of a step in consecutive steps: the median over groups of them."""

    def run() -> None:
        for _ in range(steps):
            step()

    return statistics.median(elapsed_ms(run) for _ in range(groups)) / steps


def count_launches(step: Callable[[], Tensor]) -> int:
    with profile(activities=[ProfilerActivity.CUDA]) as found:
        step()
        torch.cuda.synchronize()
    return sum(event.count for event in found.key_averages())


def measure(case: str, bandwidth: float) -> Row:
    torch.manual_seed(0)
    work = CASES[case]()
    model = work.make().cuda()
    step = make_captured_step(model, work)
    step()
    tf32 = consecutive_ms(step)
    alone = statistics.median(time_ms(step, "cuda") for _ in range(20))
    launches = count_launches(step)
    del step
    half_step = make_captured_step(model, work, torch.bfloat16)
    half_step()
    half = consecutive_ms(half_step)
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
    parser.add_argument("--output", type=Path, help="write the results to this JSON file")
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
