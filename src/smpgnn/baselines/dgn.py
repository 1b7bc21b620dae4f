"""DGN (Beaini et al., 2020) in the architecture of SMP: aggregation along eigenvectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.baselines.directions import DirectionalFields
from smpgnn.baselines.pna import DegreeScaled, mean_log_degree, scaled_by_degree
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError
from smpgnn.layers import SMPLayer
from smpgnn.models.multitask import MultiTaskMPNN
from smpgnn.models.smp import MPNN

_NAME = re.compile(r"mean|max|min|(av|dx)([1-9]\d*)")


class DGNLayer(SMPLayer):
    r"""Averages and derivatives of messages along the lowest eigenvectors of the Laplacian.

    .. math::
        x_i' = \text{relu}\Bigl(W\, \bigl[x_i, \{s(d_i)\, \phi_i\}_{s \in S, \phi \in \Phi}\bigr]
            \Bigr), \quad m_{ij} = W_m [x_i, x_j, y_{ij}]

    with the scalers 1, :math:`\log(d_i + 1)/\delta`, :math:`\delta/\log(d_i + 1)` of PNA, and as
    aggregators φ the mean (also max, min) of the messages and, for direction k,

    .. math::
        \text{av}_k = \sum_{j \in N_i} |\hat F^k_{ij}|\, m_{ij}, \qquad
        \text{dx}_k = \Bigl|\sum_{j \in N_i} \hat F^k_{ij} m_{ij}
            - \Bigl(\sum_{j \in N_i} \hat F^k_{ij}\Bigr) x_i\Bigr|, \qquad
        \hat F^k_{ij} = \frac{\varphi^k_j - \varphi^k_i}{\sum_l |\varphi^k_l - \varphi^k_i| + ε}

    The absolute values make the result independent of the sign of an eigenvector φ. See
    `directional_fields` for eigenvectors that are not unique, and for the cost of finding them.
    Complexity: memory m c + 9 n c (3 aggregators times 3 scalers), time m c + 9 n c².

    Args:
        in_channels: width of the rows.
        out_channels: width of the new rows.
        edge_channels: number of edge features :math:`y_{ij}`; 0: none.
        aggregators: of 'mean', 'max', 'min', 'av1', 'dx1', 'av2', 'dx2', …; by default those of the
            authors for ZINC.
        degrees: how many nodes of the training set have degree 0, 1, 2, …, as in `PNALayer`.

    Shapes: rows [N, in_channels] to [N, out_channels]; edge_attr [E, edge_channels].
    """

    capturable = True

    structure: DirectionalFields
    mean_log_degree: Tensor

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        edge_channels: int = 0,
        *,
        aggregators: Sequence[str] = ("mean", "dx1", "av1"),
        degrees: Sequence[int] | Tensor | None = None,
    ) -> None:
        super().__init__("sum")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.edge_channels = edge_channels
        self.aggregators = tuple(aggregators)
        directions = [_direction(name) for name in self.aggregators]
        self.structure = DirectionalFields(max(directions, default=0))
        self.message_receiver = nn.Linear(in_channels, in_channels)
        self.message_sender = nn.Linear(in_channels, in_channels, bias=False)
        self.message_edge = (
            nn.Linear(edge_channels, in_channels, bias=False) if edge_channels else None
        )
        self.out = nn.Linear((1 + 3 * len(self.aggregators)) * in_channels, out_channels)
        self.register_buffer("mean_log_degree", torch.tensor(mean_log_degree(degrees)))

    def set_degrees(self, degrees: Sequence[int] | Tensor) -> None:
        """Take δ from this histogram of degrees."""
        self.mean_log_degree.fill_(mean_log_degree(degrees))

    def forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> LocalContext:
        self.check(context, index, edge_attr)
        edges, x = index.edges, context.rows
        message = edges.from_receivers(self.message_receiver(x))
        message = message + edges.from_senders(self.message_sender(x))
        if self.message_edge is not None:
            message = message + self.message_edge(edge_attr)
        found = [self._aggregate(name, message, x, index) for name in self.aggregators]
        scaled = scaled_by_degree(torch.cat(found, 1), index.topology, self.mean_log_degree)
        rows = self.out(torch.cat([x, scaled], 1))
        return context.with_rows(F.relu(rows))

    def _aggregate(self, name: str, message: Tensor, x: Tensor, index: ContextIndex) -> Tensor:
        """The messages aggregated in the way of this name, [E, C] to [N, C]."""
        edges, number = index.edges, _direction(name)
        if name == "mean":
            return edges.sum(message) / index.topology.degree.clamp(min=1).unsqueeze(1)
        if name == "max":
            return edges.max(message)
        if name == "min":
            return -edges.max(-message)
        field = index.topology.find(self.structure)[:, number - 1, None].to(message.dtype)  # [E, 1]
        if name.startswith("av"):
            return edges.sum(field.abs() * message)
        return (edges.sum(field * message) - edges.sum(field) * x).abs()


class DGN(DegreeScaled, MPNN):
    """DGN with the extractors and head of `SMP`.

    Takes its arguments, `aggregators` and `degrees`. For ZINC, 4 layers of width 44 with
    `extractor_channels=64` and `shared_extractor=True` have about 100,000 parameters.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"dgn": DGNLayer}


class MultiTaskDGN(DegreeScaled, MultiTaskMPNN):
    """DGN for several targets at once, in the architecture of `MultiTaskSMP`.

    Takes its arguments, `aggregators` and `degrees`. Random identifiers: as in `MultiTaskGINE`.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"dgn": DGNLayer}


def _direction(name: str) -> int:
    """Which eigenvector an aggregator needs: 1, 2, …; 0 for none."""
    match = _NAME.fullmatch(name)
    if match is None:
        raise InputError(
            f"aggregators: {name!r} is none of 'mean', 'max', 'min', 'av1', 'dx1', 'av2', …."
        )
    return int(match[2] or 0)
