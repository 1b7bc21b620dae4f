"""Neighbourhood contexts whose rows grow from layer to layer.

After l layers a context distinguishes only the nodes within l hops, so layer l needs rows for
these and one unseen row for all others. Before layer l the contexts grow: a node at distance l gets
its own row, copied from the unseen row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smpgnn.contexts.caching import outside_modes
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.rows import NeighborhoodRows
from smpgnn.contexts.topology import Topology, pointer, take
from smpgnn.errors import InputError
from smpgnn.ops import Lift, RowGather


@dataclass(frozen=True, eq=False)
class LayeredIndex(ContextIndex):
    """One index per layer, with the rows that this layer needs.

    `topology` and `table` describe contexts that serve all layers, as in `ContextIndex`. `first`
    has the rows of U⁽⁰⁾ and layers[l − 1] those of layer l; widenings[l − 1] names the row after
    layer l − 1 that each of them copies (None: they are the same).
    """

    first: ContextIndex
    layers: tuple[ContextIndex, ...]
    widenings: tuple[RowGather | None, ...]

    @property
    def radius(self) -> int | None:
        return len(self.layers)

    def initial(self, x: Tensor | None, dtype: torch.dtype, features: str = "own") -> LocalContext:
        return self.first.initial(x, dtype, features)

    def of_layer(self, number: int) -> ContextIndex:
        return self.layers[number - 1]

    def enter(self, context: LocalContext, number: int) -> LocalContext:
        widening = self.widenings[number - 1]
        if widening is None:
            return context
        layout = self.layers[number - 1].layout
        # Own rows, means and squares stay the same if all contexts are kept.
        same = layout.own.numel() == context.layout.own.numel()
        moments = context.moments if same else None
        return LocalContext(widening(context.rows), layout, moments=moments)


@dataclass(frozen=True, eq=False)
class GrowingIndex(LayeredIndex):
    """The contexts of whole graphs, with rows that grow from layer to layer.

    Results equal those of one-hot identifiers and of the fixed rows of `ContextIndex.build`.
    """

    @classmethod
    @outside_modes
    def of(cls, topology: Topology, num_layers: int) -> GrowingIndex:
        """The rows for a network of `num_layers` layers."""
        if num_layers < 1:
            raise InputError(f"num_layers must be at least 1, not {num_layers}.")
        count = topology.num_nodes
        first, layers, widenings = grow(
            [topology] * num_layers, [count] * num_layers, topology.graph_size
        )
        return cls(topology, layers[-1].table, first, layers, widenings)

    @outside_modes
    def permute(self, permutation: Tensor) -> tuple[GrowingIndex, Tensor]:
        index = GrowingIndex.of(self.topology.permute(permutation), len(self.layers))
        old, new = self.table, index.table
        assert isinstance(old, NeighborhoodRows)
        assert isinstance(new, NeighborhoodRows)
        renamed = torch.cat([permutation, permutation.new_tensor([old.num_nodes])])
        key = permutation[old.owner] * (old.num_nodes + 1) + renamed[old.described]
        return index, torch.searchsorted(new.key, key)


def grow(
    topologies: Sequence[Topology], receivers: Sequence[int], graph_size: Tensor
) -> tuple[ContextIndex, tuple[ContextIndex, ...], tuple[RowGather | None, ...]]:
    """The rows before the first layer, those of each layer, and the widenings between them.

    Args:
        topologies: for each layer the nodes that have contexts and the edges that carry messages;
            the nodes of a layer are the first nodes of the previous layer.
        receivers: for each layer the number of nodes whose contexts are needed after it. They are
            the first nodes, and all edges arrive at them.
        graph_size: the number of nodes of each graph, [B], with or without contexts.
    """
    nodes = topologies[0].num_nodes
    balls = Balls.of_themselves(nodes, topologies[0].device)
    table = balls.table(topologies[0], balls, graph_size, nodes, 0)
    first = ContextIndex(topologies[0], table)
    layers: list[ContextIndex] = []
    widenings: list[RowGather | None] = []
    grown = True
    for number, (topology, count) in enumerate(zip(topologies, receivers, strict=True), start=1):
        if layers and not grown and topology is layers[-1].topology:
            layers.append(layers[-1])
            widenings.append(None)
            continue
        before = balls.head(topology.num_nodes)
        reach = _Reach.of(before, topology, count, nodes)
        balls = reach.balls
        wide = balls.table(topology, before, graph_size, nodes, number)
        layers.append(ContextIndex(topology, wide, given={"lift": reach.lift(wide, topology)}))
        widenings.append(reach.widening(table, wide))
        grown = balls.described.numel() > before.described.numel()
        table = wide
    return first, tuple(layers), tuple(widenings)


@dataclass(frozen=True, eq=False)
class Balls:
    """The nodes that K contexts see: described[ptr[k]:ptr[k+1]] for context k, in increasing order.

    Shapes: ptr [K + 1]; owner, described [Q]; own [K], the position of the node itself.
    """

    ptr: Tensor
    owner: Tensor
    described: Tensor
    own: Tensor

    @classmethod
    def of_themselves(cls, num_nodes: int, device: torch.device) -> Balls:
        """Every node sees only itself."""
        places = torch.arange(num_nodes + 1, device=device)
        return cls(places, places[:-1], places[:-1], places[:-1])

    def head(self, count: int) -> Balls:
        """The first contexts only."""
        if count == self.own.numel():
            return self
        end = int(self.ptr[count])
        return Balls(
            self.ptr[: count + 1], self.owner[:end], self.described[:end], self.own[:count]
        )

    def table(
        self, topology: Topology, before: Balls, graph_size: Tensor, num_nodes: int, radius: int
    ) -> NeighborhoodRows:
        """The rows of these contexts, with an unseen row if one was needed a layer `before`."""
        size = take(graph_size, topology.batch)
        short = take(topology.batch, torch.nonzero(before.ptr.diff() < size).flatten())
        partial = torch.zeros_like(graph_size, dtype=torch.bool)
        partial[short] = True
        return NeighborhoodRows.assemble(
            self.ptr,
            self.owner,
            self.described,
            self.own,
            size - self.ptr.diff(),
            take(partial, topology.batch),
            num_nodes,
            radius,
        )


@dataclass(frozen=True, eq=False)
class _Reach:
    """The nodes that contexts see after one more layer, and the messages that bring them.

    Edges are sorted by receiver. Shapes: moved [Q before], the new position of each entry seen
    before; edge, sent, arrived [C]: this edge brings the sender's entry at position `sent` to the
    receiver's position `arrived`.
    """

    balls: Balls
    before: Balls
    moved: Tensor
    edge: Tensor
    sent: Tensor
    arrived: Tensor

    @classmethod
    def of(cls, before: Balls, topology: Topology, receivers: int, num_nodes: int) -> _Reach:
        order = topology.edges_by_receiver[1]
        sender, receiver = take(topology.sender, order), take(topology.receiver, order)
        sizes = take(before.ptr.diff(), sender)
        ends = sizes.cumsum(0)
        total = int(ends[-1]) if ends.numel() else 0
        edge = torch.arange(order.numel(), device=order.device)
        edge = edge.repeat_interleave(sizes, output_size=total)
        sent = take(take(before.ptr, sender) - ends + sizes, edge)
        sent += torch.arange(total, device=order.device)
        # First the entries that receivers saw before, then those that reach them over each edge.
        kept = int(before.ptr[receivers])
        key = torch.empty(kept + total, dtype=torch.long, device=order.device)
        torch.add(before.described[:kept], before.owner[:kept], alpha=num_nodes, out=key[:kept])
        torch.add(
            take(before.described, sent), take(receiver, edge), alpha=num_nodes, out=key[kept:]
        )
        key, sorting = key.sort()
        new = torch.ones_like(key, dtype=torch.bool)
        torch.ne(key[1:], key[:-1], out=new[1:])
        place = torch.empty_like(key)
        place[sorting] = new.cumsum(0) - 1
        del sorting
        key = key[new]
        owner, described = key // max(num_nodes, 1), key % max(num_nodes, 1)
        ptr = pointer(torch.bincount(owner, minlength=receivers))
        moved = place[:kept]
        if receivers < before.own.numel():  # the other contexts do not change
            shift = key.numel() - kept
            ptr = torch.cat([ptr, before.ptr[receivers + 1 :] + shift])
            owner = torch.cat([owner, before.owner[kept:]])
            described = torch.cat([described, before.described[kept:]])
            rest = torch.arange(kept, before.owner.numel(), device=order.device)
            moved = torch.cat([moved, rest + shift])
        balls = Balls(ptr, owner, described, take(moved, before.own))
        return cls(balls, before, moved, edge, sent, place[kept:])

    def widening(self, old: NeighborhoodRows, new: NeighborhoodRows) -> RowGather:
        """From the old rows to the new ones; a newly seen node copies the unseen row."""
        source = take(old.ptr[1:] - 1, new.owner)
        owner = self.before.owner
        place = torch.arange(owner.numel(), device=owner.device)
        old_row = place + take(old.ptr[: self.before.ptr.numel()] - self.before.ptr, owner)
        source[self.moved + take(new.ptr - self.balls.ptr, owner)] = old_row
        return RowGather(source, old.num_rows)

    def lift(self, table: NeighborhoodRows, topology: Topology) -> Lift:
        """Row (i, j) receives from row (k, j) of its neighbour k, or from the unseen row of k."""
        edge_ptr, order = topology.edges_by_receiver
        sender, receiver = take(topology.sender, order), take(topology.receiver, order)
        arriving = take(topology.degree, table.owner)
        ptr = pointer(arriving)
        total = int(ptr[-1])
        rows = torch.arange(table.num_rows, device=ptr.device)
        target = rows.repeat_interleave(arriving, output_size=total)
        edge = take(take(edge_ptr, table.owner) - ptr[:-1], target)
        edge += torch.arange(total, device=ptr.device)  # sorted by receiver
        source = take(take(table.ptr[1:] - 1, sender), edge)
        shift = table.ptr - self.balls.ptr
        heard = take(ptr, self.arrived + take(take(shift, receiver), self.edge))
        heard += self.edge - take(take(edge_ptr, receiver), self.edge)
        source[heard] = take(self.moved, self.sent) + take(take(shift, sender), self.edge)
        whole = table.ptr.numel() == topology.num_nodes + 1  # not only the contexts near targets
        return Lift(
            ptr=ptr,
            source=source,
            target=target,
            edge=take(order, edge),
            scale=take(topology.inverse_average_degree, take(topology.batch, table.owner)),
            cuts=take(table.ptr, topology.graph_ptr) if whole else None,
        )
