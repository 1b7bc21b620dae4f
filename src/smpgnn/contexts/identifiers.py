"""Identifiers: which rows the local context of a node has, and what each row stands for.

Four schemes. *One-hot*: node i has a row for every node of its graph. *Coloring* (Algorithm 1):
nodes that no context can confuse share a colour, and a context has a row for every colour.
*Neighborhood*: a context has a row for every node within L hops and one row for all the others,
which are equal as long as at most L layers have passed; exact, in memory that grows with n only.
The table here serves all layers; networks let the rows grow from layer to layer (`growth.py`).
*Local*: a context has a row for every node within r hops and a far row, for any number of layers:
not the network of the paper, but one whose contexts tell apart no more than what is near.
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
    """The place of each node in its graph, [N]: the one-hot encoding of the paper."""
    nodes = torch.arange(topology.num_nodes, device=topology.device)
    return nodes - topology.graph_ptr[topology.batch]


def onehot_rows(topology: Topology, num_layers: int, context_radius: int) -> IdentifierRows:
    """A row for every node of the graph: n rows a context, for any number of layers."""
    return IdentifierRows.build(topology, onehot_identifiers(topology), None)


def coloring_rows(topology: Topology, num_layers: int, context_radius: int) -> IdentifierRows:
    """A row for every colour of Algorithm 1 for this many layers."""
    return IdentifierRows.build(topology, coloring(topology, num_layers), num_layers)


def neighborhood_rows(topology: Topology, num_layers: int, context_radius: int) -> NeighborhoodRows:
    """A row for every node within this many hops and one for all the others."""
    return NeighborhoodRows.build(topology, neighborhoods(topology, num_layers), num_layers)


def local_rows(topology: Topology, num_layers: int, context_radius: int) -> LocalRows:
    """A row for every node within `context_radius` hops and a far one, for any number of layers."""
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
    """The scheme of this name: a function of the graphs, number of layers and context radius."""
    if name not in SCHEMES:
        raise InputError(f"identifiers must be one of {', '.join(SCHEMES)}, not {name!r}.")
    return SCHEMES[name]
