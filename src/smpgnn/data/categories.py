"""Integer features of graphs from Python as categories: one channel per value seen in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smpgnn.config.plain import from_plain
from smpgnn.data.graph_schema import MAX_CATEGORIES
from smpgnn.data.store import GraphStore
from smpgnn.data.tables import listing
from smpgnn.errors import InputError

_FIELDS = {"x": "node", "edge_attr": "edge"}


@dataclass(frozen=True)
class Categories:
    """How each column of the node and edge features becomes channels.

    Columns with `values` become one channel per value and one for all other values; columns
    without are numbers and stay as they are. Empty tuples: all columns are numbers.
    """

    node: tuple[tuple[int, ...], ...] = ()
    edge: tuple[tuple[int, ...], ...] = ()

    @classmethod
    def fit(cls, store: GraphStore) -> Categories:
        """The categories of the training graphs.

        A column of integers is categories, unless its values are only 0 and 1 (it is one-hot
        already, or a mark) or more than `MAX_CATEGORIES` (it counts something).
        """
        return cls(_columns(store.x), _columns(store.edge_attr))

    def __bool__(self) -> bool:
        return any(values for columns in (self.node, self.edge) for values in columns)

    def encode(self, store: GraphStore) -> GraphStore:
        """The store with categories as one-hot channels, float32."""
        return replace(
            store,
            x=_encoded(store.x, self.node, "x"),
            edge_attr=_encoded(store.edge_attr, self.edge, "edge_attr"),
        )

    def raw_width(self, part: str, channels: int) -> int:
        """The number of columns, node or edge, that become this many channels."""
        columns = self.node if part == "node" else self.edge
        return len(columns) or channels

    def check(self, node_channels: int, edge_channels: int) -> None:
        """Refuse categories that do not fit the network of a saved model."""
        for part, columns, channels in (
            ("node", self.node, node_channels),
            ("edge", self.edge, edge_channels),
        ):
            there = sum(len(values) + 1 if values else 1 for values in columns)
            if columns and channels and there != channels:
                raise InputError(
                    f"the {part} categories have {there} channels, but the network takes {channels}"
                )
            whole = [abs(value) < 2**63 for values in columns for value in values]
            if not all(whole) or any(list(v) != sorted(set(v)) for v in columns):
                raise InputError(f"the {part} categories are not sorted integers")

    def note(self) -> str:
        """A sentence for the user."""
        found = []
        for name, part in _FIELDS.items():
            counts = [
                f"column {column} of {name} ({len(values)})"
                for column, values in enumerate(getattr(self, part))
                if values
            ]
            found += counts if len(counts) <= 6 else [f"{len(counts)} columns of {name}"]
        return (
            f"Integers are categories: {', '.join(found)}; integers='numbers' keeps them as they "
            "are."
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Categories:
        return from_plain(cls, values, "categories")


def _columns(features: Tensor | None) -> tuple[tuple[int, ...], ...]:
    """The values of each column that is categories; empty if none is."""
    if features is None or features.dtype == torch.bool or features.is_floating_point():
        return ()
    found = []
    for column in features.unbind(1):
        values = tuple(int(value) for value in np.unique(column.cpu().numpy()).tolist())
        found.append(() if set(values) <= {0, 1} or len(values) > MAX_CATEGORIES else values)
    return tuple(found) if any(found) else ()


def _encoded(
    features: Tensor | None, columns: tuple[tuple[int, ...], ...], name: str
) -> Tensor | None:
    if features is None or not columns:
        return features
    channels: list[Tensor] = []
    for number, (column, values) in enumerate(zip(features.unbind(1), columns, strict=True)):
        if not values:
            channels.append(column[:, None].float())
            continue
        if column.is_floating_point() and not bool((column == column.round()).all()):
            raise InputError(
                f"column {number} of {name} has numbers that are not whole, but in training it had "
                f"the categories {listing(values)}: give integers."
            )
        known = torch.tensor(values, device=column.device)
        place = torch.searchsorted(known, column.long().contiguous()).clamp(max=len(values) - 1)
        place = torch.where(known[place] == column.long(), place, len(values))
        channels.append(torch.nn.functional.one_hot(place, len(values) + 1).float())
    return torch.cat(channels, dim=1)
