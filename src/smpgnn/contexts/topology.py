"""The checked edges of a batch of graphs, with the conventions of PyTorch Geometric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smpgnn.contexts.caching import cached_property, outside_modes
from smpgnn.errors import InputError, check_counts, check_tensor
from smpgnn.tracing import number, occurrences, traced

if TYPE_CHECKING:
    from smpgnn.contexts.structure import Found, GraphStructure


@dataclass(frozen=True, eq=False)
class Topology:
    """The edges of a batch of graphs, and the graph of each node.

    Column e of `edge_index` is an edge from edge_index[0, e] to edge_index[1, e]. The paper's N_i
    is the set of senders of i, and A[i, j] = 1 if j sends to i. Directed graphs keep their
    direction, a self loop makes a node its own neighbour, and a duplicate edge counts twice.
    `batch` is sorted.

    Build it with `Topology.checked`. Shapes: edge_index [2, E], batch [N].
    """

    edge_index: Tensor
    batch: Tensor
    num_nodes: int
    num_graphs: int
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)

    @classmethod
    @outside_modes
    def checked(
        cls,
        edge_index: Tensor,
        batch: Tensor | None = None,
        *,
        num_nodes: int | None = None,
        num_graphs: int | None = None,
    ) -> Topology:
        """Check the arguments of a network; infer the number of nodes if it is not given."""
        _check_integers("edge_index", edge_index)
        if edge_index.dim() != 2 or edge_index.size(0) != 2:
            turned = edge_index.dim() == 2 and edge_index.size(1) == 2
            raise InputError(
                f"edge_index must have shape [2, number of edges], not {list(edge_index.shape)}"
                f"{': call edge_index.t()' if turned else ''}."
            )
        if traced():
            return cls._unchecked(edge_index.long(), batch, num_nodes, num_graphs)
        # the index must not keep inference tensors
        edge_index = (edge_index.clone() if edge_index.is_inference() else edge_index).long()
        low, high = (-1, -1)
        if edge_index.numel():
            low, high = (int(v) for v in torch.stack(edge_index.aminmax()).tolist())
            if low < 0:
                raise InputError(f"edge_index holds {low}: node numbers start at 0.")
        if batch is not None:
            _check_integers("batch", batch)
        if num_nodes is not None:
            check_counts(num_nodes=num_nodes, at_least=0)
        else:
            num_nodes = batch.numel() if batch is not None else high + 1
        if high >= num_nodes:
            raise InputError(
                f"edge_index names node {high}, but there are {num_nodes} nodes, "
                f"numbered 0 to {num_nodes - 1}."
            )
        if batch is None:
            batch = edge_index.new_zeros(num_nodes)
            found = 1
        else:
            batch, found = _check_batch(batch, num_nodes, edge_index)
        if num_graphs is None:
            num_graphs = found
        else:
            check_counts(batch_size=num_graphs, at_least=0)
        if num_graphs < found:
            raise InputError(f"batch names graph {found - 1}, but batch_size is {num_graphs}.")
        return cls(edge_index, batch, num_nodes, num_graphs)

    @classmethod
    def _unchecked(
        cls, edge_index: Tensor, batch: Tensor | None, num_nodes: int | None, num_graphs: int | None
    ) -> Topology:
        """The same without checks of values, which torch.compile and export cannot trace."""
        if num_nodes is None:
            num_nodes = number(edge_index.max()) + 1 if batch is None else batch.size(0)
        if batch is None:
            return cls(edge_index, edge_index.new_zeros(num_nodes), num_nodes, num_graphs or 1)
        batch = batch.long()
        found = number(batch[-1]) + 1 if num_graphs is None else num_graphs
        return cls(edge_index, batch, num_nodes, found)

    @property
    def sender(self) -> Tensor:
        return self.edge_index[0]

    @property
    def receiver(self) -> Tensor:
        return self.edge_index[1]

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)

    @property
    def device(self) -> torch.device:
        return self.edge_index.device

    @cached_property
    def graph_size(self) -> Tensor:
        """The number of nodes n of every graph, [B]; zero for an empty graph."""
        return occurrences(self.batch, self.num_graphs)

    @cached_property
    def graph_ptr(self) -> Tensor:
        """Graph g owns the nodes graph_ptr[g]:graph_ptr[g+1], [B + 1]."""
        return pointer(self.graph_size)

    @cached_property
    def degree(self) -> Tensor:
        """The number of messages that every node receives, [N]."""
        return occurrences(self.receiver, self.num_nodes)

    @cached_property
    def inverse_average_degree(self) -> Tensor:
        """1/d_avg of every graph, [B] float64; zero for a graph without edges."""
        edges = occurrences(self.batch[self.receiver], self.num_graphs)
        return torch.where(edges > 0, self.graph_size.double() / edges.clamp(min=1), 0.0)

    @cached_property
    def edges_by_receiver(self) -> tuple[Tensor, Tensor]:
        """Pointer [N + 1] and indices [E] of the edges that arrive at each node."""
        return pointer(self.degree), torch.argsort(self.receiver, stable=True)

    @cached_property
    def edges_by_sender(self) -> tuple[Tensor, Tensor]:
        """Pointer [N + 1] and indices [E] of the edges that leave each node."""
        out_degree = occurrences(self.sender, self.num_nodes)
        return pointer(out_degree), torch.argsort(self.sender, stable=True)

    @cached_property
    def found(self) -> dict[GraphStructure[Any], Any]:
        """The structures computed so far."""
        return {}

    @outside_modes
    def find(self, structure: GraphStructure[Found]) -> Found:
        """A structure of these graphs, computed once."""
        if structure not in self.found:
            self.found[structure] = structure.find(self)
        found: Found = self.found[structure]
        return found

    @outside_modes
    def permute(self, permutation: Tensor) -> Topology:
        """The same graphs with node i renamed to permutation[i], within its graph."""
        batch = torch.empty_like(self.batch)
        batch[permutation] = self.batch
        if not torch.equal(batch, self.batch):
            raise InputError("permutation moves a node into another graph: permute within graphs.")
        return Topology(permutation[self.edge_index], batch, self.num_nodes, self.num_graphs)

    def uncached(self) -> Topology:
        """The same graphs without what has been computed from them."""
        return Topology(self.edge_index, self.batch, self.num_nodes, self.num_graphs)

    @outside_modes
    def to(self, device: torch.device | str) -> Topology:
        return Topology(
            self.edge_index.to(device), self.batch.to(device), self.num_nodes, self.num_graphs
        )


def pointer(sizes: Tensor) -> Tensor:
    """The start of each of consecutive segments of these sizes, and the end of the last one."""
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def take(values: Tensor, index: Tensor) -> Tensor:
    """values[index] for vectors, several times faster than indexing on the CPU."""
    return values.index_select(0, index)


def segments(sizes: Tensor, total: int) -> tuple[Tensor, Tensor]:
    """The segment of each entry of consecutive segments of these sizes, and its rank within it."""
    which = torch.arange(sizes.numel(), device=sizes.device)
    which = which.repeat_interleave(sizes, output_size=total)
    start = pointer(sizes)[:-1]
    return which, torch.arange(total, device=sizes.device) - take(start, which)


def _check_integers(name: str, value: Tensor) -> None:
    check_tensor(name, value)
    if not traced() and torch._C._functorch.is_batchedtensor(value):
        raise InputError(
            f"{name} comes from torch.vmap: map over x or edge_attr of one graph only."
        )
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise InputError(f"{name} must hold integers, not {value.dtype}: call {name}.long().")


def _check_batch(batch: Tensor, num_nodes: int, edge_index: Tensor) -> tuple[Tensor, int]:
    if batch.dim() != 1 or batch.numel() != num_nodes:
        raise InputError(
            f"batch must name the graph of each of the {num_nodes} nodes, shape [{num_nodes}], "
            f"not {list(batch.shape)}."
        )
    batch = (batch.clone() if batch.is_inference() else batch).long()
    if num_nodes == 0:
        return batch, 0
    bad = torch.stack(
        [
            batch[0] < 0,
            (batch[1:] < batch[:-1]).any(),
            (batch[edge_index[0]] != batch[edge_index[1]]).any(),
        ]
    ).tolist()
    if bad[0] or bad[1]:
        raise InputError(
            "batch must start at 0 or above and never decrease: keep the nodes of a graph together."
        )
    if bad[2]:
        raise InputError("edge_index joins nodes that batch puts into different graphs.")
    return batch, int(batch[-1]) + 1
