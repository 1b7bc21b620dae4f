"""Set2Set, a graph a program: all steps in one launch, and two launches for the gradients.

A program keeps the weights of the recurrent unit, its state and the first nodes of its graph in
registers; nodes beyond them are read again in every step. A batch has few graphs, so the time is
that of one program, and few warps, which need not wait for each other, serve best.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import (
    acc_type,
    accumulator,
    add_up,
    inner,
    launcher,
    load_matrix,
    load_rows,
    load_vector,
    precision,
    store_matrix,
    store_rows,
    tanh,
    width,
)

#: Nodes of a tile.
NODES = 32
#: Steps of graphs that a program takes to gather gradients of weights, while programs are left.
PART, MOST_PARTS = 512, 32
#: What is kept of a step: hidden, read, the gates i, f, g and o, memory, the level of the weights.
KEPT = tl.constexpr(8)
#: What backward leaves of a step: the gradients of the four gates, and of what was read.
LEFT = tl.constexpr(5)


@triton.jit
def _gate_weights(w_ih, w_hh, GATE: tl.constexpr, c, C, ACC: tl.constexpr):
    """The maps of hidden and read to a gate; hidden is part of the input, too: its maps add up."""
    row = GATE * C
    d = c[None, :]
    here = (c[:, None] < C) & (d < C)
    at = w_ih + (row + c[:, None]) * (2 * C) + d
    again = load_matrix(w_hh + row * C, c, c, C, C).to(ACC)
    of_hidden = tl.load(at, mask=here, other=0.0).to(ACC) + again
    return of_hidden, tl.load(at + C, mask=here, other=0.0).to(ACC)


@triton.jit
def _gate(of_hidden, of_read, bias, hidden, read):
    return tl.sum(of_hidden * hidden[None, :] + of_read * read[None, :], axis=1) + bias


@triton.jit
def _bias(b_ih, b_hh, GATE: tl.constexpr, c, C, ACC: tl.constexpr):
    return load_vector(b_ih + GATE * C, c, C, ACC) + load_vector(b_hh + GATE * C, c, C, ACC)


@triton.jit
def _look(tile, live, query):
    """Of these nodes: highest score, sum of exp(score − highest), and the values summed with it."""
    scores = tl.where(live, tl.sum(tile * query[None, :], axis=1), -float("inf"))
    top = tl.maximum(tl.max(scores), -1e38)  # finite, where there is no node
    weights = tl.exp(scores - top)
    return top, tl.sum(weights), tl.sum(weights[:, None] * tile, axis=0)


@triton.jit
def _look_backward(tile, live, query, level, d_read, mean):
    """The weights of these nodes and the gradients of their scores."""
    scores = tl.where(live, tl.sum(tile * query[None, :], axis=1), -float("inf"))
    weights = tl.exp(scores - level)
    return weights, weights * (tl.sum(tile * d_read[None, :], axis=1) - mean)


@triton.jit
def _graph(ptr, counted, graph, MARKED: tl.constexpr):
    """First node, end of the nodes to read (none where the graph does not count), and their end."""
    first, end = tl.load(ptr + graph), tl.load(ptr + graph + 1)
    last = end
    if MARKED:
        last = tl.where(tl.load(counted + graph) > 0, end, first)
    return first, last, end


@triton.jit
def _forward(
    x, ptr, counted, w_ih, w_hh, b_ih, b_hh, out, kept, STEPS,
    C: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, MARKED: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    graph = tl.program_id(0)
    c = tl.arange(0, BC)
    there = c < C
    first, last, _end = _graph(ptr, counted, graph, MARKED)
    r = first + tl.arange(0, BLOCK)
    live = r < last
    tile = load_rows(x, r, live, c, C).to(ACC)
    hi, ri = _gate_weights(w_ih, w_hh, 0, c, C, ACC)
    hf, rf = _gate_weights(w_ih, w_hh, 1, c, C, ACC)
    hg, rg = _gate_weights(w_ih, w_hh, 2, c, C, ACC)
    ho, ro = _gate_weights(w_ih, w_hh, 3, c, C, ACC)
    bi, bf = _bias(b_ih, b_hh, 0, c, C, ACC), _bias(b_ih, b_hh, 1, c, C, ACC)
    bg, bo = _bias(b_ih, b_hh, 2, c, C, ACC), _bias(b_ih, b_hh, 3, c, C, ACC)
    hidden, read, memory = tl.zeros([BC], ACC), tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    to_i, to_f, to_g, to_o = bi, bf, bg, bo
    step = tl.num_programs(0) * KEPT * C
    place = kept + graph.to(tl.int64) * KEPT * C
    for part in tl.static_range(KEPT):
        tl.store(place + part * C + c, hidden, mask=there)
    for _round in range(STEPS):
        i, f, g, o = tl.sigmoid(to_i), tl.sigmoid(to_f), tanh(to_g), tl.sigmoid(to_o)
        memory = f * memory + i * g
        hidden = o * tanh(memory)
        top, total, read = _look(tile, live, hidden)
        for start in range(first + BLOCK, last, BLOCK):
            more = start + tl.arange(0, BLOCK)
            values = load_rows(x, more, more < last, c, C).to(ACC)
            other, its_total, its_read = _look(values, more < last, hidden)
            higher = tl.maximum(top, other)
            fade, its_fade = tl.exp(top - higher), tl.exp(other - higher)
            total = total * fade + its_total * its_fade
            read = read * fade + its_read * its_fade
            top = higher
        safe = tl.where(total == 0, 1.0, total)
        read = read / safe
        # For the next round: the part of hidden need not wait for what is read.
        to_i, to_f = _gate(hi, ri, bi, hidden, read), _gate(hf, rf, bf, hidden, read)
        to_g, to_o = _gate(hg, rg, bg, hidden, read), _gate(ho, ro, bo, hidden, read)
        place += step
        tl.store(place + c, hidden, mask=there)
        tl.store(place + C + c, read, mask=there)
        tl.store(place + 2 * C + c, i, mask=there)
        tl.store(place + 3 * C + c, f, mask=there)
        tl.store(place + 4 * C + c, g, mask=there)
        tl.store(place + 5 * C + c, o, mask=there)
        tl.store(place + 6 * C + c, memory, mask=there)
        tl.store(place + 7 * C, top + tl.log(safe))
    result = out + graph.to(tl.int64) * 2 * C + c
    tl.store(result, hidden.to(out.dtype.element_ty), mask=there)
    tl.store(result + C, read.to(out.dtype.element_ty), mask=there)


@triton.jit
def _recall(place, C, there):
    """What was kept of a step, but for the level."""
    hidden = tl.load(place, mask=there, other=0.0)
    read = tl.load(place + C, mask=there, other=0.0)
    i = tl.load(place + 2 * C, mask=there, other=0.0)
    f = tl.load(place + 3 * C, mask=there, other=0.0)
    g = tl.load(place + 4 * C, mask=there, other=0.0)
    o = tl.load(place + 5 * C, mask=there, other=0.0)
    return hidden, read, i, f, g, o, tl.load(place + 6 * C, mask=there, other=0.0)


@triton.jit
def _backward(
    grad, x, ptr, counted, w_ih, w_hh, kept, left, dx, STEPS,
    C: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, MARKED: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    graph = tl.program_id(0)
    c = tl.arange(0, BC)
    there = c < C
    first, last, end = _graph(ptr, counted, graph, MARKED)
    r = first + tl.arange(0, BLOCK)
    live = r < last
    tile = load_rows(x, r, live, c, C).to(ACC)
    slope = tl.zeros([BLOCK, BC], ACC)
    diagonal = c[:, None] == c[None, :]
    hi, ri = _gate_weights(w_ih, w_hh, 0, c, C, ACC)
    hf, rf = _gate_weights(w_ih, w_hh, 1, c, C, ACC)
    hg, rg = _gate_weights(w_ih, w_hh, 2, c, C, ACC)
    ho, ro = _gate_weights(w_ih, w_hh, 3, c, C, ACC)
    of_graph = grad + graph.to(tl.int64) * 2 * C
    d_hidden, d_read = load_vector(of_graph, c, C, ACC), load_vector(of_graph + C, c, C, ACC)
    d_memory = tl.zeros([BC], ACC)
    count = tl.num_programs(0)
    start_of_kept = kept + graph.to(tl.int64) * KEPT * C
    start_of_left = left + graph.to(tl.int64) * LEFT * C + c
    place = start_of_kept + count.to(tl.int64) * STEPS * KEPT * C
    result = start_of_left + count.to(tl.int64) * STEPS * LEFT * C
    hidden, read, i, f, g, o, memory = _recall(place + c, C, there)
    level = tl.load(place + 7 * C)
    for _round in range(STEPS):
        # What the next round needs is asked for now.
        place -= count * KEPT * C
        result -= count * LEFT * C
        hidden_0, read_0, i_0, f_0, g_0, o_0, memory_0 = _recall(place + c, C, there)
        level_0 = tl.load(place + 7 * C)
        mean = tl.sum(d_read * read)
        weights, ds = _look_backward(tile, live, hidden, level, d_read, mean)
        d_hidden += tl.sum(ds[:, None] * tile, axis=0)
        slope += weights[:, None] * d_read[None, :] + ds[:, None] * hidden[None, :]
        for start in range(first + BLOCK, last, BLOCK):
            more = start + tl.arange(0, BLOCK)
            values = load_rows(x, more, more < last, c, C).to(ACC)
            _its_weights, its_ds = _look_backward(values, more < last, hidden, level, d_read, mean)
            d_hidden += tl.sum(its_ds[:, None] * values, axis=0)
        tl.store(result + 4 * C, d_read, mask=there)
        turned = tl.sum(tl.where(diagonal, d_hidden[None, :], 0.0), axis=1)
        squashed = tanh(memory)
        d_memory += turned * o * (1 - squashed * squashed)
        di, df = d_memory * g * i * (1 - i), d_memory * memory_0 * f * (1 - f)
        dg, do = d_memory * i * (1 - g * g), turned * squashed * o * (1 - o)
        d_memory = d_memory * f
        tl.store(result, di, mask=there)
        tl.store(result + C, df, mask=there)
        tl.store(result + 2 * C, dg, mask=there)
        tl.store(result + 3 * C, do, mask=there)
        di, df, dg, do = di[:, None], df[:, None], dg[:, None], do[:, None]
        d_hidden = tl.sum(hi * di + hf * df + hg * dg + ho * do, axis=0)
        d_read = tl.sum(ri * di + rf * df + rg * dg + ro * do, axis=0)
        hidden, read, i, f, g, o, memory = hidden_0, read_0, i_0, f_0, g_0, o_0, memory_0
        level = level_0
    store_rows(dx, slope, r, r < end, c, C)
    # The nodes beyond the first: from what all steps have left, once all warps have written it.
    tl.debug_barrier()
    rounds = tl.where(last > first, STEPS, 0)
    for start in range(first + BLOCK, end, BLOCK):
        more = start + tl.arange(0, BLOCK)
        values = load_rows(x, more, more < last, c, C).to(ACC)
        slope = tl.zeros([BLOCK, BC], ACC)
        place, result = start_of_kept, start_of_left
        for _round in range(rounds):
            place += count * KEPT * C
            hidden, read = load_vector(place, c, C, ACC), load_vector(place + C, c, C, ACC)
            d_read = tl.load(result + 4 * C, mask=there, other=0.0)
            result += count * LEFT * C
            level = tl.load(place + 7 * C)
            mean = tl.sum(d_read * read)
            weights, ds = _look_backward(values, more < last, hidden, level, d_read, mean)
            slope += weights[:, None] * d_read[None, :] + ds[:, None] * hidden[None, :]
        store_rows(dx, slope, more, more < end, c, C)


@triton.jit
def _weight_gradients(
    left, kept, slopes, ROWS,
    C: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, PRECISION: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """Of one gate (first axis), what comes from hidden or from read (second), part of the rows."""
    gate, part = tl.program_id(0), tl.program_id(1)
    c = tl.arange(0, BC)
    there = c[None, :] < C
    total, column = tl.zeros([BC, BC], ACC), tl.zeros([BC], ACC)
    for start in range(tl.program_id(2) * BLOCK, ROWS, tl.num_programs(2) * BLOCK):
        r = (start + tl.arange(0, BLOCK)).to(tl.int64)[:, None]
        here = (r < ROWS) & there
        d_gate = tl.load(left + (r * LEFT + gate) * C + c[None, :], mask=here, other=0.0)
        state = tl.load(kept + (r * KEPT + part) * C + c[None, :], mask=here, other=0.0)
        total += inner(d_gate, state, state, PRECISION)
        column += tl.sum(d_gate, axis=0)
    d_ih = slopes + tl.program_id(2) * (12 * C * C + 8 * C)
    d_hh, d_bias = d_ih + 8 * C * C, d_ih + 12 * C * C + gate * C + c
    store_matrix(d_ih + gate * 2 * C * C + part * C, total, c, c, C, 2 * C, C)
    if part == 0:
        store_matrix(d_hh + gate * C * C, total, c, c, C, C)
        tl.store(d_bias, column, mask=c < C)
        tl.store(d_bias + 4 * C, column, mask=c < C)


@launcher
def set_to_set(
    x: Tensor, weights: list[Tensor], steps: int, ptr: Tensor, counted: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Hidden and read after the last step, [B, 2 C], and what is kept, [steps + 1, B, 8, C]."""
    count, channels = ptr.numel() - 1, x.size(1)
    out = x.new_empty(count, 2 * channels)
    kept = x.new_empty(steps + 1, count, KEPT.value, channels, dtype=accumulator(x))
    if count:
        _forward[(count,)](
            x, ptr, ptr if counted is None else counted, *weights, out, kept, steps, channels,
            NODES, _width(channels), counted is not None, acc_type(x), num_warps=_warps(x),
        )  # fmt: skip
    return out, kept


