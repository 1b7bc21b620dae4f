"""How to call a layer of one row a node by itself, and what a plain loop needs to compare it."""

from __future__ import annotations

from typing import Any

from strategies import Case, Structure, make_case, undirected
from torch import Tensor

from smpgnn import ContextIndex, LocalContext
from smpgnn.layers import SMPLayer

#: Two triangles with a bond between them, a tail, and a node by itself.
BARBELL: Structure = undirected(8, [(0, 1), (1, 2), (0, 2), (2, 3), (3, 4), (4, 5), (3, 5), (5, 6)])
#: Asymmetric, with a loop, a double edge and a one-way edge.
ODDITIES: Structure = (5, ((0, 1), (1, 0), (1, 2), (1, 2), (3, 3), (2, 3), (3, 2), (0, 2)))


def both(edge_channels: int = 0, seed: int = 0) -> Case:
    """A batch of the two graphs above, with node rows of width 3."""
    return make_case([BARBELL, ODDITIES], 3, edge_channels, seed)


def of_nodes(case: Case) -> tuple[ContextIndex, LocalContext]:
    """One row a node, with the node features of the case as rows."""
    index = ContextIndex.of_nodes(case.topology)
    assert case.x is not None
    return index, LocalContext(case.x, index.layout)


def call_layer(layer: SMPLayer, case: Case) -> Tensor:
    index, context = of_nodes(case)
    rows: Tensor = layer(context, index, case.edge_attr).rows
    return rows


def call_convolution(layer: Any, case: Case) -> Tensor:
    """What PyTorch Geometric makes of the same weights; it scatters messages edge by edge."""
    edges = () if case.edge_attr is None else (case.edge_attr,)
    rows: Tensor = layer.conv(case.x, case.edge_index, *edges)
    return rows


def arriving(case: Case, node: int) -> list[tuple[int, int]]:
    """The edges that arrive at a node: (number of the edge, sender)."""
    sender, receiver = case.edge_index.tolist()
    return [(e, sender[e]) for e in range(len(sender)) if receiver[e] == node]


def edge_feature(case: Case, edge: int) -> Tensor:
    assert case.edge_attr is not None
    return case.edge_attr[edge]
