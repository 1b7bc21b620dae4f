"""Sizes of batches: of one, and enough for others like it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from smpgnn.capture.static_index import Size
from smpgnn.contexts.index import ContextIndex

#: Entries of the dense matrices in which the rows of local contexts are found.
LOCAL_LIMIT = 2**25
#: Capacity relative to the largest batch seen.
_ROOM = 1.25


def size_of(network: Any, index: ContextIndex) -> Size:
    """The size of a batch with at least one node."""
    topology = index.topology
    sizes = topology.graph_size
    pairs, largest = torch.stack([sizes.square().sum(), sizes.max()]).tolist()
    local = network.backbone.identifiers == "local"
    return Size(
        graphs=topology.num_graphs,
        nodes=topology.num_nodes,
        edges=topology.num_edges,
        rows=index.num_rows if local else pairs,
        messages=index.lift.source.numel() if local else 0,
        largest=largest,
    )


def room_for(seen: Sequence[Size]) -> Size:
    """A size above all of these."""

    def most(name: str, unit: int = 16) -> int:
        largest: int = max(getattr(size, name) for size in seen)
        return unit * (math.ceil(_ROOM * largest) // unit + 1)

    return Size(
        graphs=max(size.graphs for size in seen),
        nodes=most("nodes"),
        edges=most("edges"),
        rows=most("rows"),
        messages=most("messages"),
        largest=most("largest", 8),
    )
