"""A PyTorch Geometric transform that computes identifiers once per graph, and its inverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smpgnn.contexts.caching import outside_modes
from smpgnn.contexts.coloring import coloring
from smpgnn.contexts.identifiers import identifier_scheme, onehot_identifiers
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.neighborhood import neighborhoods
from smpgnn.contexts.rows import IdentifierRows, LocalRows, NeighborhoodRows
from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError, check_counts

if TYPE_CHECKING:
    from torch_geometric.data import Data


class AddIdentifiers:
    """Compute the identifiers of a graph once instead of in every epoch.

    Use it as `pre_transform` or `transform` of a data set, or call it on a `Data`. It stores
    `identifier` [n] for 'onehot' and 'coloring', `ball_index` [2, K] (node, node it sees) for
    'neighborhood' and 'local', `context_radius` for 'local', and `identifier_radius`, the largest
    number of layers (0: any). All of these survive PyG's batching:

        model(data.x, data.edge_index, data.edge_attr, data.batch, index=context_index(data))

    Args:
        identifiers: 'onehot', 'coloring', 'neighborhood' or 'local'.
        num_layers: number of layers of the network ('coloring' and 'neighborhood').
        context_radius: radius of the contexts in hops ('local').
    """

    def __init__(
        self, identifiers: str = "onehot", num_layers: int = 1, context_radius: int = 3
    ) -> None:
        identifier_scheme(identifiers)
        check_counts(num_layers=num_layers, context_radius=context_radius, at_least=1)
        self.identifiers, self.num_layers = identifiers, num_layers
        self.context_radius = context_radius

    @outside_modes
    def __call__(self, data: Data) -> Data:
        data = data.clone()
        for stored in ("ball_index", "identifier", "context_radius"):
            if stored in data:
                del data[stored]
        topology = Topology.checked(data.edge_index, num_nodes=data.num_nodes)
        if self.identifiers == "neighborhood":
            data.ball_index = neighborhoods(topology, self.num_layers)
            data.identifier_radius = torch.tensor([self.num_layers])
        elif self.identifiers == "local":
            data.ball_index = neighborhoods(topology, self.context_radius)
            data.context_radius = torch.tensor([self.context_radius])
            data.identifier_radius = torch.tensor([0])
        elif self.identifiers == "coloring":
            data.identifier = coloring(topology, self.num_layers)
            data.identifier_radius = torch.tensor([self.num_layers])
        else:
            data.identifier = onehot_identifiers(topology)
            data.identifier_radius = torch.tensor([0])
        return data

    def __repr__(self) -> str:
        if self.identifiers == "local":
            return f"AddIdentifiers('local', context_radius={self.context_radius})"
        return f"AddIdentifiers({self.identifiers!r}, num_layers={self.num_layers})"


@outside_modes
def context_index(
    data: Any, identifiers: str | None = None, num_layers: int = 1, context_radius: int = 3
) -> ContextIndex:
    """The index of a `Data` or `Batch`, from the result of `AddIdentifiers` or computed now.

    Args:
        data: a graph or batch of PyTorch Geometric.
        identifiers: the scheme to compute; None: read the stored identifiers.
        num_layers: number of layers of the network ('coloring' and 'neighborhood').
        context_radius: radius of the contexts in hops ('local').
    """
    batch: Tensor | None = getattr(data, "batch", None)
    topology = Topology.checked(
        data.edge_index,
        batch,
        num_nodes=data.num_nodes,
        num_graphs=None if batch is None else getattr(data, "num_graphs", None),
    )
    if identifiers is not None:
        return ContextIndex.build(topology, identifiers, num_layers, context_radius)
    stored: Tensor | None = getattr(data, "identifier_radius", None)
    if stored is None:
        raise InputError(
            "data holds no identifiers: apply smpgnn.AddIdentifiers to it, or name a scheme."
        )
    if "context_radius" in data:
        hops = int(data.context_radius[0])
        if not bool((data.context_radius == hops).all()):
            raise InputError("data holds graphs with different context_radius: take one for all.")
        return ContextIndex(topology, LocalRows.build(topology, data.ball_index, hops))
    limited = stored[stored > 0]  # one-hot identifiers serve any number of layers
    radius = int(limited.min()) if limited.numel() else None
    if "ball_index" in data:
        assert radius is not None
        return ContextIndex(topology, NeighborhoodRows.build(topology, data.ball_index, radius))
    return ContextIndex(topology, IdentifierRows.build(topology, data.identifier, radius))
