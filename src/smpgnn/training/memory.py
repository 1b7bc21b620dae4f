"""Whether a training step fits into the memory that is there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import torch

from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec
from smpgnn.training.estimate import StepMemory, count_parameters, step_memory
from smpgnn.training.row_counts import context_rows, count_largest, count_rows

__all__ = [
    "available_bytes",
    "check_memory",
    "context_rows",
    "fitting_rows",
    "inference_bytes",
    "largest_batch_memory",
    "room",
]

#: Graphs from which `fitting_rows` learns what a row needs.
_SAMPLE = 512
#: Bytes that are there wherever this runs.
_LITTLE = 1 << 29


def largest_batch_memory(
    store: GraphStore,
    spec: NetworkSpec,
    batch_size: int,
    device: torch.device,
    *,
    batch_rows: int = 0,
    optimizer: str = "adamw",
    precision: str = "float32",
) -> StepMemory:
    """The need of the largest batch that could come up: the graphs with the most rows together.

    `batch_rows` limits batches as in training, but no batch has less than one graph.
    """
    counts = count_largest(store, spec, batch_size)
    batch = counts.limited(counts.order(batch_size), batch_rows, spec)
    return step_memory(spec, batch, device, optimizer=optimizer, precision=precision)


def available_bytes(device: torch.device) -> int:
    """Memory free on the device now."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return int(free)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError), open("/proc/meminfo", encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                there = int(line.split()[1]) * 1024
    group = Path("/sys/fs/cgroup")  # the limit of a container, where there is one
    with contextlib.suppress(OSError, ValueError):
        limit = int((group / "memory.max").read_text())
        there = min(there, limit - int((group / "memory.current").read_text()))
    return there


def room(device: torch.device) -> float:
    """Bytes that a single step may take: not all that is free, for others need some, too."""
    return 0.9 * available_bytes(device)


def inference_bytes(store: GraphStore, spec: NetworkSpec, *, gradients: bool = False) -> float:
    """What a trained network needs for all these graphs together, at most.

    It is counted only where it may be much, and 0 otherwise. With `gradients` the values of all
    layers are kept.
    """
    width = max(spec.hidden_channels, spec.in_channels, spec.edge_channels)
    most = store.num_nodes.double().square().sum().item() * width * (spec.num_layers + 20) * 4
    if most < _LITTLE:
        return 0.0
    need = step_memory(spec, count_rows(store, spec).batch(), store.device)
    dense = 64 * store.num_nodes.double().square().max().item() if spec.model == "dgn" else 0.0
    return need.passing + need.index + dense + (need.kept if gradients else 0.0)


def fitting_rows(
    store: GraphStore, spec: NetworkSpec, device: torch.device, *, precision: str = "float32"
) -> int:
    """The limit of rows (`context_rows`) with which a step takes about half of the free memory."""
    units = context_rows(store.num_nodes, spec)
    places = torch.linspace(0, len(store) - 1, min(len(store), _SAMPLE)).round().long()
    sample = store.select(places.to(store.device))
    many = 10**6 / max(1, int(units[places].sum()))
    batch = count_rows(sample, spec).batch().scaled(many)
    need = step_memory(spec, batch, device, precision=precision)
    each = (need.total - need.weights) / 10**6
    return max(int(units.max()), int((0.5 * available_bytes(device) - need.weights) / each))


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
    """Refuse, before training starts, a batch size whose contexts cannot fit."""
    counts = count_largest(store, spec, batch_size)
    top = counts.order(batch_size)
    parameters = count_parameters(spec)

    def need(batch_size: int) -> int:
        return step_memory(
            spec,
            counts.limited(top[:batch_size], batch_rows, spec),
            device,
            parameters=parameters,
            optimizer=optimizer,
            precision=precision,
        ).total

    there = available_bytes(device)
    free = f"but {there / 2**30:.1f} GiB are free on {device.type}"
    smaller = "use --checkpoint, --identifiers neighborhood or a smaller network"
    if need(1) > there:
        raise InputError(
            f"the contexts of the largest graph, of {int(counts.nodes[top[0]])} nodes, need about "
            f"{need(1) / 2**30:.1f} GiB in training, {free}: leave it out, or {smaller}."
        )
    if need(batch_size) > there:
        raise InputError(
            f"the contexts of a batch may need {need(batch_size) / 2**30:.1f} GiB, {free}: lower "
            f"--batch-size (now {batch_size}), lower or set --batch-rows, or {smaller}."
        )
