"""Baselines of order two: features of all pairs of nodes, in the rows of one-hot contexts.

T[i, j] is the row of node j in the context of node i, so a batch has n² rows per graph, and MLPs,
means and norms need no masks. Only the factors of a matrix product are dense [B, C, n, n], with
zeros around the smaller graphs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smpgnn.baselines.inputs import InputIndex, OwnInput
from smpgnn.contexts.caching import cached_property, outside_modes
from smpgnn.contexts.identifiers import onehot_identifiers
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.rows import IdentifierRows
from smpgnn.contexts.topology import take
from smpgnn.errors import InputError
from smpgnn.ops import SparseSum
from smpgnn.ops.sparse import sparse_apply
from smpgnn.tracing import traced


class PairIndex(InputIndex):
    """One-hot contexts as matrices, with the adjacency matrix as extra channel of the initial rows.

    A[i, j] counts the edges from j to i. Build it with `PairIndex.of`.
    """

    @classmethod
    @outside_modes
    def of(cls, index: ContextIndex) -> PairIndex:
        """From an index of one-hot identifiers."""
        if isinstance(index, PairIndex):
            return index
        topology, table = index.topology, index.table
        rank = onehot_identifiers(topology)
        fits = isinstance(table, IdentifierRows) and (
            traced() or index.layout.padded or torch.equal(table.identifier, rank)
        )
        if not fits:
            raise InputError("index must hold one-hot identifiers: networks of order two need all.")
        at = take(table.ptr, topology.receiver) + take(rank, topology.sender)
        adjacency = torch.zeros(table.num_rows, 1, device=topology.device)
        ones = torch.ones(topology.num_edges, 1, device=topology.device)
        adjacency.index_add_(0, at.clamp(max=table.num_rows - 1), ones)
        return cls.on(index, adjacency)

    @cached_property
    def _ranks(self) -> tuple[Tensor, Tensor]:
        """The indices of i and j within their graph for each pair, both [P]."""
        rank = onehot_identifiers(self.topology)
        return take(rank, self.table.owner), take(rank, self.described)

    @cached_property
    def _transpose(self) -> SparseSum:
        """From each row (i, j) to the row (j, i)."""
        place = torch.arange(self.num_rows + 1, device=self.topology.device)
        at = take(self.table.ptr, self.described) + self._ranks[0]
        return SparseSum(place, at.clamp(max=self.num_rows - 1), form="spread")

    @cached_property
    def _factor(self) -> Tensor:
        """1/√n of the graph of each pair, [P, 1]."""
        size = take(self.topology.graph_size, self.row_graph)
        return size.clamp(min=1).double().rsqrt().unsqueeze(1)

    def transposed(self, rows: Tensor) -> Tensor:
        """The transposed matrices, [P, C] to [P, C]."""
        return sparse_apply(rows, self._transpose, self._transpose)

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        r"""The matrix product in each channel, :math:`\sum_k L_{ik} R_{kj} / \sqrt n`.

        Dividing by √n, which the original methods do not, keeps the scale when graphs grow. Memory
        of each factor: B · (largest n)² · C.

        Shapes: left, right [P, C] to [P, C].
        """
        dense = self.links.dense
        factors = (dense.spread(rows).permute(0, 3, 1, 2) for rows in (left, right))
        full = torch.matmul(*factors)  # [B, C, n, n]
        rows = dense.collect(full.permute(0, 2, 3, 1))
        return rows * self._factor.to(rows.dtype)


class PairNetwork(OwnInput):
    r"""The architecture of `SMP` for layers of order two, which read the adjacency matrix.

    .. math:: T^{(0)}[i, j, :] = [\delta_{ij},\ \delta_{ij} x_i,\ A_{ij}]

    A is the adjacency matrix. A network names its only layer in `layer_types`.

    Args:
        in_channels, out_channels, hidden_channels, num_layers: as in `SMP`.
        options: level, dropout, extractor_channels, shared_extractor, pooling, norm, residual, as
            in `SMP`; `identifiers` can be 'onehot' only.

    Shapes: x [N, in_channels] to [B, out_channels], or [N, out_channels] with level='node'.
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
    """Layers of order two see edges only in the adjacency matrix."""
    if edge_channels:
        raise InputError(f"edge_channels={edge_channels}: {name} takes no edge features.")
