"""The rows of contexts before the first layer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.config.network import NetworkOptions
from smpgnn.contexts.caching import outside_modes
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.links import Links
from smpgnn.contexts.neighborhood import distances, neighborhoods
from smpgnn.contexts.pairs import PairRows
from smpgnn.contexts.rows import NeighborhoodRows
from smpgnn.contexts.topology import Topology, take
from smpgnn.errors import InputError
from smpgnn.ops import neighbor_sum

#: The largest distance that has a channel of its own.
_FARTHEST = 100


@dataclass(frozen=True)
class FirstRows:
    """U⁽⁰⁾ with more than the paper's: see `ContextIndex.initial` for `features`.

    With 'both', row (i, j) holds x_j and x_i. `parts` are further channels of that row:

    - 'distance': one-hot, the hops from j to i up to `radius`, and whether j is farther away;
    - 'bond': the sum of the features of the edges from j to i; without edge features their number;
    - 'walks': the probabilities that a random walk from i against the edges is at j after 1, 2, …,
      `walk_steps` steps.

    Row (j, k) of two marked nodes has the channels of row (i, j), then those of row (i, k).
    """

    features: str = "own"
    parts: tuple[str, ...] = ()
    radius: int = 3
    walk_steps: int = 16

    @classmethod
    def of(cls, options: NetworkOptions) -> FirstRows:
        """Those of a network."""
        if "distance" in options.first_rows and options.context_radius > _FARTHEST:
            raise InputError(
                f"context_radius={options.context_radius}: with first_rows 'distance' every "
                f"distance is a channel, so it must be at most {_FARTHEST}."
            )
        return cls(options.features, options.first_rows, options.context_radius, options.walk_steps)

    @property
    def plain(self) -> bool:
        """Whether these are the rows of `ContextIndex.initial`."""
        return self.features != "both" and not self.parts

    @property
    def fixed(self) -> bool:
        """Whether some channels depend only on the graph (`values`)."""
        return not {"distance", "walks"}.isdisjoint(self.parts)

    @property
    def links(self) -> tuple[str, ...]:
        """The links between rows that are needed."""
        return ("arcs",) if "bond" in self.parts else ()

    @property
    def key(self) -> FirstRows:
        """What has the same `values`: unused numbers are 0."""
        parts = tuple(part for part in self.parts if part != "bond")
        return FirstRows(
            parts=parts,
            radius=self.radius if "distance" in parts else 0,
            walk_steps=self.walk_steps if "walks" in parts else 0,
        )

    def channels(self, in_channels: int, edge_channels: int, marks: int = 1) -> int:
        """The width of U⁽⁰⁾ for rows that describe `marks` nodes."""
        widths = {
            "distance": self.radius + 2,
            "bond": max(1, edge_channels),
            "walks": self.walk_steps,
        }
        width = 1 + in_channels * (2 if self.features == "both" else 1)
        return marks * (width + sum(widths[part] for part in self.parts))

    def __call__(
        self, index: ContextIndex, x: Tensor | None, edge_attr: Tensor | None, dtype: torch.dtype
    ) -> LocalContext:
        """U⁽⁰⁾. Shapes: x [N, F], edge_attr [E, D]; rows [P, `channels`]."""
        if isinstance(index.table, PairRows):
            table = index.table
            nodes = self(index.of_single_nodes, x, edge_attr, dtype).rows
            ends = [nodes.index_select(0, rows) for rows in (table.first, table.second)]
            return LocalContext(torch.cat(ends, dim=1), index.layout)
        usual = "row" if self.features == "both" else self.features
        context = index.initial(x, dtype, usual)
        if self.plain:
            return context
        rows = [context.rows]
        if self.features == "both" and x is not None:
            rows.append(context.expand(x.to(dtype)))
        if self.fixed:
            rows.append(self.values(index).to(dtype))
        if "bond" in self.parts:
            rows.append(_bonds(index, edge_attr, dtype))
        return LocalContext(torch.cat(rows, dim=1), index.layout)

    @outside_modes
    def values(self, index: ContextIndex) -> Tensor:
        """The channels that depend only on the graph, [P, D] float64; computed once per index."""
        if self.key not in index.first_rows:
            links, found = index.links, []
            if "distance" in self.parts:
                found.append(_distances(links, self.radius))
            if "walks" in self.parts:
                found.append(_walks(links, self.walk_steps))
            index.first_rows[self.key] = torch.cat(found, dim=1)
        return index.first_rows[self.key]


def _distances(links: Links, radius: int) -> Tensor:
    """Hops from each described node as one-hot 0, …, radius, far, [P, radius + 2]."""
    (node, seen), hops = distances(links.topology, radius)
    code = torch.full((links.table.num_rows,), radius + 1, device=node.device)
    code[links.table.row_of(node, seen)] = hops
    return F.one_hot(code, radius + 2).double()


def _walks(links: Links, steps: int) -> Tensor:
    """(D⁻¹A)^k [i, j] for k = 1, …, steps, [P, steps]; zero for a far row.

    A walk of `steps` steps stays within `steps` hops, so neighbourhood rows are exact: the unseen
    rows stay zero.
    """
    topology, table = links.topology, links.table
    wide = ContextIndex(
        topology, NeighborhoodRows.build(topology, neighborhoods(topology, steps), steps)
    )
    degree = take(topology.degree, wide.table.owner).clamp(min=1)
    lift = replace(wide.lift, scale=degree.double().reciprocal())
    walk = torch.zeros(wide.num_rows, 1, dtype=torch.float64, device=topology.device)
    walk[wide.table.own] = 1.0
    found = []
    for _ in range(steps):
        walk = neighbor_sum(walk, lift)
        found.append(walk)
    seen = links.described < topology.num_nodes
    assert isinstance(wide.table, NeighborhoodRows)
    rows = wide.table.row_of(table.owner, links.described)
    values = torch.cat(found, dim=1).index_select(0, rows)
    return torch.where(seen.unsqueeze(1), values, 0.0)


def _bonds(index: ContextIndex, edge_attr: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The sum of the edge features of the edges from j to i for each row (i, j), [P, D]."""
    topology: Topology = index.topology
    if edge_attr is None:
        edge_attr = torch.ones(topology.num_edges, 1, dtype=dtype, device=topology.device)
    return index.links.arcs.sums(edge_attr.to(dtype))
