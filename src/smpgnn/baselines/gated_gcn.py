"""Gated-GCN (Bresson and Laurent, 2018; Dwivedi et al., 2020) in the architecture of SMP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.baselines.carried import CarryingContext, normalize
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError
from smpgnn.layers import SMPLayer
from smpgnn.layers.norm import NoNorm, row_norm
from smpgnn.models.backbone import Backbone
from smpgnn.models.multitask import MultiTaskMPNN
from smpgnn.models.smp import MPNN

#: Added to the sum of the gates.
EPSILON = 1e-6


@dataclass(frozen=True, eq=False)
class EdgeContext(CarryingContext):
    """Node rows, and the state of every edge. Shapes: rows [N, C], edges [E, C]."""

    edges: Tensor


class GatedGCNLayer(SMPLayer):
    r"""The sum of the neighbours, weighted in each channel by gates computed from edge states.

    .. math::
        x_i' &= \text{relu}\Bigl(A x_i + \frac{\sum_{j \in N_i} \sigma(g_{ij}) \odot B x_j}
            {\sum_{j \in N_i} \sigma(g_{ij}) + 10^{-6}}\Bigr) \\
        e_{ij}' &= \text{relu}(g_{ij}), \qquad g_{ij} = C e_{ij} + D x_i + E x_j

    where all maps have biases. The first layer computes the edge states e from the edge features,
    or from 1 if there are none. (`ResGatedGraphConv` of PyTorch Geometric has no edge states and
    does not normalise the gates.) Complexity: memory m c, time m c², as C acts on edges.

    Args:
        in_channels: width of the rows.
        out_channels: width of the new rows and of the edge states.
        edge_channels: number of edge features; 0: none.
        edge_residual: add the state of an edge to its new state.

    Shapes: rows [N, in_channels] to [N, out_channels]; edge_attr [E, edge_channels].
    """

    capturable = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        edge_channels: int = 0,
        *,
        edge_residual: bool = False,
    ) -> None:
        super().__init__("sum")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.edge_channels, self.edge_residual = edge_channels, edge_residual
        self.edge_encoder: nn.Linear | None = nn.Linear(edge_channels or 1, out_channels)
        self.edge_norm: nn.Module = NoNorm()
        self.own = nn.Linear(in_channels, out_channels)  # A
        self.value = nn.Linear(in_channels, out_channels)  # B
        self.gate_edge = nn.Linear(out_channels, out_channels)  # C
        self.gate_receiver = nn.Linear(in_channels, out_channels)  # D
        self.gate_sender = nn.Linear(in_channels, out_channels)  # E

    def follow(self, norm: str | None) -> None:
        """Make this a later layer: it takes the normalised edge states of the layer before."""
        self.edge_encoder = None
        self.edge_norm = row_norm(norm, self.out_channels)

    def forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> EdgeContext:
        self.check(context, index, edge_attr)
        edges, x = index.edges, context.rows
        before = self._edges(context, index.topology.num_edges, edge_attr)
        gate = self.gate_edge(normalize(self.edge_norm, before, index.edges.layout))
        gate = gate + edges.from_receivers(self.gate_receiver(x))
        gate = gate + edges.from_senders(self.gate_sender(x))  # [E, C]
        weight = gate.sigmoid()
        total = edges.sum(weight * edges.from_senders(self.value(x)))
        rows = F.relu(self.own(x) + total / (edges.sum(weight) + EPSILON))
        states = before + F.relu(gate) if self.edge_residual else F.relu(gate)
        return EdgeContext(rows, context.layout, states)

    def _edges(self, context: LocalContext, num_edges: int, edge_attr: Tensor | None) -> Tensor:
        if self.edge_encoder is None:
            if not isinstance(context, EdgeContext):
                raise InputError("context has no edge states: this layer must follow another.")
            return context.edges
        if edge_attr is None:
            edge_attr = context.rows.new_ones(num_edges, 1)
        states: Tensor = self.edge_encoder(edge_attr)
        return states


class GatedGCN(MPNN):
    """Gated-GCN with the extractors and head of `SMP`, whose arguments it takes.

    `norm` and `residual` act on the states of edges as on rows. For ZINC, 4 layers of width 66 with
    `extractor_channels=64` and `shared_extractor=True` have about 100,000 parameters.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"gated-gcn": GatedGCNLayer}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        follow_one_another(self.backbone, "edge_residual")


class MultiTaskGatedGCN(MultiTaskMPNN):
    """Gated-GCN for several targets at once, in the architecture of `MultiTaskSMP`.

    Takes its arguments. Random identifiers: as in `MultiTaskGINE`.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"gated-gcn": GatedGCNLayer}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        follow_one_another(self.backbone, "edge_residual")


def follow_one_another(backbone: Backbone, residual: str) -> None:
    """Hand the states that a layer carries to the next one.

    They have the norm and the residual of the rows; `residual` is the layer's name for the latter.
    """
    for number, layer in enumerate(backbone.layers):
        setattr(layer, residual, backbone.options.residual)
        if number:
            layer.follow(backbone.options.norm)  # type: ignore[operator]
