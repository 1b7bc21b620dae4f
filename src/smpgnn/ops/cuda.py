"""The fused kernels as operators of torch: visible to autograd, torch.compile and CUDA graphs.

Every operator has a plain counterpart in torch (the functions named `…_reference` in this package),
which serves on the CPU, for derivatives of higher order, and as the standard of the tests.
"""

# no `from __future__ import annotations`: torch reads the types of the operators

from functools import wraps
from typing import Any, Optional

import torch
from torch import Tensor

from smpgnn.ops.kernels import dense, messages, moments, segment, square
from smpgnn.ops.kernels import fold as fold_kernels
from smpgnn.ops.kernels import perceptron as perceptron_kernels
from smpgnn.ops.kernels import set_to_set as set_to_set_kernels


def _op(name: str, mutates: tuple[str, ...] = ()) -> Any:
    """Register a function as an operator; it runs on the GPU of its first tensor."""

    def register(function: Any) -> Any:
        @wraps(function)
        def on_its_device(*arguments: Any) -> Any:
            with torch.cuda.device_of(next(a for a in arguments if isinstance(a, Tensor))):
                return function(*arguments)

        return torch.library.custom_op(f"smpgnn::{name}", on_its_device, mutates_args=mutates)

    return register


@_op("segment_sum")
def segment_sum(rows: Tensor, ptr: Tensor, index: Optional[Tensor]) -> Tensor:  # noqa: UP045
    return segment.segment_sum(rows.contiguous(), ptr, index)


@segment_sum.register_fake
def _(rows: Tensor, ptr: Tensor, index: Any) -> Tensor:
    return rows.new_empty(ptr.numel() - 1, rows.size(1))


@_op("segment_max")
def segment_max(rows: Tensor, ptr: Tensor, counted: Optional[Tensor]) -> Tensor:  # noqa: UP045
    return segment.segment_max(rows.contiguous(), ptr, counted)


@segment_max.register_fake
def _(rows: Tensor, ptr: Tensor, counted: Any) -> Tensor:
    return rows.new_empty(ptr.numel() - 1, rows.size(1))


@_op("segment_max_backward")
def segment_max_backward(
    grad: Tensor,
    rows: Tensor,
    top: Tensor,
    ptr: Tensor,
    counted: Optional[Tensor],  # noqa: UP045
    padded: bool,
) -> Tensor:
    return segment.segment_max_backward(
        grad.contiguous(), rows.contiguous(), top, ptr, counted, padded
    )


