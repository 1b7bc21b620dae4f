"""PPGN: provably powerful graph networks, with matrix products over pairs of nodes."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from smpgnn.baselines.pairs import PairIndex, PairNetwork, refuse_edge_features
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.layers import SMPLayer


class PPGNLayer(SMPLayer):
    r"""A block of PPGN (Maron et al., 2019).

    .. math:: T' = m_4\bigl([\,m_1(T)\,@\,m_2(T) / \sqrt n,\ T\,]\bigr)

    m_k are two-layer MLPs on each pair and @ is the matrix product in each channel. √n is ours; the
    m_3 of the paper is the identity, as in the authors' code. Memory Θ(n² c), time
    Θ(n³ c + n² c²).

    Args:
        in_channels: width of the pairs.
        out_channels: width of the new pairs.

    Shapes: rows [P, in_channels] to [P, out_channels], P the number of pairs (i, j).
    """

    capturable = True

    def __init__(self, in_channels: int, out_channels: int, edge_channels: int = 0) -> None:
        super().__init__("sum")
        refuse_edge_features("PPGN", edge_channels)
        self.in_channels, self.out_channels = in_channels, out_channels
        self.m1 = _mlp(in_channels, out_channels)
        self.m2 = _mlp(in_channels, out_channels)
        self.m4 = _mlp(out_channels + in_channels, out_channels)

    def forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> LocalContext:
        self.check(context, index, edge_attr)
        t, pairs = context.rows, PairIndex.of(index)
        product = pairs.product(self.m1(t), self.m2(t))
        return context.with_rows(self.m4(torch.cat([product, t], dim=1)))


class PPGN(PairNetwork):
    """PPGN (Maron et al., 2019) with the extractors and head of `SMP`: see `PairNetwork`."""

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"ppgn": PPGNLayer}


def _mlp(in_channels: int, out_channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(in_channels, out_channels), nn.ReLU(), nn.Linear(out_channels, out_channels)
    )
