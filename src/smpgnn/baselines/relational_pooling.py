"""Relational pooling: GIN on permuted one-hot identifiers, averaged over permutations."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from smpgnn.baselines.gin import GIN
from smpgnn.baselines.inputs import InputIndex, RandomInput
from smpgnn.contexts.identifiers import onehot_identifiers
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError, check_counts


class RelationalPooling(RandomInput, GIN):
    r"""Relational pooling (Murphy et al., 2019) of a GIN with one-hot identifiers.

    .. math:: \bar f(G) = \mathbb E_\pi f(G, \pi), \quad
              h_i^{(0)} = [1,\ x_i,\ \text{onehot}(\pi(i))]

    π is a uniform permutation of the nodes of each graph. Training draws one per call (π-SGD), eval
    mode averages `permutations` draws. Only the limit of many draws is invariant. Memory per layer
    Θ(n c), time Θ(m c + n c²), as GIN, with `max_nodes` more channels in the first layer; eval mode
    takes the time of `permutations` calls.

    Args:
        in_channels, out_channels, hidden_channels, num_layers: as in `SMP`.
        max_nodes: nodes of the largest graph: the width of the one-hot identifiers.
        permutations: draws that eval mode averages.
        seed: makes eval mode reproducible and independent of the batch; None: new permutations in
            each call.
        options: level, dropout, extractor_channels, shared_extractor, norm, residual, as in `SMP`.

    Shapes: x [N, in_channels] to [B, out_channels], or [N, out_channels] with level='node'.
    """

    def __init__(
        self,
        in_channels: int,
        *args: Any,
        max_nodes: int,
        permutations: int = 16,
        seed: int | None = 0,
        **options: Any,
    ) -> None:
        check_counts(max_nodes=max_nodes, permutations=permutations, at_least=1)
        super().__init__(
            in_channels,
            *args,
            own_channels=max_nodes,
            test_draws=permutations,
            seed=seed,
            **options,
        )
        self.max_nodes = max_nodes

    def extend(self, index: ContextIndex, draw: int) -> ContextIndex:
        number = torch.arange(self.max_nodes, device=index.topology.device)
        return InputIndex.on(index, self.permutation(index, draw).unsqueeze(1) == number)

    def permutation(self, index: ContextIndex, draw: int) -> Tensor:
        """π(i) of each node, in 0, …, n − 1 of its graph, [N]."""
        topology = index.topology
        rank = onehot_identifiers(topology)
        if index.graphs.largest > self.max_nodes:
            raise InputError(
                f"A graph has {index.graphs.largest} nodes, but max_nodes is {self.max_nodes}: "
                "make the network for the largest graph."
            )
        order = torch.argsort(self.uniform(index, draw))
        order = order[torch.argsort(topology.batch[order], stable=True)]  # sorted by graph again
        return torch.empty_like(rank).index_copy_(0, order, rank)
