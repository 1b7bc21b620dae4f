"""Outputs of a network for many graphs on a GPU, by captured steps."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from smpgnn.capture.steps import can_capture
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.inference.pieces import TOGETHER
from smpgnn.training.evaluation import MANY
from smpgnn.training.memory import room
from smpgnn.training.steps import EvaluationStep

#: Bytes of index arrays for each pair of nodes, at most.
_BYTES = 1024


def captured_outputs(network: nn.Module, store: GraphStore, batch_rows: int) -> Any | None:
    """The outputs for all graphs of a store, in order; None if they must run piece by piece.

    That is so for few graphs, for networks that cannot be captured, and if a graph has more than
    `batch_rows` rows (nodes squared) or an error.
    """
    device = store.device
    if not len(store) or not can_capture(network, device):
        return None
    rows = store.num_nodes.square().cpu()
    usual = max(1.0, rows.double().mean().item())
    batch_size = int(max(1, min(TOGETHER, batch_rows / usual)))
    parts = math.ceil(rows.sum().item() * _BYTES / max(1.0, room(device)))
    if rows.max() > batch_rows or len(store) < parts * MANY * batch_size:
        return None
    found: list[Any] = []
    try:
        for part in torch.arange(len(store)).tensor_split(parts):
            own = store if parts == 1 else store.select(part)
            step = EvaluationStep(network, own, batch_size, capture=True)
            batches = torch.split(torch.arange(len(own)), batch_size)
            found += [step.outputs(graphs) for graphs in batches]
    except (InputError, MemoryError, RuntimeError):  # shown by the pieces, if they have it, too
        torch.cuda.empty_cache()
        return None
    if isinstance(found[0], Tensor):
        return torch.cat(found)
    return tuple(torch.cat(values) for values in zip(*found, strict=True))
