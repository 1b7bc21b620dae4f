"""Sums over neighbours, shared by the kernels of both layers; messages are never written.

A program processes the rows of one context, or with lists of any rows (`relu_sums`) consecutive
rows or edges. That sum and its three gradients differ in who owns the lists: the receivers, the
senders or the edges.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.neighbor import Lift
from smpgnn.ops.tiles import (
    acc_type,
    clear_tail,
    context_tiling,
    launcher,
    load_rows,
    store_rows,
    width,
)


@triton.jit
def source_rows(r, live, first, begin, t, neighbor, lift_ptr, source, UNIFORM: tl.constexpr):
    """The rows of the t-th neighbour that correspond to the rows r of a context.

    They have the same positions if all contexts of a graph have the same rows, else see `source`.
    """
    if UNIFORM:
        return tl.load(neighbor + t) + (r - first)
    else:
        at = tl.load(lift_ptr + r, mask=live, other=0) + (t - begin)
        return tl.load(source + at, mask=live, other=0)


@triton.jit
def gather(
    x, r, live, first, node, edge_ptr, neighbor, lift_ptr, source, c, C,
    UNIFORM: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    """Σ_k x(k, j) over the neighbours k of a node, for the rows r of its context."""
    total = tl.zeros([BLOCK, BC], ACC)
    begin, end = tl.load(edge_ptr + node), tl.load(edge_ptr + node + 1)
    for t in range(begin, end):
        at = source_rows(r, live, first, begin, t, neighbor, lift_ptr, source, UNIFORM)
        total += load_rows(x, at, live, c, C).to(ACC)
    return total


@triton.jit
def _neighbor_sum(
    x, base, out, scale, ptr, edge_ptr, neighbor, lift_ptr, source, C, K, ROWS,
    BLOCK: tl.constexpr, BC: tl.constexpr, UNIFORM: tl.constexpr, BACK: tl.constexpr,
    BASE: tl.constexpr, SCALE: tl.constexpr, PADDED: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    node = tl.program_id(0)
    c = tl.arange(0, BC)
    if PADDED:
        clear_tail(out, ptr, K, ROWS, c, C, BLOCK)
    first, last = tl.load(ptr + node), tl.load(ptr + node + 1)
    for start in range(first, last, BLOCK):
        r = start + tl.arange(0, BLOCK)
        live = r < last
        if BACK and not UNIFORM:
            total = tl.zeros([BLOCK, BC], ACC)
            begin = tl.load(lift_ptr + r, mask=live, other=0)
            count = tl.load(lift_ptr + r + 1, mask=live, other=0) - begin
            for t in range(tl.max(count)):
                here = live & (t < count)
                at = tl.load(source + begin + t, mask=here, other=0)
                total += load_rows(x, at, here, c, C).to(ACC)
        else:
            total = gather(
                x, r, live, first, node, edge_ptr, neighbor, lift_ptr, source, c, C,
                UNIFORM, BLOCK, BC, ACC,
            )  # fmt: skip
        if SCALE:
            total = total * tl.load(scale + node).to(ACC)
        if BASE:
            total += load_rows(base, r, live, c, C).to(ACC)
        store_rows(out, total, r, live, c, C)


def neighbor_sum(
    rows: Tensor,
    routes: list[Tensor],
    back: bool,
    padded: bool,
    scaled: bool = True,
    base: Tensor | None = None,
) -> Tensor:
    """The sum over neighbours or (`back`) its transpose, plus `base`. See `Routes.tensors`."""
    ptr, own, scale = routes[:3]
    edge_ptr, neighbor, _, lift_ptr, source, _ = routes[9:15] if back else routes[3:9]
    contexts, channels = own.numel(), rows.size(1)
    out = torch.empty_like(rows)
    layout = context_tiling("neighbor_sum", rows, contexts, channels)
    if contexts:
        _neighbor_sum[(contexts,)](
            rows, rows if base is None else base, out, scale, ptr, edge_ptr, neighbor, lift_ptr,
            source, channels, contexts, rows.size(0), layout.block, width(channels),
            source.numel() == 0, back, base is not None, scaled, padded, acc_type(rows),
            **layout.launch,
        )  # fmt: skip
    return out


#: What is summed: the terms themselves, or where they are positive the gradient of the owner of the
#: list, or that of the receiver.
_TERM, _OWN, _RECEIVER = range(3)


@triton.jit
def _relu_lists(
    x, first, second, grad, out, ptr, i, j, SIZE, C,
    SECOND: tl.constexpr, WHAT: tl.constexpr, BLOCK: tl.constexpr, BC: tl.constexpr,
    ACC: tl.constexpr,
):  # fmt: skip
    """out_r = Σ_t f(x_r + first_{i_t} + second_{j_t}) over the entries t of r."""
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.arange(0, BC)
    live = r < SIZE
    begin = tl.load(ptr + r, mask=live, other=0)
    count = tl.load(ptr + r + 1, mask=live, other=0) - begin
    own = load_rows(x, r, live, c, C).to(ACC)
    if WHAT == 1:
        value = load_rows(grad, r, live, c, C).to(ACC)
    total = tl.zeros([BLOCK, BC], ACC)
    for t in range(tl.max(count)):
        here = live & (t < count)
        at = tl.load(i + begin + t, mask=here, other=0)
        z = own + load_rows(first, at, here, c, C).to(ACC)
        if SECOND:
            line = tl.load(j + begin + t, mask=here, other=0)
            z += load_rows(second, line, here, c, C).to(ACC)
        if WHAT == 0:
            total += tl.where(here[:, None], tl.maximum(z, 0.0), 0.0)
        else:
            if WHAT == 2:
                value = load_rows(grad, at, here, c, C).to(ACC)
            total += tl.where(here[:, None] & (z > 0.0), value, 0.0)
    store_rows(out, total, r, live, c, C)


def _sums(
    x: Tensor, first: Tensor, second: Tensor | None, grad: Tensor, lists: list[Tensor], what: int
) -> Tensor:
    out, (size, channels) = torch.empty_like(x), x.shape
    if size:
        wide = width(channels)
        block = 32 if wide <= 32 and x.dtype != torch.float64 else 16
        _relu_lists[(triton.cdiv(size, block),)](
            x, first, x if second is None else second, grad, out, *lists, size, channels,
            second is not None, what, block, wide, acc_type(x), num_warps=4,
        )  # fmt: skip
    return out


@launcher
def _forward(
    receiver: Tensor, sender: Tensor, edge: Tensor | None, scale: Tensor, lists: list[Tensor]
) -> Tensor:
    total = _sums(receiver, sender, edge, receiver, lists, _TERM)
    return total.mul_(scale.to(total.dtype).unsqueeze(1))


@launcher
def _backward(
    grad: Tensor,
    receiver: Tensor,
    sender: Tensor,
    edge: Tensor | None,
    scale: Tensor,
    lists: list[list[Tensor]],
) -> tuple[Tensor, Tensor, Tensor | None]:
    grad = grad * scale.to(grad.dtype).unsqueeze(1)
    d_receiver = _sums(receiver, sender, edge, grad, lists[0], _OWN)
    d_sender = _sums(sender, receiver, edge, grad, lists[1], _RECEIVER)
    if edge is None:
        return d_receiver, d_sender, None
    return d_receiver, d_sender, _sums(edge, receiver, sender, grad, lists[2], _RECEIVER)


def relu_sums(receiver: Tensor, sender: Tensor, edge: Tensor | None, lift: Lift) -> Tensor:
    """`relu_neighbor_sum` without autograd."""
    out: Tensor = _forward(receiver, sender, edge, lift.scale, list(lift.small[:3]))
    return out


def relu_gradients(
    grad: Tensor, receiver: Tensor, sender: Tensor, edge: Tensor | None, lift: Lift
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Its gradients; recomputes the terms."""
    lists = [list(lift.small[:3]), list(lift.small_by_source)]
    if edge is not None:
        lists.append(list(lift.small_by_edge(edge.size(0))))
    found: tuple[Tensor, Tensor, Tensor | None] = _backward(
        grad, receiver, sender, edge, lift.scale, lists
    )
    return found
