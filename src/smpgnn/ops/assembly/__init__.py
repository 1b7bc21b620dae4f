"""Batches of fixed size cut out of the tables of a data set: graphs, nodes, edges, rows, messages.

Tables hold numbers within their graph, int32, and have one entry more at the end, for what is not
there. Nothing is asked of the CPU. `places` says where the graphs of a batch lie, [4, 4, B + 1]:
where they end and begin in the batch, how much further on they lie in the data set, and what is
added to numbers within them; each for nodes, edges, rows and messages. The last graph is the unused
room: it begins where the others end, has the last entry of each table only, and to it is added the
last place of the room, which nobody has.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from smpgnn.contexts.topology import take
from smpgnn.ops.backend import fused

NODES, EDGES, ROWS, MESSAGES = range(4)


class GraphParts(NamedTuple):
    """The graphs of a batch, the last one the unused room.

    Shapes: slots, present, size, inverse [B + 1], their places in the tables, whether they are
    there, nodes, and 1 / d_avg (float64); ptr [B + 2]; places [4, 4, B + 1]; y [B, T] (or empty).
    """

    slots: Tensor
    present: Tensor
    size: Tensor
    ptr: Tensor
    places: Tensor
    inverse: Tensor
    y: Tensor


class NodeParts(NamedTuple):
    """The nodes of a batch.

    Shapes: numbers [6, N], graph, place in it, place in the table, degree, own row and rows of the
    context; pointers [3, N + 1], to edges by receiver and by sender, and to rows; both also as
    int32 (of the numbers only the own row, [N]); weights [2, N], 1 / d_avg, and the degree times
    that (float64); x [N, F] and y_node [N, T] (or empty).
    """

    numbers: Tensor
    pointers: Tensor
    small_own: Tensor
    small_pointers: Tensor
    weights: Tensor
    x: Tensor
    y_node: Tensor


class EdgeParts(NamedTuple):
    """The edges of a batch by receiver; those that are not there join the last node with itself.

    Shapes: numbers [4, E], place in the table, sender, receiver, and the edges by sender; small
    [4, E] int32, receiver, edges by sender, the first row of the sender, and, by sender, that of
    the receiver; edge_attr [E, D] (or empty).
    """

    numbers: Tensor
    small: Tensor
    edge_attr: Tensor


class RowParts(NamedTuple):
    """The rows of a batch that are listed in a table.

    Shapes: numbers [2, P], the owner, and the node that is described (N: none); small_owner [P];
    pointers [2, P + 1] int32, to messages by receiver and by sender.
    """

    numbers: Tensor
    small_owner: Tensor
    pointers: Tensor


def place_graphs(
    graphs: Tensor, table: Tensor, inverse: Tensor, y: Tensor | None, last: Tensor
) -> GraphParts:
    """Where the graphs with these numbers lie; −1 is for none.

    Shapes: graphs [B]; table [9, G + 1], 1, four counts, and where they begin in the data set;
    inverse [G + 1]; y [G + 1, T] or None; last [4], the last places of the room.
    """
    if fused(table):
        from smpgnn.ops.assembly import kernel

        return GraphParts(*kernel.place_graphs(graphs, table, inverse, y, last))
    slots = F.pad(graphs, (0, 1), value=-1).remainder(table.size(1))
    present, counts, first = table.index_select(1, slots).split_with_sizes([1, 4, 4])
    ends = counts.cumsum(1)
    starts = ends - counts
    added = torch.cat([starts[:, :-1], last.unsqueeze(1)], dim=1)
    ptr = torch.cat([starts[NODES], last[:1] + 1])
    return GraphParts(
        slots,
        present[0],
        ptr.diff(),
        ptr,
        torch.stack([ends, starts, first - starts, added]),
        take(inverse, slots),
        _values(y, slots[:-1], graphs),
    )


def cut_nodes(
    places: Tensor,
    inverse: Tensor,
    table: Tensor,
    x: Tensor | None,
    y_node: Tensor | None,
    nodes: int,
    rows: int,
    spread: int,
) -> NodeParts:
    """The nodes of a batch, in a room of so many nodes and rows.

    Nodes that are not there own the rows past the last, each `spread` further on.

    Shapes: places [4, 4, B + 1]; inverse [B + 1]; table [6, N' + 1], degree, edges that arrive
    before it and that leave before it, first row, own row and rows of the context; x [N' + 1, F]
    and y_node [N' + 1, T] or None.
    """
    if fused(table):
        from smpgnn.ops.assembly import kernel

        return NodeParts(*kernel.cut_nodes(places, inverse, table, x, y_node, nodes, rows, spread))
    _, starts, _, _ = places
    place = torch.arange(nodes + 1, device=table.device)
    graph, node = _find(places, NODES, place, table)
    begin = starts.index_select(1, graph)
    degree, arrive, leave, first, own, count = table.index_select(1, node).long()
    pointers = torch.stack([arrive + begin[EDGES], leave + begin[EDGES], first + begin[ROWS]])
    local = place - begin[NODES]
    spare = (local * spread).masked_fill(graph < places.size(2) - 1, 0)
    own = (own + begin[ROWS] + spare).clamp(max=rows - 1)
    numbers = torch.stack([graph, local, node, degree, own, count])[:, :-1]
    scale = take(inverse, graph[:-1])
    return NodeParts(
        numbers,
        pointers,
        numbers[4].int(),
        pointers.int(),
        torch.stack([scale, numbers[3] * scale]),
        _values(x, numbers[2], table),
        _values(y_node, numbers[2], table),
    )


def cut_edges(places: Tensor, table: Tensor, edge_attr: Tensor | None, edges: int) -> EdgeParts:
    """The edges of a batch, in a room of so many.

    Shapes: places [4, 4, B + 1]; table [5, E' + 1], sender, receiver, edges by sender, first row of
    the sender, and, by sender, that of the receiver; edge_attr [E' + 1, D] or None.
    """
    if fused(table):
        from smpgnn.ops.assembly import kernel

        return EdgeParts(*kernel.cut_edges(places, table, edge_attr, edges))
    _, starts, _, added = places
    place = torch.arange(edges, device=table.device)
    graph, edge = _find(places, EDGES, place, table)
    sender, receiver, out_edge, first, back_first = table.index_select(1, edge).long()
    node, number = take(added[NODES], graph), take(added[EDGES], graph)
    row = take(starts[ROWS], graph)
    numbers = torch.stack([edge, sender + node, receiver + node, out_edge + number])
    small = torch.stack([numbers[2], numbers[3], first + row, back_first + row]).int()
    return EdgeParts(numbers, small, _values(edge_attr, edge, table))


def cut_rows(places: Tensor, table: Tensor, rows: int, nodes: int) -> RowParts:
    """The rows of a batch, in a room of so many rows and nodes.

    Shapes: places [4, 4, B + 1]; table [4, P' + 1], the owner, the node that is described (−1:
    none), and the messages before it by receiver and by sender.
    """
    if fused(table):
        from smpgnn.ops.assembly import kernel

        return RowParts(*kernel.cut_rows(places, table, rows, nodes))
    _, starts, _, added = places
    place = torch.arange(rows + 1, device=table.device)
    graph, row = _find(places, ROWS, place, table)
    owner, seen, arrive, leave = table.index_select(1, row).long()
    node, message = take(added[NODES], graph), take(starts[MESSAGES], graph)
    numbers = torch.stack([owner + node, (seen + node).masked_fill(seen < 0, nodes)])[:, :-1]
    return RowParts(numbers, numbers[0].int(), torch.stack([arrive, leave]).add(message).int())


def square_rows(places: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """The owners [P] of rows of which each node has as many as its graph has nodes; int32, too."""
    if fused(places):
        from smpgnn.ops.assembly import kernel

        owner, small = kernel.square_rows(places, rows)
        return owner, small
    ends, starts, _, added = places
    place = torch.arange(rows, device=places.device)
    graph = torch.searchsorted(ends[ROWS, :-1], place, right=True)
    size = take(ends[NODES] - starts[NODES], graph)
    local = (place - take(starts[ROWS], graph)) // size.clamp(min=1)
    owner = local.masked_fill(size == 0, 0) + take(added[NODES], graph)
    return owner, owner.int()


def cut_messages(places: Tensor, table: Tensor, messages: int) -> Tensor:
    """The messages from row to row of a batch, in a room of so many, [3, M] int32.

    Shapes: places [4, 4, B + 1]; table [3, M' + 1], by receiver the row that sends, by sender that
    which receives, and the edge.
    """
    if fused(table):
        from smpgnn.ops.assembly import kernel

        cut: Tensor = kernel.cut_messages(places, table, messages)
        return cut
    place = torch.arange(messages, device=table.device)
    graph, entry = _find(places, MESSAGES, place, table)
    row, edge = take(places[3, ROWS], graph), take(places[3, EDGES], graph)
    return (table.index_select(1, entry) + torch.stack([row, row, edge])).int()


def entries(ends: Tensor, shift: Tensor, place: Tensor, last: int) -> tuple[Tensor, Tensor]:
    """Cut segments out of a table: the segment of each place in a batch, and its entry there.

    Segments end at `ends` in the batch and lie in the table by `shift` further on, [B + 1] each;
    the last one is empty and has `last` as first entry, as all places past the others do.
    """
    owner = torch.searchsorted(ends[:-1], place, right=True)
    return owner, (place + take(shift, owner)).clamp(max=last)


def _find(places: Tensor, kind: int, place: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
    """The graph and the table entry of each place."""
    return entries(places[0, kind], places[2, kind], place, table.size(1) - 1)


def _values(values: Tensor | None, index: Tensor, like: Tensor) -> Tensor:
    return like.new_empty(0) if values is None else values.index_select(0, index)