@launcher
def set_to_set_backward(
    grad: Tensor,
    x: Tensor,
    weights: list[Tensor],
    kept: Tensor,
    ptr: Tensor,
    counted: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The gradient of x, and those of the weights one after another, [12 C² + 8 C]."""
    steps, count, channels = kept.size(0) - 1, kept.size(1), x.size(1)
    dx, left = torch.empty_like(x), kept.new_empty(steps, count, LEFT.value, channels)
    if count:
        _backward[(count,)](
            grad, x, ptr, ptr if counted is None else counted, *weights[:2], kept, left, dx, steps,
            channels, NODES, _width(channels), counted is not None, acc_type(x),
            num_warps=_warps(x),
        )  # fmt: skip
    block, rows = 8 if x.dtype == torch.float64 else 64, steps * count
    parts = max(1, min(MOST_PARTS, triton.cdiv(rows, PART)))
    slopes = kept.new_empty(parts, 12 * channels * channels + 8 * channels)
    _weight_gradients[(4, 2, parts)](
        left, kept, slopes, rows, channels, block, width(channels), precision(kept), acc_type(x),
        num_warps=4,
    )  # fmt: skip
    return dx, slopes[0] if parts == 1 else add_up(slopes)


def _width(channels: int) -> int:
    """The width of a tile; products by matrix units, which ask for 16, are not taken."""
    return max(4, int(triton.next_power_of_2(channels)))


def _warps(x: Tensor) -> int:
    """So many that the eight matrices take 64 registers of a thread, at most eight."""
    words = 8 * _width(x.size(1)) ** 2 * (2 if x.dtype == torch.float64 else 1)
    return max(1, min(8, words // (64 * 32)))
