"""GraphStore: many graphs in a few tensors; builds batches without a loop over graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.errors import InputError

#: What the rows of the fields of a store belong to.
_ROWS = {
    "x": "node", "edge_attr": "edge", "y": "graph", "y_node": "node", "weight": "graph",
    "side": "graph", "u": "graph",
}  # fmt: skip
Sizes = Tensor | NDArray[np.integer[Any]] | Sequence[int]


@dataclass(frozen=True, eq=False)
class GraphBatch:
    """A batch of graphs with the fields of PyTorch Geometric.

    Shapes: x [N, F] float, edge_index [2, E], edge_attr [E, D] float, batch [N];
    y [B, T] graph targets, y_node [N, T'] node targets (NaN: unknown); weight [B, 1] in the loss;
    side [B, T] of `y` (as in `GraphStore`); u [B, K] features of graphs (NaN: unknown).
    """

    x: Tensor | None
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    num_graphs: int
    y: Tensor | None = None
    y_node: Tensor | None = None
    weight: Tensor | None = None
    side: Tensor | None = None
    u: Tensor | None = None

    @property
    def num_nodes(self) -> int:
        return self.batch.numel()

    def to(self, device: torch.device | str, non_blocking: bool = False) -> GraphBatch:
        return replace(self, **_moved(self, device, non_blocking))


@dataclass(frozen=True, eq=False)
class GraphStore:
    """A data set as flat tensors; graph g has nodes node_ptr[g]:node_ptr[g+1], likewise edges.

    Node indices in `edge_index` are local to each graph. Features may be stored as bool or uint8; a
    batch casts them to float32. `to` moves the whole store to a GPU.

    `side` is 0 where `y` is the target, 1 where the target is at least `y`, -1 where it is at most
    `y`; None: 0 everywhere.

    Shapes: node_ptr, edge_ptr [G + 1]; x [N, F]; edge_index [2, E]; edge_attr [E, D];
    y, side [G, T]; y_node [N, T']; weight [G, 1]; u [G, K].
    """

    node_ptr: Tensor
    edge_ptr: Tensor
    edge_index: Tensor
    x: Tensor | None = None
    edge_attr: Tensor | None = None
    y: Tensor | None = None
    y_node: Tensor | None = None
    weight: Tensor | None = None
    side: Tensor | None = None
    u: Tensor | None = None

    def __post_init__(self) -> None:
        nodes, edges, graphs = int(self.node_ptr[-1]), int(self.edge_ptr[-1]), len(self)
        counts = {"node": nodes, "edge": edges, "graph": graphs}
        expected = {name: (getattr(self, name), 0, counts[of]) for name, of in _ROWS.items()}
        expected |= {
            "edge_ptr": (self.edge_ptr, 0, graphs + 1),
            "edge_index": (self.edge_index, 1, edges),
        }
        for name, (value, dim, size) in expected.items():
            if value is not None and value.size(dim) != size:
                raise InputError(
                    f"GraphStore: {name} has {value.size(dim)} entries instead of {size}."
                )
            if name in _ROWS and value is not None and value.dim() != 2:
                raise InputError(f"GraphStore: {name} must have two dimensions, not {value.dim()}.")

    def __len__(self) -> int:
        return self.node_ptr.numel() - 1

    @property
    def num_nodes(self) -> Tensor:
        """Number of nodes of each graph, [G]."""
        return self.node_ptr[1:] - self.node_ptr[:-1]

    @property
    def num_edges(self) -> Tensor:
        """Number of directed edges of each graph, [G]."""
        return self.edge_ptr[1:] - self.edge_ptr[:-1]

    @property
    def device(self) -> torch.device:
        return self.node_ptr.device

    def to(self, device: torch.device | str) -> GraphStore:
        return replace(self, **_moved(self, device, False))

    def select(self, graphs: Tensor | Sequence[int]) -> GraphStore:
        """A store of these graphs, in this order."""
        index = torch.as_tensor(graphs, dtype=torch.long, device=self.device)
        node_ptr, nodes = _expand(self.node_ptr, index)
        edge_ptr, edges = _expand(self.edge_ptr, index)
        rows = {"node": nodes, "edge": edges, "graph": index}
        return GraphStore(
            node_ptr,
            edge_ptr,
            self.edge_index[:, edges],
            **{name: _take(getattr(self, name), rows[of]) for name, of in _ROWS.items()},
        )

    def batch(self, graphs: Tensor | Sequence[int] | None = None) -> GraphBatch:
        """A batch of these graphs, by default of all."""
        part = self if graphs is None else self.select(graphs)
        graph = torch.arange(len(part), device=part.device)
        batch = graph.repeat_interleave(part.num_nodes, output_size=int(part.node_ptr[-1]))
        shift = part.node_ptr[:-1].repeat_interleave(
            part.num_edges, output_size=part.edge_index.size(1)
        )
        given = {name: getattr(part, name) for name in _ROWS}
        for name in ("x", "edge_attr", "u"):
            given[name] = None if given[name] is None else given[name].to(torch.float32)
        edge_index = part.edge_index.to(torch.long) + shift
        return GraphBatch(edge_index=edge_index, batch=batch, num_graphs=len(part), **given)

    @classmethod
    def of_sizes(cls, num_nodes: Sizes, num_edges: Sizes, **tensors: Tensor | None) -> GraphStore:
        """The store of graphs with these numbers of nodes and directed edges, [G] each."""
        node_ptr, edge_ptr = (pointer(torch.as_tensor(s).long()) for s in (num_nodes, num_edges))
        return cls(node_ptr, edge_ptr, **tensors)  # type: ignore[arg-type]

    @classmethod
    def concat(cls, stores: Sequence[GraphStore]) -> GraphStore:
        """The graphs of several stores with the same fields, in order."""

        def joined(name: str, dim: int = 0) -> Tensor | None:
            values = [getattr(store, name) for store in stores]
            return None if values[0] is None else torch.cat(values, dim)

        return cls.of_sizes(
            torch.cat([store.num_nodes for store in stores]),
            torch.cat([store.num_edges for store in stores]),
            edge_index=joined("edge_index", dim=1),
            **{name: joined(name) for name in _ROWS},
        )


def pointer(sizes: Tensor) -> Tensor:
    """Where each of the consecutive segments starts, and where the last ends, [G + 1]."""
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def _expand(ptr: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """The pointer of the selected segments and the indices of their entries."""
    start, size = ptr[index], ptr[index + 1] - ptr[index]
    new_ptr = pointer(size)
    total = int(new_ptr[-1])
    shift = (start - new_ptr[:-1]).repeat_interleave(size, output_size=total)
    return new_ptr, torch.arange(total, device=ptr.device) + shift


def _take(value: Tensor | None, index: Tensor) -> Tensor | None:
    return None if value is None else value.index_select(0, index)


def _moved(
    item: GraphStore | GraphBatch, device: torch.device | str, non_blocking: bool
) -> dict[str, Any]:
    return {
        f.name: value.to(device, non_blocking=non_blocking)
        for f in fields(item)
        if isinstance(value := getattr(item, f.name), Tensor)
    }
