"""Call a network on a batch."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn

from smpgnn.capture.pause import eager_calls
from smpgnn.contexts.index import ContextIndex
from smpgnn.data.store import GraphBatch


def run_network(
    network: nn.Module,
    batch: GraphBatch,
    index: ContextIndex | None = None,
    *,
    replay: bool = False,
    **more: Any,
) -> Any:
    """Call a network on a batch, with the features that it takes.

    With the `index` of a padded batch, the output has no row for the padding graph; rows for
    padding nodes come last. `replay`: whether many calls on a GPU may be replayed
    (`smpgnn.capture.calls`). `more` are further arguments of `forward`.
    """
    backbone: Any = network.backbone
    if getattr(network, "globals", None) is not None:
        more["u"] = batch.u
    with nullcontext() if replay else eager_calls():
        out = network(
            batch.x if backbone.in_channels else None,
            batch.edge_index,
            batch.edge_attr if backbone.edge_channels else None,
            batch.batch,
            num_nodes=batch.num_nodes,
            batch_size=batch.num_graphs,
            index=index,
            **more,
        )
    if index is None:
        return out
    nodes, graphs = batch.num_nodes, batch.num_graphs - 1
    return first_outputs(network, out, nodes, graphs)


def first_outputs(network: nn.Module, out: Any, nodes: int, graphs: int) -> Any:
    """The outputs for the first nodes or graphs, or for both if the network predicts both."""
    if isinstance(out, tuple):
        return out[0][:nodes], out[1][:graphs]
    return out[: nodes if getattr(network, "level", "graph") == "node" else graphs]


def autocast(device: torch.device, precision: str) -> AbstractContextManager[Any]:
    """bfloat16 autocast if `precision` is 'bfloat16'."""
    if precision != "bfloat16":
        return nullcontext()
    # The cache of cast weights must not live longer than a captured step.
    return torch.autocast(device.type, dtype=torch.bfloat16, cache_enabled=False)
