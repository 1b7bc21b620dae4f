"""PNA (Corso et al., 2020) in the architecture of SMP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError
from smpgnn.layers import SMPLayer
from smpgnn.models.backbone import Backbone
from smpgnn.models.multitask import MultiTaskMPNN
from smpgnn.models.smp import MPNN

AGGREGATORS = ("mean", "min", "max", "std")
SCALERS = ("identity", "amplification", "attenuation")
#: Variances up to this count as zero, as in PyTorch Geometric.
LEAST_VARIANCE = 1e-5
#: All nodes have two neighbours, about as in molecules.
DEFAULT_DEGREES = (0, 0, 1)


class PNALayer(SMPLayer):
    r"""Several aggregations of the messages, each scaled in several ways by the degree.

    .. math::
        x_i' = \text{relu}\Bigl(W\, \bigl[x_i, \{s(d_i)\, \phi(\{m_{ij}\}_{j \in N_i})\}
            _{s \in S, \phi \in \Phi}\bigr]\Bigr), \quad m_{ij} = W_m [x_i, x_j, W_e y_{ij}]

    with the aggregators mean, min, max and standard deviation and the scalers 1,
    :math:`\log(d_i + 1)/\delta` and :math:`\delta/\log(d_i + 1)`, where δ is the mean of
    :math:`\log(d + 1)` over the nodes of the training set, a buffer that is saved with the weights.
    Weights and results are those of PyTorch Geometric's `PNAConv` with one tower. Complexity:
    memory m c + 12 n c (4 aggregators times 3 scalers), time m c² + 12 n c².

    Args:
        in_channels: width of the rows.
        out_channels: width of the new rows.
        edge_channels: number of edge features :math:`y_{ij}`; 0: none.
        degrees: how many nodes of the training set have degree 0, 1, 2, …, which determines δ; all
            have degree 2 by default.

    Shapes: rows [N, in_channels] to [N, out_channels]; edge_attr [E, edge_channels].
    """

    capturable = True

    aggregators: ClassVar[tuple[str, ...]] = AGGREGATORS
    scalers: ClassVar[tuple[str, ...]] = SCALERS
    #: Linear maps in the message and in the update.
    depth: ClassVar[int] = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        edge_channels: int = 0,
        *,
        degrees: Sequence[int] | Tensor | None = None,
    ) -> None:
        super().__init__("sum")
        from torch_geometric.nn import PNAConv

        self.in_channels, self.out_channels = in_channels, out_channels
        self.edge_channels = edge_channels
        self.conv = PNAConv(
            in_channels,
            out_channels,
            list(self.aggregators),
            list(self.scalers),
            checked_degrees(degrees),
            edge_dim=edge_channels or None,
            pre_layers=self.depth,
            post_layers=self.depth,
        )

    def set_degrees(self, degrees: Sequence[int] | Tensor) -> None:
        """Take δ from this histogram of degrees."""
        averages = self.conv.aggr_module
        histogram = checked_degrees(degrees).double()
        number = torch.arange(histogram.numel(), dtype=torch.double)
        averages.avg_deg_lin.fill_(float((number * histogram).sum() / histogram.sum()))
        averages.avg_deg_log.fill_(mean_log_degree(degrees))

    def forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> LocalContext:
        self.check(context, index, edge_attr)
        # No autocast: in bfloat16 the variance mean(m²) − mean(m)² would be lost.
        conv, edges = self.conv, index.edges
        with torch.autocast(context.rows.device.type, enabled=False):
            x = context.rows.to(conv.lin.weight.dtype)
            ends = [edges.from_receivers(x), edges.from_senders(x)]
            if edge_attr is not None:
                ends.append(conv.edge_encoder(edge_attr.to(x.dtype)))
            arrived = self.reduce(conv.pre_nns[0](torch.cat(ends, 1)), index)
            rows = conv.lin(conv.post_nns[0](torch.cat([x, arrived], 1)))
        return context.with_rows(F.relu(rows))

    def reduce(self, message: Tensor, index: ContextIndex) -> Tensor:
        """All aggregators with the first scaler, then with the others: [E, C] to [N, 12 C]."""
        edges, degree = index.edges, index.topology.degree.clamp(min=1).unsqueeze(1)
        mean, squares = (edges.sum(m) / degree for m in (message, message.square()))
        variance = (squares - mean.square()).clamp(min=LEAST_VARIANCE)
        std = torch.where(variance > LEAST_VARIANCE, variance.sqrt(), 0.0)
        found = torch.cat([mean, -edges.max(-message), edges.max(message), std], 1)
        return scaled_by_degree(found, index.topology, self.conv.aggr_module.avg_deg_log)


class DegreeScaled:
    """A network whose layers scale by the degrees of the training set."""

    backbone: Backbone

    def set_degrees(self, degrees: Sequence[int] | Tensor) -> None:
        """Take δ from the degrees of the training set (`degree_histogram`)."""
        for layer in self.backbone.layers:
            layer.set_degrees(degrees)  # type: ignore[operator]


class PNA(DegreeScaled, MPNN):
    """PNA with the extractors and head of `SMP`, whose arguments it takes, and `degrees`.

    For ZINC, 4 layers of width 36 with `extractor_channels=64` and `shared_extractor=True` have
    about 100,000 parameters.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"pna": PNALayer}


class MultiTaskPNA(DegreeScaled, MultiTaskMPNN):
    """PNA for several targets at once, in the architecture of `MultiTaskSMP`.

    Takes its arguments, and `degrees`. Random identifiers: as in `MultiTaskGINE`.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"pna": PNALayer}


def scaled_by_degree(found: Tensor, topology: Topology, delta: Tensor) -> Tensor:
    """Aggregated values times the scalers 1, log(d + 1)/δ and δ/log(d + 1), [N, K] to [N, 3 K].

    Nodes without neighbours have zeros; any finite scaler will do for them.
    """
    log = (topology.degree.clamp(min=1) + 1).to(found.dtype).log().unsqueeze(1)
    return torch.cat([found, found * (log / delta), found * (delta / log)], 1)


def degree_histogram(edge_index: Tensor, num_nodes: int) -> Tensor:
    """How many nodes receive 0, 1, 2, … messages: edge_index [2, E] to [largest degree + 1]."""
    return torch.bincount(torch.bincount(edge_index[1], minlength=num_nodes))


def mean_log_degree(degrees: Sequence[int] | Tensor | None) -> float:
    """δ, the mean of log(d + 1), from how many nodes have degree d = 0, 1, 2, …."""
    histogram = checked_degrees(degrees).double()
    logs = torch.arange(1, histogram.numel() + 1, dtype=torch.double, device="cpu").log()
    return float((logs * histogram).sum() / histogram.sum())


def checked_degrees(degrees: Sequence[int] | Tensor | None) -> Tensor:
    """A histogram of degrees as a tensor; refused if all nodes are isolated, as δ would be 0."""
    histogram = torch.as_tensor(DEFAULT_DEGREES if degrees is None else degrees, device="cpu")
    bad = histogram.dim() != 1 or bool((histogram < 0).any()) or not bool(histogram[1:].any())
    if bad:
        raise InputError(
            "degrees must say how many training nodes have degree 0, 1, 2, …, "
            "with at least one node above 0."
        )
    return histogram
