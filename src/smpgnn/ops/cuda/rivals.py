"""What rivals ask for: perceptrons on rows, matrices of node pairs."""

# no `from __future__ import annotations`: torch reads the types of the operators

from typing import Any, Optional

import torch
from torch import Tensor

from smpgnn.ops.cuda.operator import operator
from smpgnn.ops.kernels import perceptron as perceptron_kernels
from smpgnn.ops.kernels import square
from smpgnn.ops.kernels.tiles import accumulator


@operator("perceptron")
def perceptron(
    x: Tensor,
    center: Tensor,
    y: Optional[Tensor],  # noqa: UP045
    wx: Tensor,
    wy: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    ptr: Tensor,
) -> Tensor:
    return perceptron_kernels.perceptron(x, center, y, wx, wy, b1, w2, b2, ptr)


@perceptron.register_fake
def _(
    x: Tensor, center: Any, y: Any, wx: Any, wy: Any, b1: Any, w2: Tensor, b2: Any, ptr: Any
) -> Tensor:
    return x.new_empty(x.size(0), w2.size(0))


@operator("perceptron_backward")
def perceptron_backward(
    grad: Tensor,
    x: Tensor,
    center: Tensor,
    y: Optional[Tensor],  # noqa: UP045
    wx: Tensor,
    wy: Tensor,
    b1: Tensor,
    w2: Tensor,
    ptr: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    dx, dy, flat = perceptron_kernels.perceptron_backward(
        grad.contiguous(), x, center, y, wx, wy, b1, w2, ptr
    )
    return dx, x.new_empty(0) if dy is None else dy, flat


@perceptron_backward.register_fake
def _(
    grad: Any, x: Tensor, center: Any, y: Any, wx: Tensor, wy: Tensor, b1: Tensor, w2: Tensor,
    ptr: Any,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    total = wx.numel() + w2.numel() + b1.numel() + w2.size(0)
    total += 0 if y is None else wy.numel()
    dy = x.new_empty(0) if y is None else torch.empty_like(y)
    return torch.empty_like(x), dy, x.new_empty(total, dtype=accumulator(x))


@operator("squares")
def squares(
    rows: Tensor, ptr: Tensor, graph_ptr: Tensor, size: int, real: int, scaled: bool
) -> Tensor:
    return square.squares(rows.contiguous(), ptr, graph_ptr, size, real, scaled)


@squares.register_fake
def _(rows: Tensor, ptr: Any, graph_ptr: Tensor, size: int, real: Any, scaled: Any) -> Tensor:
    return rows.new_empty(graph_ptr.numel() - 1, rows.size(1), size, size)


@operator("pairs")
def pairs(
    full: Tensor, ptr: Tensor, graph_ptr: Tensor, num_rows: int, real: int, scaled: bool
) -> Tensor:
    return square.pairs(full.contiguous(), ptr, graph_ptr, num_rows, real, scaled)


@pairs.register_fake
def _(full: Tensor, ptr: Any, graph_ptr: Any, num_rows: int, real: Any, scaled: Any) -> Tensor:
    return full.new_empty(num_rows, full.size(1))


@operator("column_sums")
def column_sums(
    rows: Tensor, ptr: Tensor, graph_ptr: Tensor, num_nodes: int, size: int, real: int
) -> Tensor:
    return square.column_sums(rows.contiguous(), ptr, graph_ptr, num_nodes, size, real)


@column_sums.register_fake
def _(rows: Tensor, ptr: Any, graph_ptr: Any, num_nodes: int, size: Any, real: Any) -> Tensor:
    return rows.new_empty(num_nodes, rows.size(1))
