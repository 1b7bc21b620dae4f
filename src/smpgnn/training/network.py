"""How a network is called on a batch."""

from __future__ import annotations

from typing import Any

from torch import nn

from smpgnn.data.store import GraphBatch


def run_network(network: nn.Module, batch: GraphBatch, **more: Any) -> Any:
    """Call a network on a batch; edge features are given to those that take them.

    `more` are arguments of its `forward` besides.
    """
    backbone: Any = network.backbone
    edge_attr = batch.edge_attr if backbone.edge_channels else None
    return network(
        batch.x if backbone.in_channels else None,
        batch.edge_index,
        edge_attr,
        batch.batch,
        num_nodes=batch.num_nodes,
        batch_size=batch.num_graphs,
        **more,
    )
