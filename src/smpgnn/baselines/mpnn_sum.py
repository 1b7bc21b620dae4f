"""MPNN (sum) of the graph-properties benchmark (Gilmer et al., 2017; Corso et al., 2020)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from smpgnn.baselines.pna import PNALayer
from smpgnn.contexts.index import ContextIndex
from smpgnn.layers import SMPLayer
from smpgnn.models.multitask import MultiTaskMPNN
from smpgnn.models.smp import MPNN


class MPNNSumLayer(PNALayer):
    r"""MLPs in message and update, and the sum of the messages.

    .. math::
        x_i' = \text{relu}\Bigl(W\, \text{MLP}\bigl[x_i, \textstyle\sum_{j \in N_i} m_{ij}\bigr]
            \Bigr), \quad m_{ij} = \text{MLP}[x_i, x_j, W_e y_{ij}]

    As in the benchmark, this is the PNA layer with the sum as its only aggregator and 1 as its only
    scaler. Each MLP has two layers here; with one, the messages would be linear. Complexity: memory
    m c, time m c².

    Args, Shapes: as `PNALayer`; `degrees` has no effect.
    """

    aggregators: ClassVar[tuple[str, ...]] = ("sum",)
    scalers: ClassVar[tuple[str, ...]] = ("identity",)
    depth: ClassVar[int] = 2

    def reduce(self, message: Tensor, index: ContextIndex) -> Tensor:
        """The sum of the messages, [E, C] to [N, C]."""
        total: Tensor = index.edges.sum(message)
        return total


class MPNNSum(MPNN):
    """MPNN (sum) with the extractors and head of `SMP`, whose arguments it takes."""

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"mpnn-sum": MPNNSumLayer}


class MultiTaskMPNNSum(MultiTaskMPNN):
    """MPNN (sum) for several targets at once, in the architecture of `MultiTaskSMP`.

    Takes its arguments. Random identifiers: as in `MultiTaskGINE`.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"mpnn-sum": MPNNSumLayer}
