"""What the rivals of order two share: a matrix for each graph, laid out as one-hot contexts.

T[i, j] is the row of node j in the context of node i, so a batch holds the n² pairs of each graph
and nothing else: perceptrons, means and norms meet no padding. Only the factors of a matrix product
are padded, with zeros, which add nothing to it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from smpgnn.baselines.inputs import InputIndex, OwnInput
from smpgnn.context import ContextIndex
from smpgnn.errors import InputError
from smpgnn.identifiers import onehot_identifiers
from smpgnn.rows import IdentifierRows
from smpgnn.topology import take


class PairIndex(InputIndex):
    """One-hot contexts as matrices; the extra channel of the initial rows is the adjacency matrix.

    A[i, j] counts the edges from j to i. Build it with `PairIndex.of`.
    """

    @classmethod
    def of(cls, index: ContextIndex) -> PairIndex:
        """From an index of one-hot identifiers."""
        if isinstance(index, PairIndex):
            return index
        topology, table = index.topology, index.table
        rank = onehot_identifiers(topology)
        if not (isinstance(table, IdentifierRows) and torch.equal(table.identifier, rank)):
            raise InputError("index must hold one-hot identifiers: networks of order two need all.")
        at = take(table.ptr, topology.receiver) + take(rank, topology.sender)
        adjacency = torch.zeros(table.num_rows, 1, device=topology.device)
        adjacency.index_add_(0, at, torch.ones(topology.num_edges, 1, device=topology.device))
        return cls(topology, table, adjacency)

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor]:
        """The places of i and j in their graph for each pair, both [P]."""
        owner = self.table.owner
        second = torch.arange(self.num_rows, device=owner.device) - take(self.table.ptr, owner)
        return take(onehot_identifiers(self.topology), owner), second

    @cached_property
    def second(self) -> Tensor:
        """The node j of each pair (i, j), [P]."""
        return take(self.topology.graph_ptr, self.row_graph) + self._places[1]

    @cached_property
    def transpose(self) -> Tensor:
        """Where the pair (j, i) lies, for each pair (i, j), [P]."""
        return take(self.table.ptr, self.second) + self._places[0]

    @cached_property
    def _padded(self) -> tuple[int, Tensor]:
        """The largest n, and where each pair lies in a tensor [B, n, n], [P]."""
        topology, (i, j) = self.topology, self._places
        largest = int(topology.graph_size.max()) if topology.num_graphs else 0
        return largest, (self.row_graph * largest + i) * largest + j

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        r"""The matrix product in each channel, :math:`\sum_k L_{ik} R_{kj} / \sqrt n`.

        Dividing by √n, which the original methods do not, keeps the scale when graphs grow.

        Shapes: left, right [P, C] to [P, C]; takes memory of B · (largest n)² · C a factor.
        """
        largest, at = self._padded
        shape = self.topology.num_graphs, largest, largest, left.size(1)

        def pad(rows: Tensor) -> Tensor:
            zeros = rows.new_zeros(shape[0] * largest * largest, shape[3])
            return zeros.index_copy_(0, at, rows).view(shape).permute(0, 3, 1, 2)  # [B, C, n, n]

        full = torch.matmul(pad(left), pad(right)).permute(0, 2, 3, 1)
        rows = full.reshape(shape[0] * largest * largest, shape[3]).index_select(0, at)
        return rows * take(self.topology.graph_size, self.row_graph).to(rows.dtype).rsqrt()[:, None]


class PairNetwork(OwnInput):
    r"""The frame of `SMP` for layers of order two, with the adjacency matrix as part of the input.

    .. math:: T^{(0)}[i, j, :] = [\delta_{ij},\ \delta_{ij} x_i,\ A_{ij}]

    Takes the arguments of `SMP`; `identifiers` can be 'onehot' only.
    """

    def __init__(self, in_channels: int, *args: Any, **options: Any) -> None:
        super().__init__(in_channels, *args, own_channels=1, **options)
        if self.backbone.identifiers != "onehot":
            raise InputError(
                f"identifiers={self.backbone.identifiers!r}: a network of order two needs all "
                "pairs of nodes, 'onehot'."
            )

    def extend(self, index: ContextIndex, draw: int) -> ContextIndex:
        return PairIndex.of(index)


def refuse_edge_features(name: str, edge_channels: int) -> None:
    """Layers of order two know edges by the adjacency matrix only."""
    if edge_channels:
        raise InputError(f"edge_channels={edge_channels}: {name} takes no edge features.")
