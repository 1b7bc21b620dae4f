"""Batches of fixed size out of the tables of a data set: a launch each for graphs, nodes, edges, ….

A program fills some places of the batch; it finds the graph of each by bisection. Kinds are counted
as in `smpgnn.ops.assembly`: nodes (0), edges (1), rows (2), messages (3).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import launcher, load_rows, store_rows, width

#: Graphs of a step of the sum over graphs, places of a program, and columns of a tile, at most.
GRAPHS, BLOCK, COLUMNS = 256, 64, 64


@triton.jit
def _copy_rows(x, out, source, target, live, C, BC: tl.constexpr):
    """Write rows of x [*, C] to others of `out`; nothing where C is 0."""
    for start in range(0, C, BC):
        c = start + tl.arange(0, BC)
        store_rows(out, load_rows(x, source, live, c, C), target, live, c, C)


@triton.jit
def _graph_of(ends, place, B, STEPS: tl.constexpr):
    """How many of the B ends, which never decrease, are not beyond each place."""
    low = tl.zeros_like(place)
    high = low + B
    for _ in range(STEPS):
        middle = (low + high) // 2
        apart = low < high
        past = tl.load(ends + middle, mask=apart, other=0) <= place
        low = tl.where(apart & past, middle + 1, low)
        high = tl.where(past, high, middle)
    return low


@triton.jit
def _at(places, what: tl.constexpr, kind: tl.constexpr, graph, B):
    """Of each graph: its end (0), begin (1), shift (2) or what is added to its numbers (3)."""
    return tl.load(places + (4 * what + kind) * (B + 1) + graph)


@triton.jit
def _find(places, kind: tl.constexpr, place, last, B, STEPS: tl.constexpr):
    """The graph of each place, and its entry in a table that ends with `last`."""
    graph = _graph_of(places + kind * (B + 1), place, B, STEPS)
    return graph, tl.minimum(place + _at(places, 2, kind, graph, B), last)


@triton.jit
def _graphs(
    graphs, table, inverse, y, last, slots, present, size, ptr, places, inverse_out, y_out,
    B, G, T, BLOCK: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    # programs 0 to 3 add up one kind each, the others copy targets
    kind = tl.program_id(0)
    if kind >= 4:
        g = (kind - 4) * BLOCK + tl.arange(0, BLOCK)
        number = tl.load(graphs + g, mask=g < B, other=0)
        slot = tl.where(number < 0, number + G, number)
        _copy_rows(y, y_out, slot, g, g < B, T, BC)
    else:
        before = tl.zeros([BLOCK], tl.int64)
        room = tl.load(last + kind)
        for start in range(0, B + 1, BLOCK):
            g = start + tl.arange(0, BLOCK)
            live = g <= B
            number = tl.load(graphs + g, mask=g < B, other=-1)
            slot = tl.where(number < 0, number + G, number)
            count = tl.load(table + (1 + kind) * G + slot, mask=live, other=0)
            first = tl.load(table + (5 + kind) * G + slot, mask=live, other=0)
            end = before + tl.cumsum(count, axis=0)
            begin = end - count
            at = places + kind * (B + 1) + g
            tl.store(at, end, mask=live)
            tl.store(at + 4 * (B + 1), begin, mask=live)
            tl.store(at + 8 * (B + 1), first - begin, mask=live)
            tl.store(at + 12 * (B + 1), tl.where(g < B, begin, room), mask=live)
            if kind == 0:
                tl.store(slots + g, slot, mask=live)
                tl.store(present + g, tl.load(table + slot, mask=live, other=0), mask=live)
                tl.store(size + g, tl.where(g < B, count, room + 1 - begin), mask=live)
                tl.store(ptr + g, begin, mask=live)
                value = tl.load(inverse + slot, mask=live, other=0.0)
                tl.store(inverse_out + g, value, mask=live)
            before += tl.sum(count, axis=0)
        if kind == 0:
            tl.store(ptr + B + 1, room + 1)


@triton.jit
def _nodes(
    places, inverse, table, x, y, numbers, pointers, small_own, small_pointers, weights, x_out,
    y_out, B, N, ROWS, SPREAD, D, F, T,
    STEPS: tl.constexpr, BLOCK: tl.constexpr, BF: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    p = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    live, there = p <= N, p < N
    graph, node = _find(places, 0, p, D - 1, B, STEPS)
    edge, row = _at(places, 1, 1, graph, B), _at(places, 1, 2, graph, B)
    at = table + node
    arrive, leave = edge + tl.load(at + D), edge + tl.load(at + 2 * D)
    first = row + tl.load(at + 3 * D)
    tl.store(pointers + p, arrive, mask=live)
    tl.store(pointers + (N + 1) + p, leave, mask=live)
    tl.store(pointers + 2 * (N + 1) + p, first, mask=live)
    tl.store(small_pointers + p, arrive.to(tl.int32), mask=live)
    tl.store(small_pointers + (N + 1) + p, leave.to(tl.int32), mask=live)
    tl.store(small_pointers + 2 * (N + 1) + p, first.to(tl.int32), mask=live)
    local = p - _at(places, 1, 0, graph, B)
    own = row + tl.load(at + 4 * D) + tl.where(graph < B, 0, SPREAD * local)
    own = tl.minimum(own, ROWS - 1)
    degree = tl.load(at).to(tl.int64)
    tl.store(numbers + p, graph, mask=there)
    tl.store(numbers + N + p, local, mask=there)
    tl.store(numbers + 2 * N + p, node, mask=there)
    tl.store(numbers + 3 * N + p, degree, mask=there)
    tl.store(numbers + 4 * N + p, own, mask=there)
    tl.store(numbers + 5 * N + p, tl.load(at + 5 * D).to(tl.int64), mask=there)
    tl.store(small_own + p, own.to(tl.int32), mask=there)
    scale = tl.load(inverse + graph)
    tl.store(weights + p, scale, mask=there)
    tl.store(weights + N + p, degree.to(tl.float64) * scale, mask=there)
    _copy_rows(x, x_out, node, p, there, F, BF)
    _copy_rows(y, y_out, node, p, there, T, BT)


@triton.jit
def _edges(
    places, table, attr, numbers, small, attr_out, B, E, D, C,
    STEPS: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    p = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    live = p < E
    graph, edge = _find(places, 1, p, D - 1, B, STEPS)
    node, row = _at(places, 3, 0, graph, B), _at(places, 1, 2, graph, B)
    at = table + edge
    receiver = node + tl.load(at + D)
    out_edge = _at(places, 3, 1, graph, B) + tl.load(at + 2 * D)
    tl.store(numbers + p, edge, mask=live)
    tl.store(numbers + E + p, node + tl.load(at), mask=live)
    tl.store(numbers + 2 * E + p, receiver, mask=live)
    tl.store(numbers + 3 * E + p, out_edge, mask=live)
    tl.store(small + p, receiver.to(tl.int32), mask=live)
    tl.store(small + E + p, out_edge.to(tl.int32), mask=live)
    tl.store(small + 2 * E + p, (row + tl.load(at + 3 * D)).to(tl.int32), mask=live)
    tl.store(small + 3 * E + p, (row + tl.load(at + 4 * D)).to(tl.int32), mask=live)
    _copy_rows(attr, attr_out, edge, p, live, C, BC)


@triton.jit
def _rows(
    places, table, numbers, small_owner, pointers, B, P, N, D,
    STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    p = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    live, there = p <= P, p < P
    graph, row = _find(places, 2, p, D - 1, B, STEPS)
    node, message = _at(places, 3, 0, graph, B), _at(places, 1, 3, graph, B)
    at = table + row
    owner, seen = node + tl.load(at), tl.load(at + D)
    tl.store(numbers + p, owner, mask=there)
    tl.store(numbers + P + p, tl.where(seen < 0, N, node + seen), mask=there)
    tl.store(small_owner + p, owner.to(tl.int32), mask=there)
    tl.store(pointers + p, (message + tl.load(at + 2 * D)).to(tl.int32), mask=live)
    tl.store(pointers + (P + 1) + p, (message + tl.load(at + 3 * D)).to(tl.int32), mask=live)


@triton.jit
def _square_rows(places, owner, small, B, P, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    p = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    live = p < P
    graph = _graph_of(places + 2 * (B + 1), p, B, STEPS)
    size = _at(places, 0, 0, graph, B) - _at(places, 1, 0, graph, B)
    local = (p - _at(places, 1, 2, graph, B)) // tl.maximum(size, 1)
    node = _at(places, 3, 0, graph, B) + tl.where(size > 0, local, 0)
    tl.store(owner + p, node, mask=live)
    tl.store(small + p, node.to(tl.int32), mask=live)


@triton.jit
def _messages(places, table, out, B, M, D, STEPS: tl.constexpr, BLOCK: tl.constexpr):
    p = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    live = p < M
    graph, entry = _find(places, 3, p, D - 1, B, STEPS)
    row, edge = _at(places, 3, 2, graph, B), _at(places, 3, 1, graph, B)
    at = table + entry
    tl.store(out + p, (row + tl.load(at)).to(tl.int32), mask=live)
    tl.store(out + M + p, (row + tl.load(at + D)).to(tl.int32), mask=live)
    tl.store(out + 2 * M + p, (edge + tl.load(at + 2 * D)).to(tl.int32), mask=live)


def _graph_count(places: Tensor) -> tuple[int, int]:
    """The number of graphs but the unused room, and the steps of a bisection among their ends."""
    count = places.size(2) - 1
    return count, count.bit_length()


def _copied(values: Tensor | None, rows: int, like: Tensor) -> tuple[Tensor, Tensor, int, int]:
    """Rows to be copied, so many new ones, their columns, and those of a tile."""
    if values is None:
        return like, like.new_empty(0), 0, 16
    columns = values.size(1)
    return values, values.new_empty(rows, columns), columns, min(COLUMNS, width(columns))


@launcher
def place_graphs(
    graphs: Tensor, table: Tensor, inverse: Tensor, y: Tensor | None, last: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    count = graphs.numel()
    slots, present, size = (table.new_empty(count + 1) for _ in range(3))
    ptr, places = table.new_empty(count + 2), table.new_empty(4, 4, count + 1)
    found = inverse.new_empty(count + 1)
    y, y_out, targets, tile = _copied(y, count, table)
    block = min(GRAPHS, width(count + 1))
    grid = (4 + (triton.cdiv(count, block) if targets else 0),)
    _graphs[grid](
        graphs, table, inverse, y, last, slots, present, size, ptr, places, found, y_out,
        count, table.size(1), targets, block, tile, num_warps=4,
    )  # fmt: skip
    return slots, present, size, ptr, places, found, y_out


@launcher
def cut_nodes(
    places: Tensor, inverse: Tensor, table: Tensor, x: Tensor | None, y_node: Tensor | None,
    nodes: int, rows: int, spread: int,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    graphs, steps = _graph_count(places)
    numbers, pointers = places.new_empty(6, nodes), places.new_empty(3, nodes + 1)
    own, small = table.new_empty(nodes), table.new_empty(3, nodes + 1)
    weights = inverse.new_empty(2, nodes)
    x, x_out, channels, tile = _copied(x, nodes, table)
    y_node, y_out, targets, y_tile = _copied(y_node, nodes, table)
    _nodes[(triton.cdiv(nodes + 1, BLOCK),)](
        places, inverse, table, x, y_node, numbers, pointers, own, small, weights, x_out, y_out,
        graphs, nodes, rows, spread, table.size(1), channels, targets, steps, BLOCK, tile, y_tile,
        num_warps=4,
    )  # fmt: skip
    return numbers, pointers, own, small, weights, x_out, y_out


@launcher
def cut_edges(
    places: Tensor, table: Tensor, edge_attr: Tensor | None, edges: int
) -> tuple[Tensor, Tensor, Tensor]:
    graphs, steps = _graph_count(places)
    numbers, small = places.new_empty(4, edges), table.new_empty(4, edges)
    edge_attr, out, channels, tile = _copied(edge_attr, edges, table)
    _edges[(triton.cdiv(edges, BLOCK),)](
        places, table, edge_attr, numbers, small, out, graphs, edges, table.size(1), channels,
        steps, BLOCK, tile, num_warps=4,
    )  # fmt: skip
    return numbers, small, out


@launcher
def cut_rows(places: Tensor, table: Tensor, rows: int, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    graphs, steps = _graph_count(places)
    numbers, owner = places.new_empty(2, rows), table.new_empty(rows)
    pointers = table.new_empty(2, rows + 1)
    _rows[(triton.cdiv(rows + 1, BLOCK),)](
        places, table, numbers, owner, pointers, graphs, rows, nodes, table.size(1), steps, BLOCK,
        num_warps=2,
    )  # fmt: skip
    return numbers, owner, pointers


@launcher
def square_rows(places: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    graphs, steps = _graph_count(places)
    owner = places.new_empty(rows)
    small = torch.empty_like(owner, dtype=torch.int32)
    _square_rows[(triton.cdiv(rows, BLOCK),)](
        places, owner, small, graphs, rows, steps, BLOCK, num_warps=2
    )
    return owner, small


@launcher
def cut_messages(places: Tensor, table: Tensor, messages: int) -> Tensor:
    graphs, steps = _graph_count(places)
    out = table.new_empty(3, messages)
    _messages[(triton.cdiv(messages, BLOCK),)](
        places, table, out, graphs, messages, table.size(1), steps, BLOCK, num_warps=2
    )
    return out
