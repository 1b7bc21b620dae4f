"""Identifier schemes: which rows a local context has, and what each row stands for.

- *One-hot*: one row per node of the graph.
- *Coloring* (Algorithm 1): one row per colour; nodes share a colour if no context can confuse them.
- *Neighborhood*: one row per node within L hops and one row for all others, which are equal for up
  to L layers. Results equal those of one-hot. The table here serves all layers; networks let the
  rows grow from layer to layer (`growing.py`).
- *Local*: one row per node within r hops and one far row, for any number of layers. This is not the
  paper's network.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from smpgnn.contexts.coloring import coloring
from smpgnn.contexts.neighborhood import neighborhoods
from smpgnn.contexts.rows import IdentifierRows, LocalRows, NeighborhoodRows, RowTable
from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError, check_counts


def onehot_identifiers(topology: Topology) -> Tensor:
    """The index of each node within its graph, [N]: the paper's one-hot identifiers."""
    nodes = torch.arange(topology.num_nodes, device=topology.device)
    return nodes - topology.graph_ptr[topology.batch]


def onehot_rows(topology: Topology, num_layers: int, context_radius: int) -> IdentifierRows:
    """One row per node of the graph, for any number of layers."""
    return IdentifierRows.build(topology, onehot_identifiers(topology), None)


def coloring_rows(topology: Topology, num_layers: int, context_radius: int) -> IdentifierRows:
    """One row per colour of Algorithm 1, for up to `num_layers` layers."""
    return IdentifierRows.build(topology, coloring(topology, num_layers), num_layers)


def neighborhood_rows(topology: Topology, num_layers: int, context_radius: int) -> NeighborhoodRows:
    """One row per node within `num_layers` hops and one for all others."""
    return NeighborhoodRows.build(topology, neighborhoods(topology, num_layers), num_layers)


def local_rows(topology: Topology, num_layers: int, context_radius: int) -> LocalRows:
    """One row per node within `context_radius` hops and a far row, for any number of layers."""
    check_counts(context_radius=context_radius, at_least=1)
    return LocalRows.build(topology, neighborhoods(topology, context_radius), context_radius)


Scheme = Callable[[Topology, int, int], RowTable]
SCHEMES: dict[str, Scheme] = {
    "onehot": onehot_rows,
    "coloring": coloring_rows,
    "neighborhood": neighborhood_rows,
    "local": local_rows,
}


def identifier_scheme(name: str) -> Scheme:
    """The scheme of this name, a function of topology, number of layers and context radius."""
    if name not in SCHEMES:
        raise InputError(f"identifiers must be one of {', '.join(SCHEMES)}, not {name!r}.")
    return SCHEMES[name]
