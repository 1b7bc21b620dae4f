"""Whether a training step will fit into memory, and the peak memory of a run."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import torch

from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.memory_probe import STATES, StepMemory, count_parameters, probe, widest
from smpgnn.training.row_counts import context_rows, count_rows

#: Tensors as wide as the rows: more than any layer keeps, and those of inference.
_AMPLE, _TEMPORARY = 64, 8
#: Bytes that are always free.
_LITTLE = 1 << 29


def available_bytes(device: torch.device) -> int:
    """Free memory of the device."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    there = 1024 * _kib("/proc/meminfo", "MemAvailable:")
    if there == 0:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group = Path("/sys/fs/cgroup")  # the limit of a container, if there is one
    with contextlib.suppress(OSError, ValueError):
        limit = int((group / "memory.max").read_text())
        there = min(there, limit - int((group / "memory.current").read_text()))
    return there


def room(device: torch.device) -> float:
    """Bytes that a step may take: most of the free memory."""
    return 0.9 * available_bytes(device)


def reset_peak(device: torch.device) -> None:
    """Start measuring `peak_mib` anew."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    else:
        with contextlib.suppress(OSError):  # "5" resets the peak and nothing else
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_mib(device: torch.device) -> float:
    """Peak memory since `reset_peak`: of tensors on a GPU, else of the whole process.

    0 if the system does not report it.
    """
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    return _kib("/proc/self/status", "VmHWM:") / 2**10


def _kib(path: str, name: str) -> int:
    """An entry of a file in /proc; 0 if there is none."""
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        for line in file:
            if line.startswith(name):
                return int(line.split()[1])
    return 0


def check_memory(
    store: GraphStore,
    spec: NetworkSpec,
    batch_size: int,
    batch_rows: int,
    device: torch.device,
    *,
    optimizer: str = "adamw",
    precision: str = "float32",
) -> None:
    """Refuse a batch size whose contexts will not fit, before training starts.

    If memory is ample, or far too small for the contexts of a graph, their size alone decides;
    otherwise a probe does.
    """
    counts, limited = count_rows(store, spec), context_rows(store.num_nodes, spec)
    there = available_bytes(device)
    weights = 4.0 * count_parameters(spec) * (2 + STATES[optimizer])
    ample = 4.0 * widest(spec) * _AMPLE * (spec.options.num_layers + 1)
    if StepMemory(ample, ample, weights).of_batch(counts, batch_size, limited, batch_rows) < there:
        return
    number = 2.0 if precision == "bfloat16" else 4.0
    need = StepMemory(number * spec.options.hidden_channels * spec.options.num_layers, 0.0, weights)
    if need.of_batch(counts, 1, limited, 0) <= there:
        need = probe(store, spec, device, counts, optimizer=optimizer, precision=precision)
    one, batch = (need.of_batch(counts, k, limited, batch_rows) for k in (1, batch_size))
    free = f"but {there / 2**30:.1f} GiB are free on {device.type}"
    smaller = "use --checkpoint, --identifiers neighborhood or a smaller network"
    if one > there:
        largest = int(store.num_nodes[need.of(counts).argmax()])
        raise InputError(
            f"the contexts of the largest graph, of {largest} nodes, need about "
            f"{one / 2**30:.1f} GiB in training, {free}: leave it out, or {smaller}."
        )
    if batch > there:
        raise InputError(
            f"the contexts of a batch may need {batch / 2**30:.1f} GiB, {free}: lower "
            f"--batch-size (now {batch_size}), lower or set --batch-rows, or {smaller}."
        )


def fitting_rows(
    store: GraphStore, spec: NetworkSpec, device: torch.device, *, precision: str = "float32"
) -> int:
    """The `batch_rows` with which a step takes about half of the free memory."""
    units, counts = context_rows(store.num_nodes, spec), count_rows(store, spec)
    half = 0.5 * available_bytes(device)
    need = probe(store, spec, device, counts, precision=precision)
    each = float(need.of(counts).sum()) / max(1, int(units.sum()))
    return max(int(units.max()), int((half - need.fixed) / max(each, 1.0)))


def inference_bytes(store: GraphStore, spec: NetworkSpec, *, gradients: bool = False) -> float:
    """Approximate bytes of a prediction for all graphs together; 0 if they are surely few.

    With `gradients`, the values of all layers are kept.
    """
    square = store.num_nodes.double().square()
    tensor = 4.0 * max(spec.options.hidden_channels, spec.in_channels, spec.edge_channels)
    if square.sum().item() * tensor * (spec.options.num_layers + 20) < _LITTLE:
        return 0.0
    tensors = _TEMPORARY * (1 + spec.options.num_layers * gradients)
    need = StepMemory(64 + tensors * tensor, 64, 0)  # 64: indices of a row, and of a message
    dense = 64 * square.max().item() if spec.options.model == "dgn" else 0.0
    return float(need.of(count_rows(store, spec)).sum()) + dense
