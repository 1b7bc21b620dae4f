"""The relu sum over any lists of rows, and its gradients; terms are never written.

A program processes consecutive rows (or edges) and goes through their lists. The sum and the three
gradients differ in who owns the lists: the receivers, the senders or the edges.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from smpgnn.ops.neighbor import Lift
from smpgnn.ops.tiles import acc_type, launcher, load_rows, store_rows, width

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
