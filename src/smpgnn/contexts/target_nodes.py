"""Receptive fields: mini-batches of target nodes of large graphs, with only the rows they need.

After L layers a node depends only on the nodes within L hops. After layer l only the contexts of
V_l are needed, the nodes within L − l hops of the targets, with rows for l hops. Results equal
those on the whole graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from smpgnn.contexts.caching import cached_property, outside_modes
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.growing import LayeredIndex, grow
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.layout import RowLayout
from smpgnn.contexts.topology import Topology, pointer, segments, take
from smpgnn.errors import InputError, check_counts, check_tensor


@dataclass(frozen=True, eq=False)
class TargetIndex(LayeredIndex):
    """The contexts that some target nodes need; readouts read those of the targets."""

    num_targets: int

    @cached_property
    def target_layouts(self) -> tuple[RowLayout, ...]:
        """The layouts of the target rows, before the first and after every layer."""
        return tuple(_head(index, self.num_targets) for index in (self.first, *self.layers))

    def read(self, context: LocalContext, number: int) -> LocalContext:
        layout = self.target_layouts[number]
        return LocalContext(context.rows[: layout.num_rows], layout)

    def check_level(self, level: str) -> None:
        if level != "node":
            raise InputError(
                "index covers target nodes only, not whole graphs: use a network with "
                "level='node', or call this one on whole graphs."
            )

    def uncached(self) -> ContextIndex:
        raise InputError(
            "torch.compile and torch.export take whole graphs: call the network on target nodes "
            "without them."
        )

    def permute(self, permutation: Tensor) -> tuple[ContextIndex, Tensor]:
        raise InputError("index is of target nodes: rename the nodes of the whole graph instead.")


def _head(index: ContextIndex, count: int) -> RowLayout:
    """The layout of the first `count` contexts."""
    table = index.table
    end = int(table.ptr[count])
    multiplicity = None if table.multiplicity is None else table.multiplicity[:end]
    return RowLayout(
        ptr=table.ptr[: count + 1],
        own=table.own[:count],
        num_rows=end,
        multiplicity=multiplicity,
        given={"owner": table.owner[:end]},
    )


@dataclass(frozen=True, eq=False)
class ReceptiveField:
    """The part of a graph on which some target nodes depend.

    `nodes` are the nodes of the field, targets first, and `edges` the edges that carry messages
    towards the targets, both as indices into the whole graph. `index` uses the order of `nodes`.

    Shapes: targets [T], nodes [V], edges [E].
    """

    targets: Tensor
    nodes: Tensor
    edges: Tensor
    index: TargetIndex

    @property
    def edge_index(self) -> Tensor:
        """The edges of the field, as indices into `nodes`, [2, E]."""
        return self.index.topology.edge_index


class ReceptiveFields:
    """Computes the receptive fields of target nodes: `fields(targets)`.

    Args:
        topology: the whole graphs; fields are computed on their device.
        num_layers: number L of layers of the network.
    """

    @outside_modes
    def __init__(self, topology: Topology, num_layers: int) -> None:
        check_counts(num_layers=num_layers, at_least=1)
        self.topology, self.num_layers = topology, num_layers
        # The index of each node within the current field. All -1 between two calls, so that the
        # cost of a call depends on the field and not on the graph.
        self._local = torch.full((topology.num_nodes,), -1, device=topology.device)

    @outside_modes
    def __call__(self, targets: Tensor) -> ReceptiveField:
        """The field of these nodes, [T], without repetition."""
        targets = checked_targets(targets, self.topology)
        if targets.numel() == 0:
            raise InputError("targets is empty: name at least one node.")
        topology = self.topology
        try:
            nodes, edges = self._search(targets)
            edge, node = torch.cat(edges), torch.cat(nodes)
            edge_index = take(self._local, topology.edge_index.index_select(1, edge).flatten())
        except BaseException:
            self._local.fill_(-1)
            raise
        self._local[node] = -1
        edge_index = edge_index.view(2, -1)
        batch = take(topology.batch, node)
        num_nodes = _running([part.numel() for part in nodes])
        num_edges = _running([part.numel() for part in edges])
        # Layer l uses the contexts of V_{l-1} and the edges that arrive in V_l.
        topologies = [
            self._part(
                edge_index[:, : num_edges[hops]], batch[: num_nodes[hops + 1]], num_nodes[hops + 1]
            )
            for hops in reversed(range(self.num_layers))
        ]
        first, layers, widenings = grow(topologies, num_nodes[-2::-1], topology.graph_size)
        index = TargetIndex(
            topologies[0], layers[0].table, first, layers, widenings, targets.numel()
        )
        return ReceptiveField(targets, node, edge, index)

    def _part(self, edge_index: Tensor, batch: Tensor, num_nodes: int) -> Topology:
        """Some nodes of the graphs and the edges that arrive at the first of them, by receiver.

        Nodes are sorted by their distance to the targets, not by graph. The average degree is that
        of the whole graphs.
        """
        degree = torch.bincount(edge_index[1], minlength=num_nodes)
        given = {
            "inverse_average_degree": self.topology.inverse_average_degree,
            "degree": degree,
            "edges_by_receiver": (
                pointer(degree),
                torch.arange(edge_index.size(1), device=degree.device),
            ),
        }
        return Topology(edge_index, batch, num_nodes, self.topology.num_graphs, given=given)

    def _search(self, targets: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The nodes at 0, 1, …, L hops, and the edges that arrive at them, except at the last."""
        topology, local = self.topology, self._local
        ptr, order = topology.edges_by_receiver
        nodes, edges, count = [targets], [], targets.numel()
        local[targets] = torch.arange(count, device=local.device)
        for _ in range(self.num_layers):
            size = take(topology.degree, nodes[-1])
            which, rank = segments(size, int(size.sum()))
            edge = take(order, take(take(ptr, nodes[-1]), which) + rank)
            sender = take(topology.sender, edge)
            new = torch.unique(sender[take(local, sender) < 0])
            local[new] = torch.arange(count, count + new.numel(), device=local.device)
            count += new.numel()
            nodes.append(new)
            edges.append(edge)
        return nodes, edges


