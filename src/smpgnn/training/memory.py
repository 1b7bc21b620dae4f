"""How much memory a training step will need, and what is there."""

from __future__ import annotations

import os

import torch
from torch import Tensor

from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec

#: Tensors of one number a row and channel that a layer keeps for its gradient, and those that live
#: for a moment beside them: measured with benchmarks/step.py.
KEPT_PER_LAYER = {"smp": 9.0, "fast-smp": 6.5}
PASSING = 8.0


def context_rows(sizes: Tensor, spec: NetworkSpec) -> Tensor:
    """Rows of the contexts of graphs with so many nodes, [G]; the most that the scheme can need."""
    return sizes.square() if spec.model in KEPT_PER_LAYER else sizes


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
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(
    store: GraphStore, spec: NetworkSpec, batch_size: int, batch_rows: int, device: torch.device
) -> None:
    """Refuse, before training starts, a batch size whose contexts cannot fit."""
    if spec.identifiers != "onehot" and spec.model in KEPT_PER_LAYER:
        return  # the rows of these depend on the graphs, and are fewer
    need = largest_batch_bytes(store, spec, batch_size)
    if batch_rows:
        largest = int(context_rows(store.num_nodes, spec).max())
        need = min(need, step_bytes(max(batch_rows, largest), 4 * batch_rows, spec))
    there = available_bytes(device)
    if need > there:
        raise InputError(
            f"the contexts of a batch may need {need / 2**30:.1f} GiB, but {there / 2**30:.1f} GiB "
            f"are free on {device.type}: lower --batch-size (now {batch_size}), set --batch-rows, "
            "or use --identifiers neighborhood."
        )
