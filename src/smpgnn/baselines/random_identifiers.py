"""GIN + random identifiers: GIN with a random number as a feature of each node."""

from __future__ import annotations

from typing import Any

from smpgnn.baselines.gin import GIN
from smpgnn.baselines.inputs import InputIndex, RandomInput
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import check_counts


class RandomIdentifierGIN(RandomInput, GIN):
    r"""GIN (Xu et al., 2019) with a random number among the features of each node.

    .. math:: h_i^{(0)} = [1,\ x_i,\ r_i], \quad r_i \sim \{0, \tfrac1K, \dots, \tfrac{K-1}K\}

    Every call draws new numbers, in training and in eval mode (Sato et al., 2021; Murphy et al.,
    2019). Only the distribution of the result is invariant. With a seed the numbers depend on the
    index of a node, so renaming the nodes changes the result. Memory per layer Θ(n c), time
    Θ(m c + n c²), as GIN.

    Args:
        in_channels, out_channels, hidden_channels, num_layers: as in `SMP`.
        levels: K, the number of values.
        test_draws: draws that eval mode averages.
        seed: makes eval mode reproducible and independent of the batch; None: new numbers in each
            call.
        options: level, dropout, extractor_channels, shared_extractor, norm, residual, as in `SMP`.

    Shapes: x [N, in_channels] to [B, out_channels], or [N, out_channels] with level='node'.
    """

    def __init__(
        self,
        in_channels: int,
        *args: Any,
        levels: int = 100,
        test_draws: int = 1,
        seed: int | None = None,
        **options: Any,
    ) -> None:
        check_counts(levels=levels, test_draws=test_draws, at_least=1)
        super().__init__(
            in_channels, *args, own_channels=1, test_draws=test_draws, seed=seed, **options
        )
        self.levels = levels

    def extend(self, index: ContextIndex, draw: int) -> ContextIndex:
        numbers = (self.uniform(index, draw) * self.levels).floor() / self.levels
        return InputIndex.on(index, numbers.unsqueeze(1))