@dataclass(frozen=True, eq=False)
class TargetBatch(ReceptiveField):
    """A receptive field with the features of its nodes and edges, and the targets y.

    Shapes: x [V, F] or None, edge_attr [E, D] or None, y [T, …] or None.
    """

    x: Tensor | None
    edge_attr: Tensor | None
    y: Tensor | None


class TargetLoader:
    """Mini-batches of target nodes of a large graph, for networks with level='node'.

    Each batch contains what its targets depend on, and the network returns one row per target:

        for batch in TargetLoader(data, num_layers=3, batch_size=512, shuffle=True):
            out = model(batch.x, batch.edge_index, batch.edge_attr, index=batch.index)
            loss = F.mse_loss(out, batch.y)

    In eval mode, and in training without batch norm and dropout, the results equal those on the
    whole graph, and gradients sum over the batches to the gradient on the whole graph. Batch norm
    in training computes its statistics from the contexts of the batch.

    Args:
        data: a graph (or batch of graphs) of PyTorch Geometric; batches are built on its device.
        num_layers: number of layers of the network.
        targets: the target nodes, as indices or as a mask [N]; None: all nodes.
        batch_size: number of targets per batch.
        shuffle: whether to shuffle the targets in every pass.
        generator: random generator for `shuffle`.
    """

    @outside_modes
    def __init__(
        self,
        data: Any,
        num_layers: int,
        targets: Tensor | None = None,
        batch_size: int = 512,
        *,
        shuffle: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        check_counts(batch_size=batch_size, at_least=1)
        batch: Tensor | None = getattr(data, "batch", None)
        topology = Topology.checked(data.edge_index, batch, num_nodes=data.num_nodes)
        self.fields = ReceptiveFields(topology, num_layers)
        if targets is None:
            targets = torch.arange(topology.num_nodes, device=topology.device)
        self.targets = checked_targets(targets, topology)
        self.batch_size, self.shuffle, self.generator = batch_size, shuffle, generator
        self.x = _rows("x", data, topology.num_nodes, "nodes")
        self.edge_attr = _rows("edge_attr", data, topology.num_edges, "edges")
        self.y = _rows("y", data, topology.num_nodes, "nodes")

    def __len__(self) -> int:
        return -(-self.targets.numel() // self.batch_size)

    def __iter__(self) -> Iterator[TargetBatch]:
        targets = self.targets
        if self.shuffle:
            drawn = torch.randperm(targets.numel(), generator=self.generator)
            targets = take(targets, drawn.to(targets.device))
        for start in range(0, targets.numel(), self.batch_size):
            yield self.batch(targets[start : start + self.batch_size])

    @outside_modes
    def batch(self, targets: Tensor) -> TargetBatch:
        """The batch of these targets, [T]."""
        field = self.fields(targets)
        return TargetBatch(
            field.targets,
            field.nodes,
            field.edges,
            field.index,
            None if self.x is None else self.x.index_select(0, field.nodes),
            None if self.edge_attr is None else self.edge_attr.index_select(0, field.edges),
            None if self.y is None else self.y.index_select(0, field.targets),
        )


def checked_targets(targets: Tensor, topology: Topology) -> Tensor:
    """The indices of the target nodes, [T], from indices or a mask [N]."""
    check_tensor("targets", targets)
    count = topology.num_nodes
    if targets.dtype == torch.bool:
        if list(targets.shape) != [count]:
            raise InputError(
                f"targets as a mask must have shape [{count}], not {list(targets.shape)}."
            )
        return torch.nonzero(targets).flatten().to(topology.device)
    if targets.dim() != 1 or targets.is_floating_point() or targets.is_complex():
        raise InputError("targets must be a vector of node numbers, or a mask of the nodes.")
    targets = targets.long().to(topology.device)
    if targets.numel():
        low, high = (int(value) for value in targets.aminmax())
        if low < 0 or high >= count:
            raise InputError(
                f"targets names node {low if low < 0 else high}, but the nodes are numbered "
                f"0 to {count - 1}."
            )
        if torch.unique(targets).numel() < targets.numel():
            raise InputError("targets names a node twice: name each once.")
    return targets


def _rows(name: str, data: Any, count: int, what: str) -> Tensor | None:
    value = getattr(data, name, None)
    if value is None:
        return None
    check_tensor(name, value)
    if value.dim() == 0 or value.size(0) != count:
        raise InputError(
            f"data.{name} must have a row for each of the {count} {what}, not shape "
            f"{list(value.shape)}."
        )
    rows: Tensor = value
    return rows


def _running(sizes: list[int]) -> list[int]:
    """Cumulative sums."""
    return [sum(sizes[: k + 1]) for k in range(len(sizes))]
