"""Neighbours weighted by gates, a node a program: one launch, and two for the gradients.

`table` [N, 4 C] has what a node gives as itself, to gates of edges that arrive, to gates of edges
that leave, and the values that pass these.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.tiles import (
    acc_type,
    clear_tail,
    columns,
    launcher,
    listed,
    load_rows,
    load_vector,
    store_rows,
)

_BLOCK = 16


@triton.jit
def _from_nodes(table, node, live, part: tl.constexpr, c, C):
    """One of the four parts of the table at these nodes."""
    at = table + node.to(tl.int64)[:, None] * 4 * C + part * C + c[None, :]
    return tl.load(at, mask=live[:, None] & (c[None, :] < C), other=0.0)


@triton.jit
def _forward(
    table, term, sender, order, ptr, rows, gate, opened, C, K, EDGES, EPS: tl.constexpr,
    BLOCK: tl.constexpr, BC: tl.constexpr, GATHER: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    if not GATHER:
        clear_tail(gate, ptr, K, EDGES, c, C, BLOCK)
        clear_tail(opened, ptr, K, EDGES, c, C, BLOCK)
    last = tl.load(ptr + node + 1)
    here = load_vector(table + node * 4 * C + C, c, C, ACC)
    total, weights = tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    for start in range(tl.load(ptr + node), last, BLOCK):
        e, live = listed(start, last, order, GATHER, BLOCK)
        j = tl.load(sender + e, mask=live, other=0)
        value = load_rows(term, e, live, c, C).to(ACC) + here[None, :]
        value += _from_nodes(table, j, live, 2, c, C).to(ACC)
        store_rows(gate, value, e, live, c, C)
        store_rows(opened, tl.maximum(value, 0.0), e, live, c, C)
        weight = tl.where(live[:, None], tl.sigmoid(value), 0.0)
        weights += tl.sum(weight, axis=0)
        total += tl.sum(weight * _from_nodes(table, j, live, 3, c, C).to(ACC), axis=0)
    out = load_vector(table + node * 4 * C, c, C, ACC) + total / (weights + EPS)
    tl.store(rows + node * C + c, tl.maximum(out, 0.0), mask=c < C)


@triton.jit
def _to_receivers(
    d_rows, d_opened, table, gate, rows, sender, order, ptr, d_table, d_gate, share, C, K, EDGES,
    EPS: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, GATHER: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of gates and of what a receiver gives; `share` is that of a weighted value."""
    node = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    there = c < C
    if not GATHER:
        clear_tail(d_gate, ptr, K, EDGES, c, C, BLOCK)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    total, weights = tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    for start in range(first, last, BLOCK):
        e, live = listed(start, last, order, GATHER, BLOCK)
        j = tl.load(sender + e, mask=live, other=0)
        weight = tl.sigmoid(load_rows(gate, e, live, c, C).to(ACC))
        weight = tl.where(live[:, None], weight, 0.0)
        weights += tl.sum(weight, axis=0)
        total += tl.sum(weight * _from_nodes(table, j, live, 3, c, C).to(ACC), axis=0)
    g = load_vector(d_rows + node * C, c, C, ACC)
    g = tl.where(load_vector(rows + node * C, c, C, ACC) > 0.0, g, 0.0)
    each, mean = g / (weights + EPS), total / (weights + EPS)
    slope = tl.zeros([BC], ACC)
    for start in range(first, last, BLOCK):
        e, live = listed(start, last, order, GATHER, BLOCK)
        j = tl.load(sender + e, mask=live, other=0)
        value = load_rows(gate, e, live, c, C).to(ACC)
        weight = tl.sigmoid(value)
        back = each[None, :] * (_from_nodes(table, j, live, 3, c, C).to(ACC) - mean[None, :])
        back = back * weight * (1.0 - weight)
        back += tl.where(value > 0.0, load_rows(d_opened, e, live, c, C).to(ACC), 0.0)
        back = tl.where(live[:, None], back, 0.0)
        store_rows(d_gate, back, e, live, c, C)
        slope += tl.sum(back, axis=0)
    tl.store(share + node * C + c, each, mask=there)
    tl.store(d_table + node * 4 * C + c, g, mask=there)
    tl.store(d_table + node * 4 * C + C + c, slope, mask=there)


@triton.jit
def _to_senders(
    gate, d_gate, share, receiver, order, ptr, d_table, C, BLOCK: tl.constexpr, BC: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """Gradients of what a sender gives to gates, and of the values that pass them."""
    node = tl.program_id(0).to(tl.int64)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    last = tl.load(ptr + node + 1)
    gates, values = tl.zeros([BC], ACC), tl.zeros([BC], ACC)
    for start in range(tl.load(ptr + node), last, BLOCK):
        e, live = listed(start, last, order, True, BLOCK)
        i = tl.load(receiver + e, mask=live, other=0)
        gates += tl.sum(load_rows(d_gate, e, live, c, C).to(ACC), axis=0)
        weight = tl.sigmoid(load_rows(gate, e, live, c, C).to(ACC))
        values += tl.sum(weight * load_rows(share, i, live, c, C).to(ACC), axis=0)
    at = d_table + node * 4 * C + c
    tl.store(at + 2 * C, gates, mask=c < C)
    tl.store(at + 3 * C, values, mask=c < C)


@launcher
def gated_sum(
    table: Tensor, term: Tensor, sender: Tensor, ptr: Tensor, order: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """The new rows, the gates, and what is above 0 of them; see `smpgnn.ops.gates`."""
    nodes, (edges, channels) = table.size(0), term.shape
    rows, (tile, tiles) = term.new_empty(nodes, channels), columns(channels)
    gate, opened = torch.empty_like(term), torch.empty_like(term)
    if nodes:
        _forward[(nodes, tiles)](
            table, term, sender, ptr if order is None else order, ptr, rows, gate, opened, channels,
            nodes, edges, eps, _BLOCK, tile, order is not None, acc_type(term), num_warps=1,
        )  # fmt: skip
    return rows, gate, opened


@launcher
def gated_sum_backward(
    d_rows: Tensor,
    d_opened: Tensor,
    table: Tensor,
    gate: Tensor,
    rows: Tensor,
    ends: tuple[Tensor, Tensor],
    arriving: tuple[Tensor, Tensor | None],
    leaving: tuple[Tensor, Tensor],
    eps: float,
) -> tuple[Tensor, Tensor]:
    """Gradients of the table and of the term of the edges; `ends` are senders and receivers."""
    nodes, (edges, channels) = table.size(0), gate.shape
    d_table, d_gate = torch.empty_like(table), torch.empty_like(gate)
    share, (tile, tiles) = torch.empty_like(rows), columns(channels)
    (ptr, order), (sender, receiver) = arriving, ends
    if nodes:
        _to_receivers[(nodes, tiles)](
            d_rows, d_opened, table, gate, rows, sender, ptr if order is None else order, ptr,
            d_table, d_gate, share, channels, nodes, edges, eps, _BLOCK, tile, order is not None,
            acc_type(gate), num_warps=1,
        )  # fmt: skip
        ptr, order = leaving
        _to_senders[(nodes, tiles)](
            gate, d_gate, share, receiver, order, ptr, d_table, channels, _BLOCK, tile,
            acc_type(gate), num_warps=1,
        )  # fmt: skip
    return d_table, d_gate
