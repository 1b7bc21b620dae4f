"""GIN (Xu et al., 2019) in the architecture of SMP, for the baselines that extend its input."""

from __future__ import annotations

from typing import ClassVar

from smpgnn.baselines.gine import GINELayer
from smpgnn.errors import InputError
from smpgnn.layers import SMPLayer
from smpgnn.models.smp import MPNN


class GINLayer(GINELayer):
    """The GIN convolution, with eps 0 and a two-layer MLP.

    Shapes: rows [N, in_channels] to [N, out_channels].
    """

    def __init__(self, in_channels: int, out_channels: int, edge_channels: int = 0) -> None:
        if edge_channels:
            raise InputError(f"edge_channels={edge_channels}: GIN takes no edge features.")
        super().__init__(in_channels, out_channels)


class GIN(MPNN):
    """GIN with the extractors and head of `SMP`; only the convolution differs."""

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"gin": GINLayer}
