"""What the baselines of order two share: a matrix for each graph, laid out as one-hot contexts.

T[i, j] is the row of node j in the context of node i, so a batch holds the n² pairs of each graph
and nothing else: perceptrons, means and norms meet no padding. Only the factors of a matrix product
are padded, with zeros, which add nothing to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from smpgnn.baselines.inputs import InputIndex, OwnInput
from smpgnn.contexts.caching import cached_property, outside_modes
from smpgnn.contexts.identifiers import onehot_identifiers
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.rows import IdentifierRows
from smpgnn.contexts.topology import take
from smpgnn.errors import InputError
from smpgnn.ops.backend import fused, transformed


class PairIndex(InputIndex):
    """One-hot contexts as matrices; the extra channel of the initial rows is the adjacency matrix.

    A[i, j] counts the edges from j to i. Build it with `PairIndex.of`. Rows that no context owns
    (padding of a batch of fixed size) are pairs of nobody, and lie somewhere past the last graph.
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
            index.layout.padded or torch.equal(table.identifier, rank)
        )
        if not fits:
            raise InputError("index must hold one-hot identifiers: networks of order two need all.")
        at = take(table.ptr, topology.receiver) + take(rank, topology.sender)
        adjacency = torch.zeros(table.num_rows, 1, device=topology.device)
        ones = torch.ones(topology.num_edges, 1, device=topology.device)
        adjacency.index_add_(0, at.clamp(max=table.num_rows - 1), ones)
        return cls.on(index, adjacency)

    @cached_property
    def _places(self) -> tuple[Tensor, Tensor]:
        """The places of i and j in their graph for each pair, both [P]."""
        owner = self.table.owner
        second = torch.arange(self.num_rows, device=owner.device) - take(self.table.ptr, owner)
        return take(onehot_identifiers(self.topology), owner), second

    @cached_property
    def _second(self) -> Tensor:
        """The node j of each pair (i, j), [P]."""
        second = take(self.topology.graph_ptr, self.row_graph) + self._places[1]
        return second.clamp(max=self.topology.num_nodes - 1)

    @cached_property
    def _transpose(self) -> Tensor:
        """Where the pair (j, i) lies, for each pair (i, j), [P]."""
        at = take(self.table.ptr, self._second) + self._places[0]
        return at.clamp(max=self.num_rows - 1)

    @cached_property
    def _squares(self) -> _Squares:
        topology = self.topology
        spare = 1 if self.layout.padded else 0  # the last graph of a padded batch is nobody's
        # tensor cores want sizes that eight divides
        size = 8 * -(-self.largest // 8)
        return _Squares(self.table.ptr, topology.graph_ptr, self.num_rows, size, spare)

    def transposed(self, rows: Tensor) -> Tensor:
        """The transposed matrices, [P, C] to [P, C]."""
        if transformed():
            return rows.index_select(0, self._transpose)
        swapped: Tensor = _Transposed.apply(rows, self._transpose)  # type: ignore[no-untyped-call]
        return swapped

    def expand_second(self, values: Tensor) -> Tensor:
        """The value of node j for each pair (i, j), [N, C] to [P, C]."""
        if transformed():
            return values.index_select(0, self._second)
        rows: Tensor = _ExpandSecond.apply(values, self._second, self._squares)  # type: ignore[no-untyped-call]
        return rows

    def product(self, left: Tensor, right: Tensor) -> Tensor:
        r"""The matrix product in each channel, :math:`\sum_k L_{ik} R_{kj} / \sqrt n`.

        Dividing by √n, which the original methods do not, keeps the scale when graphs grow.

        Shapes: left, right [P, C] to [P, C]; takes memory of B · (largest n)² · C a factor.
        """
        squares = self._squares
        full = torch.matmul(_spread(left, squares, False), _spread(right, squares, False))
        return _collected(full, squares, True)


@dataclass(frozen=True, eq=False)
class _Squares:
    """Where pairs lie in a tensor [B, C, n, n], n = `size`, and which graphs are padding."""

    ptr: Tensor
    graph_ptr: Tensor
    num_rows: int
    size: int
    spare: int

    @property
    def real(self) -> int:
        return self.graph_ptr.numel() - 1 - self.spare

    @cached_property
    def _rows(self) -> tuple[Tensor, Tensor]:
        """The row of each entry and whether it has one, both [B, n, n]."""
        node = torch.arange(self.size, device=self.ptr.device)
        there = node < self.graph_ptr.diff()[:, None]  # [B, n]
        there[self.real :] = False
        first = self.ptr[torch.where(there, self.graph_ptr[:-1, None] + node, 0)]
        owned = there[:, :, None] & there[:, None, :]
        return torch.where(owned, first[:, :, None] + node, 0), owned

    @cached_property
    def _factor(self) -> Tensor:
        """1/√n of each graph, [B, 1, 1, 1]."""
        return self.graph_ptr.diff().clamp(min=1).double().rsqrt()[:, None, None, None]

    def spread(self, rows: Tensor, scaled: bool) -> Tensor:
        """Rows [P, C] as [B, C, n, n], zeros around; `scaled`: divided by √n."""
        if fused(rows):
            from smpgnn.baselines import pairs_kernel

            full: Tensor = pairs_kernel.squares(
                rows, self.ptr, self.graph_ptr, self.size, self.real, scaled
            )
            return full
        place, owned = self._rows
        if rows.size(0) == 0:
            return rows.new_zeros(owned.size(0), rows.size(1), self.size, self.size)
        full = rows[place].masked_fill(~owned.unsqueeze(3), 0.0).permute(0, 3, 1, 2)
        return full * self._factor.to(full.dtype) if scaled else full

    def column_sums(self, rows: Tensor, second: Tensor, num_nodes: int) -> Tensor:
        """The sum of the rows (i, j) over i for each node j, [P, C] to [N, C]."""
        if fused(rows):
            from smpgnn.baselines import pairs_kernel

            where = (self.ptr, self.graph_ptr, num_nodes, self.size, self.real)
            sums: Tensor = pairs_kernel.column_sums(rows, *where)
            return sums
        return rows.new_zeros(num_nodes, rows.size(1)).index_add_(0, second, rows)

    def collect(self, full: Tensor, scaled: bool) -> Tensor:
        """The rows in squares, [B, C, n, n] to [P, C]; zeros where a row is of no graph."""
        if fused(full):
            from smpgnn.baselines import pairs_kernel

            rows: Tensor = pairs_kernel.pairs(
                full, self.ptr, self.graph_ptr, self.num_rows, self.real, scaled
            )
            return rows
        place, owned = self._rows
        full = full * self._factor.to(full.dtype) if scaled else full
        rows = full.new_zeros(self.num_rows, full.size(1))
        return rows.index_put((place[owned],), full.permute(0, 2, 3, 1)[owned])


class _Spread(Function):
    """`_Squares.spread`, whose gradient is `collect`."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, squares: _Squares, scaled: bool) -> Tensor:
        ctx.squares, ctx.scaled = squares, scaled
        return squares.spread(rows, scaled)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _collected(grad, ctx.squares, ctx.scaled), None, None


class _Collected(Function):
    """`_Squares.collect`, whose gradient is `spread`."""

    @staticmethod
    def forward(ctx: Any, full: Tensor, squares: _Squares, scaled: bool) -> Tensor:
        ctx.squares, ctx.scaled = squares, scaled
        return squares.collect(full, scaled)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return _spread(grad, ctx.squares, ctx.scaled), None, None


class _ExpandSecond(Function):
    """Values of nodes for the pairs in which they are second; the gradient sums columns."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, second: Tensor, squares: _Squares) -> Tensor:
        ctx.second, ctx.squares, ctx.num_nodes = second, squares, values.size(0)
        return values.index_select(0, second)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        if torch.is_grad_enabled():
            sums = grad.new_zeros(ctx.num_nodes, grad.size(1))
            return sums.index_add(0, ctx.second, grad), None, None
        return ctx.squares.column_sums(grad, ctx.second, ctx.num_nodes), None, None


class _Transposed(Function):
    """Pairs with i and j exchanged, which undoes itself."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, transpose: Tensor) -> Tensor:
        ctx.transpose = transpose
        return rows.index_select(0, transpose)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        back: Tensor = _Transposed.apply(grad, ctx.transpose)  # type: ignore[no-untyped-call]
        return back, None


def _spread(rows: Tensor, squares: _Squares, scaled: bool) -> Tensor:
    if transformed():
        return squares.spread(rows, scaled)
    full: Tensor = _Spread.apply(rows, squares, scaled)  # type: ignore[no-untyped-call]
    return full


def _collected(full: Tensor, squares: _Squares, scaled: bool) -> Tensor:
    if transformed():
        return squares.collect(full, scaled)
    rows: Tensor = _Collected.apply(full, squares, scaled)  # type: ignore[no-untyped-call]
    return rows


class PairNetwork(OwnInput):
    r"""The frame of `SMP` for layers of order two, with the adjacency matrix as part of the input.

    .. math:: T^{(0)}[i, j, :] = [\delta_{ij},\ \delta_{ij} x_i,\ A_{ij}]

    A is the adjacency matrix; padding enters no product, mean or norm. A network names its only
    layer in `layer_types`.

    Args:
        in_channels, out_channels, hidden_channels, num_layers: as in `SMP`.
        options: level, dropout, extractor_channels, shared_extractor, pooling, norm, residual, as
            in `SMP`; `identifiers` can be 'onehot' only.

    Shapes: x [N, in_channels] to [B, out_channels], or [N, out_channels] with level='node'.
    """

    def __init__(self, in_channels: int, *args: Any, **options: Any) -> None:
        (layer,) = self.layer_types
        super().__init__(in_channels, *args, own_channels=1, **{"layer": layer, **options})
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
