"""From nodes to graphs: sums, means and maxima over the nodes of each graph of a batch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from smpgnn.contexts.caching import cached_property, outside_modes
from smpgnn.contexts.layout import RowLayout
from smpgnn.contexts.topology import Topology
from smpgnn.ops.sparse import SparseSum, segment_matrices, segment_max, segment_sum
from smpgnn.tracing import number, traced


@dataclass(frozen=True, eq=False)
class Graphs:
    """The graphs of a batch, as sets of nodes. Empty graphs get zeros.

    `multiplicity` is that of each graph in statistics over graphs, [B]; None: all 1.
    """

    topology: Topology
    multiplicity: Tensor | None = None
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    def sum(self, values: Tensor) -> Tensor:
        """Sum of node values over each graph, [N, C] to [B, C]."""
        return segment_sum(values, *self.matrices)

    def mean(self, values: Tensor) -> Tensor:
        """Mean of node values over each graph, [N, C] to [B, C]."""
        return self.sum(values) / self.size(values.dtype)

    def max(self, values: Tensor) -> Tensor:
        """Maximum of node values over each graph, [N, C] to [B, C]."""
        return segment_max(values, self.topology.graph_ptr, self.topology.batch)

    @outside_modes
    def size(self, dtype: torch.dtype) -> Tensor:
        """Number of nodes n of each graph, at least 1, [B, 1]."""
        if traced():
            return self.topology.graph_size.clamp(min=1).to(dtype).unsqueeze(1)
        if dtype not in self._sizes:
            least = self.topology.graph_size.clamp(min=1)
            self._sizes[dtype] = least.to(dtype).unsqueeze(1)
        return self._sizes[dtype]

    @cached_property
    def _sizes(self) -> dict[torch.dtype, Tensor]:
        """`size` by dtype."""
        return {}

    @cached_property
    def largest(self) -> int:
        """An upper bound on the number of nodes of a graph."""
        some = traced() or self.topology.num_graphs
        return number(self.topology.graph_size.max()) if some else 0

    @cached_property
    def matrices(self) -> tuple[SparseSum, SparseSum]:
        """The matrix that sums over the nodes of each graph, and its transpose."""
        return segment_matrices(self.topology.graph_ptr, self.topology.batch)

    @cached_property
    def layout(self) -> RowLayout:
        """Graph values as contexts of one row each, for the norms of rows."""
        place = torch.arange(self.topology.num_graphs + 1, device=self.topology.device)
        return RowLayout(
            ptr=place,
            own=place[:-1],
            num_rows=self.topology.num_graphs,
            multiplicity=self.multiplicity,
            given={"owner": place[:-1]},
        )
