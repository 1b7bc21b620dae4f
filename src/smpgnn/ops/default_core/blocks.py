"""The default layer after its set map on a CPU, block by block.

What a block of graphs needs between input and result stays in the cache. The forward pass keeps
only the values inside the update's relu; the backward pass computes the messages again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smpgnn.ops.affine import add_inner_product, groups, multiply, sums_like
from smpgnn.ops.neighbor import relu_table_gradients, relu_table_sum
from smpgnn.ops.routes import Wiring

#: W_a, W_b, W_u, W_r, W_m, W_v and b_a, b_u, b_r, b_v of `default_core`.
Weights = tuple[Tensor, ...]


def forward(
    u: Tensor,
    edge: Tensor | None,
    weights: Weights,
    wiring: Wiring,
    *,
    message_residual: bool,
    update_residual: bool,
    towers: int,
    keep: bool,
) -> tuple[Tensor, Tensor | None]:
    """The result of `default_core`, and with `keep` the values inside the relu of the update."""
    wa, wb, wu, wr, wm, wv, ba, bu, br, bv = weights
    count = groups(wa, towers)
    arrived = wiring.routes.arrived.to(u.dtype).unsqueeze(1)
    own, owner = torch.addcmul(bu, arrived, br), wiring.layout.owner
    out = torch.empty_like(u)
    kept = torch.empty_like(u) if keep else None
    for block in wiring.lift.blocks(u.size(1)):
        rows, lift = block.rows, block.lift
        x, new = u[rows], out[rows]
        hidden = torch.empty_like(x) if kept is None else kept[rows]
        table = _table(x, None if edge is None else edge[block.edges], wa, wb, ba, count)
        relus = relu_table_sum(table, lift, edge is not None)
        torch.index_select(own, 0, owner[rows], out=hidden)
        hidden.addmm_(x, wu).addmm_(relus, wr)
        if message_residual:
            hidden.addmm_(lift.receive(x), wm)
        torch.addmm(bv, hidden.relu_(), wv, out=new)
        if update_residual:
            new += x
    return out, kept


def backward(
    grad: Tensor,
    u: Tensor,
    hidden: Tensor,
    edge: Tensor | None,
    weights: Weights,
    wiring: Wiring,
    *,
    message_residual: bool,
    update_residual: bool,
    towers: int,
) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    """The gradients of u, of the edges and of the weights."""
    wa, wb, wu, wr, wm, wv, ba, *_ = weights
    count = groups(wa, towers)
    d_wa, d_wb, d_wu, d_wr, d_wm, d_wv = (sums_like(matrix) for matrix in weights[:6])
    d_ba, d_bv = sums_like(ba), sums_like(ba)
    # sums over the rows, and sums in which a row counts as often as messages have arrived
    counts = torch.stack([torch.ones_like(arrived := _arrived(wiring, u.dtype)), arrived])
    d_both = counts.new_zeros(2, u.size(1), dtype=d_ba.dtype)
    du, d_edge = torch.empty_like(u), None if edge is None else torch.zeros_like(edge)
    for block in wiring.lift.blocks(u.size(1)):
        rows, lift = block.rows, block.lift
        g, x, h, dx = grad[rows], u[rows], hidden[rows], du[rows]
        dt = g @ wv.t()  # of the values inside the relu
        torch.ops.aten.threshold_backward.grad_input(dt, h, 0, grad_input=dt)
        add_inner_product(d_wv, h, g)
        d_bv += g.sum(0)
        d_both += counts[:, rows] @ dt
        table = _table(x, None if edge is None else edge[block.edges], wa, wb, ba, count)
        relus, da, db, de = relu_table_gradients(dt @ wr.t(), table, lift, edge is not None)
        if d_edge is not None and de is not None:
            d_edge[block.edges] += de
        d_ba += da.sum(0)
        add_inner_product(d_wr, relus, dt)
        add_inner_product(d_wu, x, dt)
        multiply(dt, wu.t(), dx)
        for value, slope, matrix in ((da, d_wa, wa), (db, d_wb, wb)):
            add_inner_product(slope, x, value, count)
            multiply(value, matrix.t(), dx, count, add=True)
        if message_residual:
            sent = lift.send(dt)
            add_inner_product(d_wm, x, sent)
            multiply(sent, wm.t(), dx, add=True)
        if update_residual:
            dx += g
    d_bu, d_br = d_both
    return du, d_edge, [d_wa, d_wb, d_wu, d_wr, d_wm, d_wv, d_ba, d_bu, d_br, d_bv]


def _arrived(wiring: Wiring, dtype: torch.dtype) -> Tensor:
    """The number of messages of the context of each row, divided by d_avg, [P]."""
    return wiring.routes.arrived.to(dtype).index_select(0, wiring.layout.owner)


def _table(
    u: Tensor, edge: Tensor | None, wa: Tensor, wb: Tensor, ba: Tensor, count: int
) -> Tensor:
    """The terms of the messages in one table: receivers, then senders, then edges."""
    rows = u.size(0)
    table = u.new_empty(2 * rows + (0 if edge is None else edge.size(0)), u.size(1))
    multiply(u, wa, table[:rows].copy_(ba), count, add=True)
    multiply(u, wb, table[rows : 2 * rows], count)
    if edge is not None:
        table[2 * rows :] = edge
    return table
