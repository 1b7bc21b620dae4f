"""Baselines that add channels of their own to the input [1, x_i], random or not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.identifiers import onehot_identifiers
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import check_counts
from smpgnn.models.smp import SMP, Reader


@dataclass(frozen=True, eq=False)
class InputIndex(ContextIndex):
    """An index whose initial rows are [1, x_i, extra]; build it from another index with `on`.

    Shape: extra [P, K].
    """

    extra: Tensor

    @classmethod
    def on(cls, base: ContextIndex, extra: Tensor) -> Self:
        return cls(base.topology, base.table, extra, given=base.given)

    def uncached(self) -> Self:
        return type(self).on(super().uncached(), self.extra)

    def initial(self, x: Tensor | None, dtype: torch.dtype, features: str = "own") -> LocalContext:
        given = super().initial(x, dtype, features).rows
        return LocalContext(torch.cat([given, self.extra.to(dtype)], dim=1), self.layout)


class OwnInput(SMP):
    """A network that gives its first layer more than the caller's [1, x_i].

    Override `extend`. Eval mode averages the results of `test_draws` calls of `extend`, for inputs
    that are random; training uses one.

    Args:
        in_channels: node features of the caller.
        own_channels: channels that `extend` adds.
        args, options: arguments of the network that this class extends.
    """

    test_draws: int = 1

    def __init__(self, in_channels: int, *args: Any, own_channels: int, **options: Any) -> None:
        check_counts(in_channels=in_channels, at_least=0)
        super().__init__(in_channels + own_channels, *args, **options)
        self.backbone.in_channels = in_channels  # what calls are checked against

    def extend(self, index: ContextIndex, draw: int) -> ContextIndex:
        """The index with the extra channels in the initial rows; `draw` is 0, 1, …."""
        raise NotImplementedError

    def forward(
        self,
        x: Tensor | None,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        num_nodes: int | None = None,
        batch_size: int | None = None,
        index: ContextIndex | None = None,
        reader: Reader | None = None,
        u: Tensor | None = None,
    ) -> Tensor:
        """One row of `out_channels` numbers per graph or node; arguments as in `SMP`."""
        index = self.backbone.checked_index(
            x, edge_index, edge_attr, batch, num_nodes, batch_size, index
        )
        topology, draws = index.topology, 1 if self.training else self.test_draws
        total: Tensor | None = None
        for draw in range(draws):
            extended = self.extend(index, draw)
            out = super().forward(
                x,
                topology.edge_index,
                edge_attr,
                topology.batch,
                index=extended,
                reader=reader,
                u=u,
            )
            total = out if total is None else total + out
        assert total is not None
        return total / draws if draws > 1 else total


class RandomInput(OwnInput):
    """A network with random input channels.

    In training, and in eval mode without a seed, every call draws new numbers from torch's
    generator. With a seed, eval mode is reproducible: the numbers depend only on the seed, the draw
    and the index of a node in its graph, not on the rest of the batch or the device.

    Args:
        test_draws: draws that eval mode averages.
        seed: of the draws in eval mode, or None.
    """

    def __init__(self, *args: Any, test_draws: int, seed: int | None, **options: Any) -> None:
        super().__init__(*args, **options)
        if seed is not None:
            check_counts(seed=seed, at_least=0)
        self.test_draws, self.seed = test_draws, seed
        self._streams: dict[int, Tensor] = {}

    def uniform(self, index: ContextIndex, draw: int) -> Tensor:
        """A number in [0, 1) for each node, [N] float64."""
        topology = index.topology
        if self.training or self.seed is None:
            return torch.rand(topology.num_nodes, dtype=torch.float64, device=topology.device)
        stream = self._stream(draw, max(1, index.graphs.largest), topology.device)
        # nodes past the largest graph are padding
        return stream[onehot_identifiers(topology).clamp(max=stream.numel() - 1)]

    def _stream(self, draw: int, count: int, device: torch.device) -> Tensor:
        """The first numbers of a draw, cached on their device."""
        kept = self._streams.get(draw)
        if kept is None or kept.numel() < count or kept.device != device:
            # A longer stream of NumPy starts with the shorter one; torch does not promise that.
            assert self.seed is not None
            numbers = np.random.default_rng([self.seed, draw]).random(count)
            kept = self._streams[draw] = torch.from_numpy(numbers).to(device)
        return kept
