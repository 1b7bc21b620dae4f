"""A padded batch in memory that stays in place, filled by copying."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from smpgnn.capture.static_index import Size, StaticIndex, static_index
from smpgnn.contexts.index import ContextIndex

#: Types of contexts that can be captured, and rows with which they give the same results.
ROWS = {"onehot": "onehot", "neighborhood": "onehot", "local": "local", "nodes": "nodes"}
#: The rows of a network (a value of `ROWS`) and the radius of local contexts.
Scheme = tuple[str, int]


def scheme_of(network: Any) -> Scheme:
    """The rows that the contexts of a network have."""
    kind = ROWS[network.backbone.identifiers]
    return kind, network.backbone.options.context_radius if kind == "local" else 0


class StaticBatch:
    """The first nodes and edges of tensors of fixed size; the rest is padding.

    Args:
        size: what the tensors can hold.
        scheme: the rows of the contexts.
        nodes: values of nodes by name, with as many rows as a batch has nodes; they show shape,
            type and whether to differentiate with respect to them.
        edges: values of edges.
        device: where the batch is.
    """

    def __init__(
        self,
        size: Size,
        scheme: Scheme,
        nodes: Mapping[str, Tensor],
        edges: Mapping[str, Tensor],
        device: torch.device,
    ) -> None:
        self.size, self.scheme = size, scheme
        self.edge_index = torch.zeros(2, size.edges, dtype=torch.long, device=device)
        self.batch = torch.zeros(size.nodes, dtype=torch.long, device=device)
        self.counts = torch.zeros(3, dtype=torch.long, device=device)
        self.nodes = {name: _places(value, size.nodes, device) for name, value in nodes.items()}
        self.edges = {name: _places(value, size.edges, device) for name, value in edges.items()}
        self.static: StaticIndex

    @property
    def leaves(self) -> list[Tensor]:
        """The values that are differentiated."""
        return [v for v in (*self.nodes.values(), *self.edges.values()) if v.requires_grad]

    def holds(self, nodes: int, edges: int, graphs: int) -> bool:
        """Whether so large a batch fits, with at least one node and edge left for padding."""
        size = self.size
        return nodes < size.nodes and edges < size.edges and graphs <= size.graphs

    def fill(
        self,
        edge_index: Tensor,
        batch: Tensor | None,
        num_nodes: int,
        num_graphs: int,
        nodes: Mapping[str, Tensor],
        edges: Mapping[str, Tensor],
    ) -> None:
        """Copy a batch that fits; `num_graphs` 0: as many as `batch` names."""
        count = edge_index.size(1)
        with torch.no_grad(), torch.inference_mode(False):
            sizes = torch.tensor([num_nodes, count, num_graphs])
            self.counts.copy_(sizes, non_blocking=True)
            self.edge_index[:, :count].copy_(edge_index, non_blocking=True)
            if batch is None:
                self.batch[:num_nodes].zero_()
            else:
                self.batch[:num_nodes].copy_(batch, non_blocking=True)
            for own, given, number in ((self.nodes, nodes, num_nodes), (self.edges, edges, count)):
                for name, value in given.items():
                    own[name].detach()[:number].copy_(value.detach(), non_blocking=True)

    def build(self) -> None:
        """Compute the index, and set the values of padding to zero; can be captured."""
        device = self.edge_index.device
        with torch.no_grad(), torch.autocast(device.type, enabled=False):
            self.static = static_index(
                self.edge_index, self.batch, self.counts, self.size, *self.scheme
            )
            for number, values in enumerate((self.nodes, self.edges)):
                for value in values.values():
                    place = torch.arange(value.size(0), device=device)
                    padding = (place >= self.counts[number]).view(-1, *[1] * (value.dim() - 1))
                    value.detach().masked_fill_(padding, 0)

    def graphs_found(self, given: ContextIndex | None = None) -> int | None:
        """The number of graphs; None if the batch is invalid or does not fit. Waits for the GPU.

        An index that was `given` for it must have as many rows.
        """
        size = self.size
        wrong, held, rows, messages, largest, _ = self.static.found.tolist()
        if given is not None and given.num_rows != rows:
            return None
        if wrong or held > size.graphs or largest > size.largest or rows >= size.rows:
            return None
        if self.scheme[0] == "local" and messages >= size.messages:
            return None
        return int(held)

    def sorted_edges(self, name: str) -> Tensor:
        """Values of edges in the order of the index."""
        return self.edges[name].index_select(0, self.static.order)

    def run(self, network: Callable[..., Any], x: Tensor | None, edge_attr: Tensor | None) -> Any:
        """The outputs of a network for all graphs and nodes, those of padding last.

        `edge_attr` is in the order of the index (`sorted_edges`).
        """
        index = self.static.index
        return network(
            x=x,
            edge_index=index.topology.edge_index,
            edge_attr=edge_attr,
            batch=index.topology.batch,
            num_nodes=self.size.nodes,
            batch_size=self.size.graphs + 1,
            index=index,
        )


def _places(value: Tensor, count: int, device: torch.device) -> Tensor:
    """Zeros in the shape of a value with `count` rows."""
    zeros = torch.zeros(count, *value.shape[1:], dtype=value.dtype, device=device)
    return zeros.requires_grad_(value.requires_grad and torch.is_grad_enabled())
