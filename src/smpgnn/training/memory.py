"""How much memory a training step will need, and what is there."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import torch
from torch import Tensor

from smpgnn.catalogue import PAIRWISE
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec

#: Tensors of one number a row and channel that a layer keeps for its gradient, and those that live
#: for a moment beside them: rough counts from reading the layers, not fitted to measurements.
KEPT_PER_LAYER = {"smp": 9.0, "fast-smp": 6.5, "ppgn": 12.0, "ring-gnn": 40.0}
PASSING = 8.0


def context_rows(sizes: Tensor, spec: NetworkSpec) -> Tensor:
    """Rows of the contexts of graphs with so many nodes, [G]; the most that the scheme can need."""
    return sizes.square() if spec.model in PAIRWISE else sizes


def step_bytes(rows: int, messages: int, spec: NetworkSpec) -> int:
    """About how many bytes a training step needs for this many rows and row-to-row messages."""
    kept = KEPT_PER_LAYER.get(spec.model, 6.0) * spec.num_layers + PASSING
    numbers = rows * spec.hidden_channels * kept + 2 * rows * (1 + spec.in_channels)
    index = 8 * (5 * messages + 6 * rows)
    return int(4 * numbers + index)


def largest_batch_bytes(store: GraphStore, spec: NetworkSpec, batch_size: int) -> int:
    """The need of the largest batch that could come up: the graphs with the most rows together."""
    rows = context_rows(store.num_nodes, spec)
    degree = store.num_edges / store.num_nodes.clamp(min=1)
    top = torch.topk(rows, min(batch_size, len(store))).indices
    messages = int((rows[top] * degree[top]).sum())
    return step_bytes(int(rows[top].sum()), messages, spec)


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


def fitting_rows(store: GraphStore, spec: NetworkSpec, device: torch.device) -> int:
    """The rows of a batch whose training step takes about half of the free memory."""
    rows = context_rows(store.num_nodes, spec)
    messages = rows * store.num_edges / store.num_nodes.clamp(min=1)
    each = step_bytes(10**6, int(10**6 * float(messages.sum() / rows.sum())), spec) / 10**6
    return max(int(rows.max()), int(0.5 * available_bytes(device) / each))


def check_memory(
    store: GraphStore, spec: NetworkSpec, batch_size: int, batch_rows: int, device: torch.device
) -> None:
    """Refuse, before training starts, a batch size whose contexts cannot fit."""
    if spec.identifiers != "onehot" and spec.model in ("smp", "fast-smp"):
        return  # the rows of these depend on the graphs, and are fewer
    need = largest_batch_bytes(store, spec, batch_size)
    alone = largest_batch_bytes(store, spec, 1)
    if batch_rows:
        need = min(need, max(alone, step_bytes(batch_rows, 4 * batch_rows, spec)))
    there = available_bytes(device)
    free = f"but {there / 2**30:.1f} GiB are free on {device.type}"
    smaller = "use --identifiers neighborhood or a smaller network"
    if alone > there:
        raise InputError(
            f"the contexts of the largest graph, of {int(store.num_nodes.max())} nodes, need about "
            f"{alone / 2**30:.1f} GiB in training, {free}: leave it out, or {smaller}."
        )
    if need > there:
        raise InputError(
            f"the contexts of a batch may need {need / 2**30:.1f} GiB, {free}: lower --batch-size "
            f"(now {batch_size}), lower or set --batch-rows, or {smaller}."
        )
