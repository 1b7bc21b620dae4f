"""A PyTorch Geometric transform that computes identifiers once per graph, and its inverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smpgnn.config.network import NetworkOptions
from smpgnn.contexts.caching import outside_modes
from smpgnn.contexts.coloring import coloring
from smpgnn.contexts.first_rows import FirstRows
from smpgnn.contexts.identifiers import identifier_scheme, onehot_identifiers
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.neighborhood import neighborhoods
from smpgnn.contexts.pairs import PairRows
from smpgnn.contexts.rows import IdentifierRows, LocalRows, NeighborhoodRows, RowTable
from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError, check_counts

if TYPE_CHECKING:
    from torch_geometric.data import Data


class AddIdentifiers:
    """Compute the identifiers of a graph once instead of in every epoch.

    Use it as `pre_transform` or `transform` of a data set, or call it on a `Data`. It stores
    `identifier` [n] for 'onehot' and 'coloring', `ball_index` [2, K] (node, node it sees) for
    'neighborhood', 'local' and 'pairs', `context_radius` for the last two, `mark_index` [2, Q]
    (pairs of nodes) and `pair_distance` for 'pairs', and `identifier_radius`, the largest number of
    layers (0: any). With `first_rows` it also stores the fixed channels of the initial rows,
    `row_features` [P, D], and their numbers of hops and steps. All of these survive PyG's batching:

        model(data.x, data.edge_index, data.edge_attr, data.batch, index=context_index(data))

    Args:
        identifiers: 'onehot', 'coloring', 'neighborhood', 'local' or 'pairs'.
        num_layers: number of layers of the network ('coloring' and 'neighborhood').
        context_radius: radius of the contexts in hops ('local', 'pairs' and first_rows 'distance').
        pair_distance: hops between the two nodes of a row ('pairs').
        first_rows: those of the network, of which 'distance' and 'walks' are stored.
        walk_steps: steps of the random walks (first_rows 'walks').
    """

    def __init__(
        self,
        identifiers: str = "onehot",
        num_layers: int = 1,
        context_radius: int = 3,
        pair_distance: int = 1,
        first_rows: Sequence[str] = (),
        walk_steps: int = 16,
    ) -> None:
        identifier_scheme(identifiers)
        check_counts(num_layers=num_layers, context_radius=context_radius, at_least=1)
        check_counts(pair_distance=pair_distance, at_least=0)
        self.identifiers, self.num_layers = identifiers, num_layers
        self.context_radius, self.pair_distance = context_radius, pair_distance
        chosen = NetworkOptions(
            context_radius=context_radius, first_rows=tuple(first_rows), walk_steps=walk_steps
        )
        self.first_rows = FirstRows.of(chosen).key
        if self.first_rows.fixed and identifiers in ("coloring", "neighborhood"):
            raise InputError(
                "first_rows needs identifiers='onehot', 'local' or 'pairs': a row of "
                f"'{identifiers}' may stand for several nodes."
            )

    @outside_modes
    def __call__(self, data: Data) -> Data:
        data = data.clone()
        for stored in _STORED:
            if stored in data:
                del data[stored]
        topology = Topology.checked(data.edge_index, num_nodes=data.num_nodes)
        if self.identifiers == "neighborhood":
            data.ball_index = neighborhoods(topology, self.num_layers)
            data.identifier_radius = torch.tensor([self.num_layers])
        elif self.identifiers in ("local", "pairs"):
            data.ball_index = neighborhoods(topology, self.context_radius)
            if self.identifiers == "pairs":
                data.mark_index = neighborhoods(topology, self.pair_distance)
                data.pair_distance = torch.tensor([self.pair_distance])
            data.context_radius = torch.tensor([self.context_radius])
            data.identifier_radius = torch.tensor([0])
        elif self.identifiers == "coloring":
            data.identifier = coloring(topology, self.num_layers)
            data.identifier_radius = torch.tensor([self.num_layers])
        else:
            data.identifier = onehot_identifiers(topology)
            data.identifier_radius = torch.tensor([0])
        if self.first_rows.fixed:
            index = context_index(data)
            index = index.of_single_nodes if self.identifiers == "pairs" else index
            data.row_features = self.first_rows.values(index).float()
            sizes = self.first_rows.radius, self.first_rows.walk_steps
            data.row_feature_sizes = torch.tensor([sizes])
        return data

    def __repr__(self) -> str:
        if self.identifiers in ("local", "pairs"):
            return f"AddIdentifiers({self.identifiers!r}, context_radius={self.context_radius})"
        return f"AddIdentifiers({self.identifiers!r}, num_layers={self.num_layers})"


#: What `AddIdentifiers` stores for some identifiers only.
_STORED = (
    "ball_index", "identifier", "context_radius", "mark_index", "pair_distance", "row_features",
    "row_feature_sizes",
)  # fmt: skip


@outside_modes
def context_index(
    data: Any,
    identifiers: str | None = None,
    num_layers: int = 1,
    context_radius: int = 3,
    pair_distance: int = 1,
) -> ContextIndex:
    """The index of a `Data` or `Batch`, from the result of `AddIdentifiers` or computed now.

    Args:
        data: a graph or batch of PyTorch Geometric.
        identifiers: the scheme to compute; None: read the stored identifiers.
        num_layers: number of layers of the network ('coloring' and 'neighborhood').
        context_radius: radius of the contexts in hops ('local' and 'pairs').
        pair_distance: hops between the two nodes of a row ('pairs').
    """
    batch: Tensor | None = getattr(data, "batch", None)
    topology = Topology.checked(
        data.edge_index,
        batch,
        num_nodes=data.num_nodes,
        num_graphs=None if batch is None else getattr(data, "num_graphs", None),
    )
    if identifiers is not None:
        return ContextIndex.build(topology, identifiers, num_layers, context_radius, pair_distance)
    stored: Tensor | None = getattr(data, "identifier_radius", None)
    if stored is None:
        raise InputError(
            "data holds no identifiers: apply smpgnn.AddIdentifiers to it, or name a scheme."
        )
    index = ContextIndex(topology, _stored_rows(data, topology, stored))
    if "row_features" in data:
        radius, steps = (int(_one_of(data, "row_feature_sizes", k)) for k in (0, 1))
        parts = ("distance",) * (radius > 0) + ("walks",) * (steps > 0)
        index.first_rows[FirstRows("own", parts, radius, steps)] = data.row_features
    return index


def _stored_rows(data: Any, topology: Topology, stored: Tensor) -> RowTable:
    """The rows that `AddIdentifiers` described."""
    if "context_radius" in data:
        hops = int(_one_of(data, "context_radius"))
        if "mark_index" not in data:
            return LocalRows.build(topology, data.ball_index, hops)
        distance = int(_one_of(data, "pair_distance"))
        return PairRows.build(topology, data.ball_index, data.mark_index, hops, distance)
    limited = stored[stored > 0]  # one-hot identifiers serve any number of layers
    radius = int(limited.min()) if limited.numel() else None
    if "ball_index" in data:
        assert radius is not None
        return NeighborhoodRows.build(topology, data.ball_index, radius)
    return IdentifierRows.build(topology, data.identifier, radius)


def _one_of(data: Any, name: str, column: int = 0) -> Tensor:
    """The number that all graphs of a batch share."""
    values: Tensor = getattr(data, name).view(data[name].size(0), -1)[:, column]
    if not bool((values == values[0]).all()):
        raise InputError(f"data holds graphs with different {name}: take one for all.")
    return values[0]
