"""The index of a padded batch, from its edges alone and without synchronising a GPU with the CPU.

`PaddedStore` cuts the index arrays of a batch out of those of a data set. Here there is no data
set: the nodes and edges of any batch lie in tensors of fixed size, and every array is computed with
operations whose result sizes are known beforehand, so that they can be captured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from smpgnn.contexts.graphs import Graphs
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.rows import IdentifierRows, LocalRows, NodeRows, RowTable
from smpgnn.contexts.topology import Topology, pointer, take
from smpgnn.ops import Neighbors, Routes


@dataclass(frozen=True)
class Size:
    """What a batch can hold: `graphs` graphs of up to `largest` nodes, fewer entries of the rest.

    `rows` and `messages` are those of the contexts; `messages` counts only with local contexts.
    """

    graphs: int
    nodes: int
    edges: int
    rows: int
    messages: int
    largest: int


@dataclass(frozen=True, eq=False)
class StaticIndex:
    """The index of a padded batch.

    `order` sorts the edges as the index has them. `found` is [6]: whether the arguments are
    invalid, and the number of graphs, rows and messages, the size of the largest graph, and the
    number of nodes. The index may only be used if they fit.
    """

    index: ContextIndex
    order: Tensor
    found: Tensor


@dataclass(frozen=True, eq=False)
class _Rows:
    """The rows of the contexts: table, row lists of `Neighbors`, and how many there are."""

    table: RowTable
    receive: tuple[Tensor, Tensor]
    send: tuple[Tensor, Tensor, Tensor]
    count: Tensor
    messages: Tensor


@dataclass(frozen=True, eq=False)
class _Nodes:
    """The nodes of a padded batch; those of padding have graph `Size.graphs` and no rows."""

    real: Tensor
    graph: Tensor
    local: Tensor
    graph_ptr: Tensor
    sizes: Tensor


@dataclass(frozen=True, eq=False)
class _Edges:
    """Edges sorted by receiver; those of padding join the last node with itself."""

    real: Tensor
    sender: Tensor
    receiver: Tensor
    by_sender: Tensor
    degree: Tensor
    arrive_ptr: Tensor
    leave_ptr: Tensor


def static_index(
    edge_index: Tensor,
    batch: Tensor,
    counts: Tensor,
    size: Size,
    identifiers: str,
    context_radius: int = 3,
) -> StaticIndex:
    """The index of the first nodes and edges of these tensors; the rest is padding.

    Args:
        edge_index: [2, size.edges], any values from `counts[1]` on.
        batch: [size.nodes], any values from `counts[0]` on.
        counts: the number of nodes, of edges and of graphs, [3]; no number of graphs (0): as many
            as `batch` names.
        size: what the tensors can hold.
        identifiers: 'onehot', 'local' or 'nodes'.
        context_radius: of local contexts.
    """
    place = torch.arange(max(size.nodes, size.edges), device=batch.device)
    real_node, real_edge = place[: size.nodes] < counts[0], place[: size.edges] < counts[1]
    last = size.nodes - 1
    inside = torch.where(real_node, batch, size.graphs)
    graph = inside.clamp(0, size.graphs)
    ends = torch.where(real_edge, edge_index, last)
    wrong = torch.stack(
        [
            ((ends < 0) | ((ends >= counts[0]) & real_edge)).any(),
            (inside[1:] < inside[:-1]).any(),
            (inside < 0).any(),
        ]
    ).any()
    ends = ends.clamp(0, last)
    wrong = wrong | (take(graph, ends[0]) != take(graph, ends[1])).any()
    named = torch.where(real_node, batch, -1).amax() + 1
    wrong = wrong | ((counts[2] > 0) & (named > counts[2]))
    held = torch.maximum(named, counts[2])
    sizes = graph.new_zeros(size.graphs + 1).scatter_add(0, graph, torch.ones_like(graph))
    graph_ptr = pointer(sizes)
    nodes = _Nodes(real_node, graph, place[: size.nodes] - take(graph_ptr, graph), graph_ptr, sizes)
    order = torch.argsort(ends[1], stable=True)
    edges = _sorted_edges(ends[:, order], real_edge, size)
    edge_count = torch.zeros_like(sizes).scatter_add(
        0, take(graph, edges.receiver), real_edge.long()
    )
    inverse = torch.where(edge_count > 0, sizes.double() / edge_count.clamp(min=1), 0.0)
    rows = _ROWS[identifiers](nodes, edges, size, context_radius)
    present = (place[: size.graphs + 1] < held).long()
    largest = sizes[:-1].amax()
    index = _assemble(nodes, edges, rows, inverse, present, size)
    found = torch.stack([wrong.long(), held, rows.count, rows.messages, largest, counts[0]])
    return StaticIndex(index, order, found)


def _sorted_edges(ends: Tensor, real: Tensor, size: Size) -> _Edges:
    sender, receiver = ends
    by_sender = torch.argsort(sender, stable=True)
    ones, none = real.long(), ends.new_zeros(size.nodes)
    degree, leaving = (none.scatter_add(0, at, ones) for at in (receiver, sender))
    # padding edges come last in both orders
    by_sender = torch.where(real, by_sender, size.edges - 1)
    return _Edges(real, sender, receiver, by_sender, degree, pointer(degree), pointer(leaving))


def _node_rows(nodes: _Nodes, edges: _Edges, size: Size, context_radius: int) -> _Rows:
    own, count = torch.arange(size.nodes, device=nodes.graph.device), nodes.real.long()
    ptr = pointer(count)
    table = NodeRows(
        ptr=ptr,
        own=own,
        num_rows=size.nodes,
        padded=True,
        given=_layout(ptr, own, own, count, counted=count),
    )
    return _Rows(table, *_no_lists(own), ptr[-1], ptr[-1])


def _onehot_rows(nodes: _Nodes, edges: _Edges, size: Size, context_radius: int) -> _Rows:
    count = torch.where(nodes.real, take(nodes.sizes, nodes.graph), 0)
    ptr = pointer(count)
    own = torch.where(nodes.real, ptr[:-1] + nodes.local, size.rows - 1)
    table = IdentifierRows(
        ptr=ptr,
        own=own,
        num_rows=size.rows,
        identifier=torch.where(nodes.real, nodes.local, 0),
        padded=True,
        given=_layout(ptr, own, _owners(ptr, size.rows, size.nodes - 1), count),
    )
    return _Rows(table, *_no_lists(own), ptr[-1], ptr[-1])


def _local_rows(nodes: _Nodes, edges: _Edges, size: Size, context_radius: int) -> _Rows:
    """Rows by a search in dense matrices: graphs are small where this pays."""
    width, graphs, last = size.largest, size.graphs + 1, size.nodes - 1
    local = nodes.local.clamp(max=width - 1)  # larger graphs do not fit and are refused later
    at = (nodes.graph * width + local) * width  # of the matrix row of each node
    from_, to = take(local, edges.sender), take(at, edges.receiver)
    spare = graphs * width * width
    adjacency = at.new_zeros(spare + 1, dtype=torch.float32)
    adjacency.index_fill_(0, torch.where(edges.real, to + from_, spare), 1.0)
    adjacency = adjacency[:-1].view(graphs, width, width)
    seen = torch.zeros_like(adjacency).view(-1)
    seen = torch.cat([seen, seen.new_zeros(1)])
    seen.index_fill_(0, torch.where(nodes.real, at + local, spare), 1.0)
    seen = seen[:-1].view(graphs, width, width)
    for _ in range(context_radius):
        seen = ((seen + adjacency @ seen) > 0).float()
    # one column more: the far row, which every node has
    mask = torch.cat([seen > 0, seen.any(2, keepdim=True)], dim=2).flatten()
    number = mask.cumsum(0)
    total, number = number[-1], number - 1
    step = width + 1
    node_at = (nodes.graph * width + local) * step
    spot = _find(number + 1, size.rows)
    place = torch.arange(size.rows, device=spot.device)
    real = place < total
    column, line = spot % step, spot // step
    start = take(nodes.graph_ptr, line // width)
    owner = torch.where(real, start + line % width, last)
    described = torch.where(real & (column < width), start + column, size.nodes)
    per_line = mask.view(-1, step).sum(1)
    count = torch.where(nodes.real, take(per_line, nodes.graph * width + local), 0)
    ptr = pointer(count)
    own = torch.where(nodes.real, take(number, node_at + local), size.rows - 1)
    # messages: every row gets one from each neighbour, from the row of the same node or the far row
    receive_ptr = pointer(torch.where(real, take(edges.degree, owner), 0))
    target = _find(receive_ptr[1:], size.messages)
    rank = torch.arange(size.messages, device=spot.device)
    real_message = rank < receive_ptr[-1]
    rank = rank - take(receive_ptr, target)
    edge = (take(edges.arrive_ptr, take(owner, target)) + rank).clamp(0, size.edges - 1)
    line = take(node_at, take(edges.sender, edge))
    wanted = line + take(column, target)
    source = torch.where(take(mask, wanted), take(number, wanted), take(number, line + width))
    source = torch.where(real_message, source, size.rows - 1).clamp(0, size.rows - 1)
    back = torch.argsort(source, stable=True)  # padding comes last
    sent = torch.zeros_like(place).scatter_add(0, source, real_message.long())
    send_ptr = pointer(sent)
    receiver = torch.where(real_message, take(target, back), size.rows - 1)
    back_edge = torch.where(real_message, take(edge, back), size.edges - 1)
    table = LocalRows(
        ptr=ptr,
        own=own,
        num_rows=size.rows,
        context_radius=context_radius,
        described=described,
        num_nodes=size.nodes,
        padded=True,
        given=_layout(ptr, own, owner, count),
    )
    return _Rows(
        table,
        (receive_ptr.int(), source.int()),
        (send_ptr.int(), receiver.int(), back_edge.int()),
        total,
        receive_ptr[-1],
    )


_ROWS = {"nodes": _node_rows, "onehot": _onehot_rows, "local": _local_rows}


def _layout(
    ptr: Tensor, own: Tensor, owner: Tensor, count: Tensor, **more: Tensor
) -> Mapping[str, object]:
    """The values of a `RowLayout` that would otherwise be computed on first use."""
    return {
        "owner": owner,
        "count": count,
        "small": (ptr.int(), own.int()),
        "small_owner": owner.int(),
        **more,
    }


def _no_lists(like: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
    """Row j of one context corresponds to row j of the other: nothing is listed."""
    empty = like.new_empty(0, dtype=torch.int32)
    return (empty, empty), (empty, empty, empty)


def _find(ends: Tensor, size: int) -> Tensor:
    """The segment of each of the first `size` places, for segments that end at `ends`."""
    place = torch.arange(size, device=ends.device)
    return torch.searchsorted(ends, place, right=True).clamp(max=ends.numel() - 1)


def _owners(ptr: Tensor, size: int, last: int) -> Tensor:
    """The context of each row; `last` for padding."""
    place = torch.arange(size, device=ptr.device)
    return torch.where(place < ptr[-1], _find(ptr[1:], size), last)


def _assemble(
    nodes: _Nodes, edges: _Edges, rows: _Rows, inverse: Tensor, present: Tensor, size: Size
) -> ContextIndex:
    """The index of these arrays, in which nothing is left to be computed on first use."""
    edge_order = torch.arange(size.edges, device=inverse.device)
    topology = Topology(
        torch.stack([edges.sender, edges.receiver]),
        nodes.graph,
        size.nodes,
        size.graphs + 1,
        given={
            "graph_size": nodes.sizes,
            "graph_ptr": nodes.graph_ptr,
            "degree": edges.degree,
            "inverse_average_degree": inverse,
            "edges_by_receiver": (edges.arrive_ptr, edge_order),
            "edges_by_sender": (edges.leave_ptr, edges.by_sender),
        },
    )
    first_row = rows.table.ptr
    senders = Neighbors(
        edges.arrive_ptr.int(),
        take(first_row, edges.sender).int(),
        edge_order.int(),
        *rows.receive,
        edges.receiver.int(),
    )
    receivers = Neighbors(
        edges.leave_ptr.int(),
        take(first_row, take(edges.receiver, edges.by_sender)).int(),
        edges.by_sender.int(),
        *rows.send,
    )
    scale = take(inverse, nodes.graph)
    routes = Routes(
        *rows.table.small, scale, edges.degree * scale, lambda: (senders, receivers), padded=True
    )
    graphs = Graphs(topology, present, given={"largest": size.largest})
    return ContextIndex(topology, rows.table, given={"routes": routes, "graphs": graphs})
