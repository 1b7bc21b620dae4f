"""Ring-GNN: sums and products of all linear equivariant maps on pairs of nodes."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.baselines.pairs import PairIndex, PairNetwork, refuse_edge_features
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.layers import SMPLayer
from smpgnn.ops import expand_rows


class PairLinear(nn.Module):
    r"""Every linear equivariant map of n × n matrices with channels (Maron et al., 2019).

    .. math:: L(T)[i, j, :] = \sum_{b=1}^{15} E_b(T)[i, j, :]\, W_b + c + \delta_{ij} c'

    The 15 operations E_b, in the order of W_b, with means in place of sums: T_ij; T_ji; the
    diagonal entry, row mean and column mean of i; those of j; those of i, on the diagonal only; the
    mean of all entries and of the diagonal, everywhere; the same, on the diagonal only. Only the
    first two are products with n² rows; the others are computed for nodes and graphs and broadcast.

    The weights of the first two start random, the others at 0. If all start alike, the broadcast
    values dominate every matrix product of a fresh network, since they add up over its n terms
    (`benchmarks/ring_gnn.py`).

    Args:
        in_channels: width of the pairs.
        out_channels: width of the new pairs.

    Shapes: rows [P, in_channels] to [P, out_channels]; weight [15, in, out]; bias [2, out].
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(15, in_channels, out_channels))
        self.bias = nn.Parameter(torch.empty(2, out_channels))  # everywhere, on the diagonal
        self.reset_parameters()

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(max(1, 15 * self.weight.size(1)))
        nn.init.uniform_(self.weight[:2], -bound, bound)
        nn.init.zeros_(self.weight[2:])
        nn.init.zeros_(self.bias)

    def forward(self, context: LocalContext, pairs: PairIndex) -> Tensor:
        t = context.rows
        own, row = context.own(), context.mean()
        crossed = pairs.transposed(t)
        column = context.with_rows(crossed).mean()
        nodes = torch.cat([own, row, column], dim=1)  # [N, 3 in]
        graphs = torch.cat([pairs.graphs.mean(row), pairs.graphs.mean(own)], dim=1)  # [B, 2 in]
        width = self.weight.size(2)
        of_i, of_j, diagonal = nodes @ self.weight[2:11].reshape(3, -1, width)  # each [N, out]
        everywhere, on_diagonal = (
            graphs @ self.weight[11:].reshape(2, -1, width) + self.bias[:, None]
        )  # each [B, out]
        of_i = of_i + expand_rows(everywhere, *pairs.graphs.matrices)
        diagonal = diagonal + expand_rows(on_diagonal, *pairs.graphs.matrices)
        total = context.expand(of_i) + t @ self.weight[0]
        total = total + pairs.transposed(context.expand(of_j) + t @ self.weight[1])
        return total.index_add(0, context.layout.own, diagonal.to(total.dtype))


class RingGNNLayer(SMPLayer):
    r"""A layer of Ring-GNN (Chen et al., 2019).

    .. math:: T' = k_1\, \rho\bigl(L_1(T)\bigr) + k_2\, \rho\bigl(L_2(T)\,@\,L_3(T) / \sqrt n\bigr)

    L are linear equivariant maps (`PairLinear`), @ is the matrix product in each channel, ρ the
    relu, k_1 and k_2 learned numbers that start at 1 and 0.1; √n is ours.
    Memory Θ(n² c), time Θ(n³ c + n² c²).

    Args:
        in_channels: width of the pairs.
        out_channels: width of the new pairs.

    Shapes: rows [P, in_channels] to [P, out_channels], P the number of pairs (i, j).
    """

    capturable = True

    def __init__(self, in_channels: int, out_channels: int, edge_channels: int = 0) -> None:
        super().__init__("sum")
        refuse_edge_features("Ring-GNN", edge_channels)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.maps = PairLinear(in_channels, 3 * out_channels)  # L_1, L_2, L_3 side by side
        self.k = nn.Parameter(torch.tensor([1.0, 0.1]))

    def forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> LocalContext:
        self.check(context, index, edge_attr)
        pairs = PairIndex.of(index)
        first, second, third = self.maps(context, pairs).chunk(3, dim=1)
        product = F.relu(pairs.product(second, third))
        return context.with_rows(self.k[0] * F.relu(first) + self.k[1] * product)


class RingGNN(PairNetwork):
    """Ring-GNN (Chen et al., 2019) with the extractors and head of `SMP`: see `PairNetwork`."""

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"ring": RingGNNLayer}
