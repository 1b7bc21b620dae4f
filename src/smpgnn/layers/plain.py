"""The paper's ablation: the same layers on node features instead of contexts."""

from __future__ import annotations

from typing import ClassVar

from smpgnn.layers.default import DefaultSMPLayer
from smpgnn.layers.fast import FastSMPLayer
from smpgnn.layers.set_linear import RowLinear, SetLinear


class MPNNLayer(DefaultSMPLayer):
    """The default layer with a linear map instead of the set map, for one row per node."""

    first_map: ClassVar[type[SetLinear] | type[RowLinear]] = RowLinear
    option_names: ClassVar[tuple[str, ...]] = (
        "towers",
        "message_residual",
        "update_residual",
        "divide_update",
    )


class FastMPNNLayer(FastSMPLayer):
    """The fast layer with a linear map instead of the set map, for one row per node."""

    first_map: ClassVar[type[SetLinear] | type[RowLinear]] = RowLinear
    option_names: ClassVar[tuple[str, ...]] = ("towers", "divide_update")
