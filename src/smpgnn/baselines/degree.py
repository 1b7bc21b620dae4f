"""GIN + degree: GIN with the degree of each node as a feature."""

from __future__ import annotations

from typing import Any

from torch.nn import functional as F

from smpgnn.baselines.gin import GIN
from smpgnn.baselines.inputs import InputIndex, OwnInput
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import check_counts


class DegreeGIN(OwnInput, GIN):
    r"""GIN (Xu et al., 2019) with the one-hot degree of each node among its features.

    .. math:: h_i^{(0)} = [1,\ x_i,\ \text{onehot}(\min(d_i, D))]

    d_i counts the edges that arrive at i. The network is invariant; nodes of equal degree share
    their identifier. Memory per layer Θ(n c), time Θ(m c + n c²), as GIN.

    Args:
        in_channels, out_channels, hidden_channels, num_layers: as in `SMP`.
        max_degree: D, the last class, which also stands for all larger degrees.
        options: level, dropout, extractor_channels, shared_extractor, norm, residual, as in `SMP`.

    Shapes: x [N, in_channels] to [B, out_channels], or [N, out_channels] with level='node'.
    """

    def __init__(self, in_channels: int, *args: Any, max_degree: int = 10, **options: Any) -> None:
        check_counts(max_degree=max_degree, at_least=1)
        super().__init__(in_channels, *args, own_channels=max_degree + 1, **options)
        self.max_degree = max_degree

    def extend(self, index: ContextIndex, draw: int) -> ContextIndex:
        classes = index.topology.degree.clamp(max=self.max_degree)
        return InputIndex.on(index, F.one_hot(classes, self.max_degree + 1))
