"""Identifier schemes: which rows a local context has, and what each row stands for.

- *One-hot*: one row per node of the graph.
- *Coloring* (Algorithm 1): one row per colour; nodes share a colour if no context can confuse them.
- *Neighborhood*: one row per node within L hops and one row for all others, which are equal for up
  to L layers. Results equal those of one-hot. The table here serves all layers; networks let the
  rows grow from layer to layer (`growing.py`).
- *Local*: one row per node within r hops and one far row, for any number of layers. This is not the
  paper's network.
- *Pairs*: one row per pair of nodes close to each other, both within r hops (`pairs.py`), and one
  far row, for any number of layers. This is not the paper's network either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from smpgnn.contexts.coloring import coloring
from smpgnn.contexts.neighborhood import neighborhoods
from smpgnn.contexts.pairs import PairRows
from smpgnn.contexts.rows import IdentifierRows, LocalRows, NeighborhoodRows, RowTable
from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError, check_counts


@dataclass(frozen=True)
class Sizes:
    """Numbers that rows depend on: of layers, of hops seen, of hops between two marked nodes."""

    num_layers: int
    context_radius: int = 3
    pair_distance: int = 1


def onehot_identifiers(topology: Topology) -> Tensor:
    """The index of each node within its graph, [N]: the paper's one-hot identifiers."""
    nodes = torch.arange(topology.num_nodes, device=topology.device)
    return nodes - topology.graph_ptr[topology.batch]


def onehot_rows(topology: Topology, sizes: Sizes) -> IdentifierRows:
    """One row per node of the graph, for any number of layers."""
    return IdentifierRows.build(topology, onehot_identifiers(topology), None)


def coloring_rows(topology: Topology, sizes: Sizes) -> IdentifierRows:
    """One row per colour of Algorithm 1, for up to `num_layers` layers."""
    return IdentifierRows.build(topology, coloring(topology, sizes.num_layers), sizes.num_layers)


def neighborhood_rows(topology: Topology, sizes: Sizes) -> NeighborhoodRows:
    """One row per node within `num_layers` hops and one for all others."""
    balls = neighborhoods(topology, sizes.num_layers)
    return NeighborhoodRows.build(topology, balls, sizes.num_layers)


def local_rows(topology: Topology, sizes: Sizes) -> LocalRows:
    """One row per node within `context_radius` hops and a far row, for any number of layers."""
    check_counts(context_radius=sizes.context_radius, at_least=1)
    balls = neighborhoods(topology, sizes.context_radius)
    return LocalRows.build(topology, balls, sizes.context_radius)


def pair_rows(topology: Topology, sizes: Sizes) -> PairRows:
    """One row per pair at most `pair_distance` hops apart within `context_radius`, a far row."""
    check_counts(context_radius=sizes.context_radius, at_least=1)
    check_counts(pair_distance=sizes.pair_distance, at_least=0)
    balls = neighborhoods(topology, sizes.context_radius)
    pairs = neighborhoods(topology, sizes.pair_distance)
    return PairRows.build(topology, balls, pairs, sizes.context_radius, sizes.pair_distance)


Scheme = Callable[[Topology, Sizes], RowTable]
SCHEMES: dict[str, Scheme] = {
    "onehot": onehot_rows,
    "coloring": coloring_rows,
    "neighborhood": neighborhood_rows,
    "local": local_rows,
    "pairs": pair_rows,
}


def identifier_scheme(name: str) -> Scheme:
    """The scheme of this name, a function of the topology and sizes."""
    if name not in SCHEMES:
        raise InputError(f"identifiers must be one of {', '.join(SCHEMES)}, not {name!r}.")
    return SCHEMES[name]