@segment_max_backward.register_fake
def _(grad: Tensor, rows: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(rows)


@_op("set_to_set")
def set_to_set(
    x: Tensor, weights: list[Tensor], steps: int, ptr: Tensor, counted: Optional[Tensor]  # noqa: UP045
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Hidden and read after the last step, and what is kept of all steps."""
    weights = [weight.contiguous() for weight in weights]
    return set_to_set_kernels.set_to_set(x.contiguous(), weights, steps, ptr, counted)


@set_to_set.register_fake
def _(x: Tensor, weights: Any, steps: int, ptr: Tensor, counted: Any) -> tuple[Tensor, Tensor]:
    count, channels = ptr.numel() - 1, x.size(1)
    kept = x.new_empty(steps + 1, count, 8, channels, dtype=_accumulator(x))
    return x.new_empty(count, 2 * channels), kept


@_op("set_to_set_backward")
def set_to_set_backward(
    grad: Tensor,
    x: Tensor,
    weights: list[Tensor],
    kept: Tensor,
    ptr: Tensor,
    counted: Optional[Tensor],  # noqa: UP045
) -> tuple[Tensor, Tensor]:
    """The gradient of x, and those of the weights one after another."""
    weights = [weight.contiguous() for weight in weights]
    return set_to_set_kernels.set_to_set_backward(
        grad.contiguous(), x.contiguous(), weights, kept, ptr, counted
    )


@set_to_set_backward.register_fake
def _(grad: Tensor, x: Tensor, weights: list[Tensor], kept: Tensor, *_: Any) -> Any:
    return torch.empty_like(x), kept.new_empty(sum(weight.numel() for weight in weights))


@_op("moments")
def measure(
    rows: Tensor, ptr: Tensor, own: Tensor, count: Tensor, multiplicity: Optional[Tensor],  # noqa: UP045
    squares: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Own row and mean of each context; mean, centred squares and number of all rows."""
    own_rows, mean, within = moments.moments(rows.contiguous(), ptr, own, multiplicity)
    if not squares:
        nothing = mean.new_zeros(rows.size(1))
        return own_rows, mean, nothing, nothing.clone(), mean.new_ones(1)
    middle, spread, total = fold_kernels.statistics(mean, within, count)
    return own_rows, mean, middle, spread, total


@measure.register_fake
def _(rows: Tensor, ptr: Any, own: Tensor, count: Any, multiplicity: Any, squares: Any) -> Any:
    small = rows.new_empty(own.numel(), rows.size(1))
    vector = rows.new_empty(rows.size(1), dtype=_accumulator(rows))
    return small, small.to(vector.dtype), vector, vector.clone(), vector.new_empty(1)


@_op("moments_backward")
def measure_backward(
    grad: Optional[Tensor],  # noqa: UP045
    rows: Tensor,
    d_own: Optional[Tensor],  # noqa: UP045
    d_mean: Optional[Tensor],  # noqa: UP045
    d_squares: Optional[Tensor],  # noqa: UP045
    middle: Tensor,
    ptr: Tensor,
    own: Tensor,
    count: Tensor,
    multiplicity: Optional[Tensor],  # noqa: UP045
    padded: bool,
) -> Tensor:
    return moments.moments_backward(
        *(None if part is None else part.contiguous() for part in (grad, rows, d_own, d_mean)),
        d_squares, middle, ptr, own, count, multiplicity, padded,
    )  # fmt: skip


@measure_backward.register_fake
def _(grad: Any, rows: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(rows)


@_op("fold", mutates=("running_mean", "running_var"))
def fold(
    mean: Tensor,
    middle: Tensor,
    squares: Tensor,
    total: Tensor,
    gamma: Tensor,
    beta: Tensor,
    w1: Tensor,
    w23: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    eps: float,
    momentum: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return fold_kernels.fold(
        mean.contiguous(), middle, squares, total, gamma, beta, w1.contiguous(), w23.contiguous(),
        bias.contiguous(), running_mean, running_var, eps, momentum,
    )  # fmt: skip


@fold.register_fake
def _(mean: Tensor, middle: Tensor, sq: Any, t: Any, g: Any, b: Any, w1: Tensor, *_: Any) -> Any:
    both = w1.new_empty(mean.size(0), 2 * w1.size(1))
    return torch.empty_like(w1), both, torch.empty_like(middle)


@_op("fold_backward")
def fold_backward(
    d_matrix: Tensor,
    d_both: Tensor,
    mean: Tensor,
    middle: Tensor,
    squares: Tensor,
    total: Tensor,
    count: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    w1: Tensor,
    w23: Tensor,
    eps: float,
) -> list[Tensor]:
    return fold_kernels.fold_backward(
        d_matrix.contiguous(), d_both.contiguous(), mean.contiguous(), middle, squares, total,
        count, gamma, beta, scale, w1.contiguous(), w23.contiguous(), eps,
    )  # fmt: skip


@fold_backward.register_fake
def _(
    dm: Any, db: Any, mean: Tensor, mi: Any, sq: Tensor, t: Any, n: Any, g: Any, b: Any, s: Any,
    w1: Tensor, w23: Tensor, eps: Any,
) -> Any:  # fmt: skip
    acc = _accumulator(mean)
    vectors = [sq.new_empty(w1.size(0), dtype=acc) for _ in range(3)]
    weights = [w1.new_empty(w.shape, dtype=acc) for w in (w1, w23)]
    return [torch.empty_like(mean), *vectors, *weights, w1.new_empty(w1.size(1), dtype=acc)]


@_op("set_linear")
def set_linear(
    rows: Tensor, matrix: Tensor, both: Tensor, center: Tensor, owner: Tensor, ptr: Tensor,
    own: Tensor,
) -> Tensor:  # fmt: skip
    return dense.set_linear(
        rows.contiguous(), matrix.contiguous(), both.contiguous(), center, owner, ptr, own
    )


@set_linear.register_fake
def _(rows: Tensor, matrix: Tensor, *_: Any) -> Tensor:
    return rows.new_empty(rows.size(0), matrix.size(1))


@_op("set_linear_terms")
def set_linear_terms(
    rows: Tensor, matrix: Tensor, both: Tensor, center: Tensor, owner: Tensor, ptr: Tensor,
    own: Tensor, wa: Tensor, wb: Tensor, ba: Tensor,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    return dense.set_linear_terms(
        rows.contiguous(), matrix.contiguous(), both.contiguous(), center, owner, ptr, own,
        wa.contiguous(), wb.contiguous(), ba.contiguous(),
    )  # fmt: skip


@set_linear_terms.register_fake
def _(rows: Tensor, matrix: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    size, width = rows.size(0), matrix.size(1)
    return rows.new_empty(size, width), rows.new_empty(size, 2 * width)


@_op("set_linear_backward")
def set_linear_backward(
    grad: Tensor, rows: Tensor, matrix: Tensor, center: Tensor, ptr: Tensor, own: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the rows, of the matrix, and of the terms of the contexts."""
    grad = grad.contiguous()
    dx, slope = dense.set_linear_backward(grad, rows.contiguous(), matrix.contiguous(), center)
    return dx, slope, moments.sums(grad, ptr, own)


@set_linear_backward.register_fake
def _(grad: Tensor, rows: Tensor, matrix: Tensor, center: Any, ptr: Any, own: Tensor) -> Any:
    acc = _accumulator(rows)
    both = rows.new_empty(own.numel(), 2 * matrix.size(1), dtype=acc)
    return torch.empty_like(rows), matrix.new_empty(matrix.shape, dtype=acc), both


@_op("fast_core")
def fast_core(
    u: Tensor, w4: Tensor, w5: Tensor, routes: list[Tensor], padded: bool
) -> tuple[Tensor, Tensor]:
    return messages.fast(u.contiguous(), w4.contiguous(), w5.contiguous(), routes, padded)


@fast_core.register_fake
def _(u: Tensor, w4: Tensor, w5: Tensor, routes: Any, padded: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(u), torch.empty_like(u)


@_op("fast_core_backward")
def fast_core_backward(
    grad: Tensor,
    u: Tensor,
    s: Tensor,
    w4: Tensor,
    w5: Tensor,
    routes: list[Tensor],
    owner: Tensor,
    padded: bool,
) -> tuple[Tensor, Tensor]:
    du, ds, slopes = dense.fast_update_backward(
        grad.contiguous(), u.contiguous(), s, w4.contiguous(), w5.contiguous(), owner, routes[2]
    )
    return messages.neighbor_sum(ds, routes, True, padded, scaled=False, base=du), slopes


@fast_core_backward.register_fake
def _(grad: Tensor, u: Tensor, s: Tensor, w4: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(u), w4.new_empty(2, *w4.shape, dtype=_accumulator(u))


@_op("default_core")
def default_core(
    u: Tensor,
    ab: Tensor,
    edge_term: Optional[Tensor],  # noqa: UP045
    matrices: list[Tensor],
    biases: list[Tensor],
    arrived: Tensor,
    routes: list[Tensor],
    owner: Tensor,
    passes: bool,
    adds: bool,
    padded: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    relus, passed = messages.message_sums(u, ab, edge_term, routes, passes, padded)
    hidden, out = dense.update(u, relus, passed, matrices, biases, arrived, owner, routes[0], adds)
    return out, relus, hidden


@default_core.register_fake
def _(u: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(u), torch.empty_like(u), torch.empty_like(u)


@_op("default_core_backward")
def default_core_backward(
    grad: Tensor,
    u: Tensor,
    ab: Tensor,
    relus: Tensor,
    hidden: Tensor,
    edge_term: Optional[Tensor],  # noqa: UP045
    terms: list[Tensor],
    wr: Tensor,
    wv: Tensor,
    arrived: Tensor,
    routes: list[Tensor],
    owner: Tensor,
    adds: bool,
    padded: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of u, of the edge term, of the terms' matrices, of W_r, W_v, and of the biases.

    `terms` are W_a, W_b, W_m where the neighbour's own context passes, and W_u.
    """
    grad = grad.contiguous()
    d_terms = u.new_empty(u.size(0), len(terms) * u.size(1))
    back, slopes, columns = dense.update_backward(
        grad, relus, hidden, wr, wv, arrived, owner, routes[2], d_terms
    )
    d_edge = messages.message_gradients(back, ab, edge_term, d_terms, routes, padded)
    edges = None if edge_term is None else d_edge
    matrix = torch.cat(terms, 1)
    du, others, first = dense.terms_backward(d_terms, u, matrix, grad, adds, edges)
    return du, d_edge, others, slopes, first, columns


@default_core_backward.register_fake
def _(
    grad: Any, u: Tensor, ab: Any, relus: Any, hidden: Any, edge_term: Any, terms: Any, *_: Any
) -> Any:
    channels, count = u.size(1), len(terms)
    edges = 0 if edge_term is None else edge_term.size(0)
    shapes = (
        (edges, channels),
        (count, channels, channels),
        (2, channels, channels),
        (channels,),
        (3, channels),
    )
    return torch.empty_like(u), *(u.new_empty(shape, dtype=_accumulator(u)) for shape in shapes)


@_op("perceptron")
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


@_op("perceptron_backward")
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
    return torch.empty_like(x), dy, x.new_empty(total, dtype=_accumulator(x))


@_op("squares")
def squares(
    rows: Tensor, ptr: Tensor, graph_ptr: Tensor, size: int, real: int, scaled: bool
) -> Tensor:
    return square.squares(rows.contiguous(), ptr, graph_ptr, size, real, scaled)


@squares.register_fake
def _(rows: Tensor, ptr: Any, graph_ptr: Tensor, size: int, real: Any, scaled: Any) -> Tensor:
    return rows.new_empty(graph_ptr.numel() - 1, rows.size(1), size, size)


@_op("pairs")
def pairs(
    full: Tensor, ptr: Tensor, graph_ptr: Tensor, num_rows: int, real: int, scaled: bool
) -> Tensor:
    return square.pairs(full.contiguous(), ptr, graph_ptr, num_rows, real, scaled)


@pairs.register_fake
def _(full: Tensor, ptr: Any, graph_ptr: Any, num_rows: int, real: Any, scaled: Any) -> Tensor:
    return full.new_empty(num_rows, full.size(1))


@_op("column_sums")
def column_sums(
    rows: Tensor, ptr: Tensor, graph_ptr: Tensor, num_nodes: int, size: int, real: int
) -> Tensor:
    return square.column_sums(rows.contiguous(), ptr, graph_ptr, num_nodes, size, real)


@column_sums.register_fake
def _(rows: Tensor, ptr: Any, graph_ptr: Any, num_nodes: int, size: Any, real: Any) -> Tensor:
    return rows.new_empty(num_nodes, rows.size(1))


def _accumulator(rows: Tensor) -> torch.dtype:
    return torch.float64 if rows.dtype == torch.float64 else torch.float32
