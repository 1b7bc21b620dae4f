"""Gathers from nodes to edges and sums from edges to nodes, for messages with edge states.

Gathers and sums are each other's gradients. Both run over edges sorted by node, so every sum is
deterministic.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smpgnn.contexts.caching import cached_property
from smpgnn.contexts.layout import RowLayout
from smpgnn.contexts.topology import Topology, take
from smpgnn.ops import RowGather, SparseSum, segment_max


@dataclass(frozen=True, eq=False)
class Edges:
    """The edges that leave and arrive at each node.

    If `padded`, edges are sorted by receiver, and the last ones are padding: they only affect the
    last node, which is padding, too.
    """

    topology: Topology
    padded: bool = False

    def from_senders(self, values: Tensor) -> Tensor:
        """The value of the sender of every edge, [N, C] to [E, C]."""
        return self._leaving(values)

    def from_receivers(self, values: Tensor) -> Tensor:
        """The value of the receiver of every edge, [N, C] to [E, C]."""
        return self._arriving(values)

    def sum(self, values: Tensor) -> Tensor:
        """The sum over the edges that arrive at every node, [E, C] to [N, C]."""
        return self._arriving.sums(values)

    def max(self, values: Tensor) -> Tensor:
        """The maximum over the edges that arrive at every node, by channel: [E, C] to [N, C].

        It is zero for a node without edges. Ties share the gradient.
        """
        ptr, order = self.topology.edges_by_receiver
        owner = self.topology.receiver
        if not self.padded:
            values, owner = self._sorted(values), take(owner, order)
        return segment_max(values, ptr, owner, None, self.padded)

    @cached_property
    def layout(self) -> RowLayout:
        """Edge values as contexts of one row each, for the norms of rows."""
        used = self.topology.edges_by_receiver[0][-1] if self.padded else self._places[-1]
        return RowLayout(
            ptr=torch.minimum(self._places, used),
            own=self._places[:-1],
            num_rows=self.topology.num_edges,
            padded=self.padded,
            given={"owner": self._places[:-1]},
        )

    @cached_property
    def _places(self) -> Tensor:
        """0, 1, …, E."""
        return torch.arange(self.topology.num_edges + 1, device=self.topology.device)

    @cached_property
    def _leaving(self) -> RowGather:
        """From nodes to the edges that leave them, and back."""
        topology = self.topology
        given = {"by_row": topology.edges_by_sender}
        return RowGather(topology.sender, topology.num_nodes, given=given)

    @cached_property
    def _arriving(self) -> RowGather:
        """From nodes to the edges that arrive at them, and back."""
        topology = self.topology
        form = "collect" if self.padded else ""
        given = {"_sum": SparseSum(*topology.edges_by_receiver, form=form)}
        return RowGather(topology.receiver, topology.num_nodes, given=given)

    @cached_property
    def _sorted(self) -> RowGather:
        """From edges in their own order to edges sorted by receiver, and back."""
        _, order = self.topology.edges_by_receiver
        given = {"_sum": SparseSum(self._places, torch.argsort(order), form="spread")}
        return RowGather(order, self.topology.num_edges, given=given)
