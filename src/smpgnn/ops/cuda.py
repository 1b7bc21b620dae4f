"""The fused kernels as operators of torch: visible to autograd, torch.compile and CUDA graphs.

Every operator has a plain counterpart in torch (the functions named `…_reference` in this package),
which serves on the CPU, for derivatives of higher order, and as the standard of the tests.
"""

# no `from __future__ import annotations`: torch reads the types of the operators

from functools import wraps
from typing import Any, Optional

import torch
from torch import Tensor

from smpgnn.ops.kernels import dense, messages, moments, segment
from smpgnn.ops.kernels import fold as fold_kernels


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
def segment_sum(rows: Tensor, ptr: Tensor) -> Tensor:
    return segment.segment_sum(rows.contiguous(), ptr)


@segment_sum.register_fake
def _(rows: Tensor, ptr: Tensor) -> Tensor:
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


@_op("attend")
def attend(values: Tensor, query: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    return segment.attend(values.contiguous(), query.contiguous(), ptr)


@attend.register_fake
def _(values: Tensor, query: Tensor, ptr: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(query), query.new_empty(query.size(0), dtype=_accumulator(values))


@_op("attend_backward")
def attend_backward(
    grad: Tensor, values: Tensor, query: Tensor, out: Tensor, level: Tensor, ptr: Tensor
) -> tuple[Tensor, Tensor]:
    return segment.attend_backward(
        grad.contiguous(), values.contiguous(), query.contiguous(), out, level, ptr
    )


@attend_backward.register_fake
def _(grad: Tensor, values: Tensor, query: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(values), torch.empty_like(query)


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
    sums = messages.message_sums(u, ab, edge_term, routes, passes, padded)
    hidden, out = dense.update(u, sums, matrices, biases, arrived, owner, routes[0], adds)
    return out, sums, hidden


@default_core.register_fake
def _(
    u: Tensor,
    ab: Any,
    edge: Any,
    ms: Any,
    bs: Any,
    ar: Any,
    rt: Any,
    ow: Any,
    passes: bool,
    *_: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    sums = u.new_empty(u.size(0), (2 if passes else 1) * u.size(1))
    return torch.empty_like(u), sums, torch.empty_like(u)


@_op("default_core_backward")
def default_core_backward(
    grad: Tensor,
    u: Tensor,
    ab: Tensor,
    sums: Tensor,
    hidden: Tensor,
    edge_term: Optional[Tensor],  # noqa: UP045
    message: list[Tensor],
    matrices: list[Tensor],
    arrived: Tensor,
    routes: list[Tensor],
    owner: Tensor,
    passes: bool,
    adds: bool,
    padded: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of u, of the edge term, of W_a and W_b, of W_u, W_r, W_m and W_v, of the biases."""
    base, back, slopes, columns = dense.update_backward(
        grad.contiguous(), u, sums, hidden, matrices, arrived, owner, routes[2], adds
    )
    dab, passed, d_edge = messages.message_gradients(
        back, ab, edge_term, base, routes, passes, padded
    )
    du, others, column = dense.message_backward(dab, u, *message, passed if passes else base)
    return du, d_edge, others, slopes, column, columns


@default_core_backward.register_fake
def _(grad: Tensor, u: Tensor, ab: Any, sums: Any, hidden: Any, edge_term: Any, *_: Any) -> Any:
    channels = u.size(1)
    edges = 0 if edge_term is None else edge_term.size(0)
    shapes = (
        (edges, channels),
        (2, channels, channels),
        (4, channels, channels),
        (channels,),
        (3, channels),
    )
    return torch.empty_like(u), *(u.new_empty(shape, dtype=_accumulator(u)) for shape in shapes)


def _accumulator(rows: Tensor) -> torch.dtype:
    return torch.float64 if rows.dtype == torch.float64 else torch.float32
