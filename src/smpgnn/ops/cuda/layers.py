"""The layers of SMP: norm folded into the set map, the set map, fast and default core."""

# no `from __future__ import annotations`: torch reads the types of the operators

from typing import Any, Optional

import torch
from torch import Tensor

from smpgnn.ops.cuda.operator import operator
from smpgnn.ops.kernels import batch_norm as batch_norm_kernels
from smpgnn.ops.kernels import dense, messages, moments
from smpgnn.ops.kernels import fold as fold_kernels
from smpgnn.ops.kernels.tiles import accumulator


@operator("batch_norm", mutates=("running_mean", "running_var", "batches"))
def batch_norm(
    rows: Tensor,
    ptr: Tensor,
    gamma: Tensor,
    beta: Tensor,
    middle: Tensor,
    squares: Tensor,
    total: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    batches: Tensor,
    eps: float,
    momentum: float,
) -> Tensor:
    return batch_norm_kernels.batch_norm(
        rows.contiguous(), ptr, gamma, beta, middle, squares, total, running_mean, running_var,
        batches, eps, momentum,
    )  # fmt: skip


@batch_norm.register_fake
def _(rows: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(rows)


@operator("batch_norm_backward")
def batch_norm_backward(
    grad: Tensor,
    rows: Tensor,
    ptr: Tensor,
    multiplicity: Optional[Tensor],  # noqa: UP045
    gamma: Tensor,
    middle: Tensor,
    squares: Tensor,
    total: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """The gradient of the rows, and those of shift and scale."""
    return batch_norm_kernels.batch_norm_backward(
        grad.contiguous(), rows.contiguous(), ptr, multiplicity, gamma, middle, squares, total, eps
    )


@batch_norm_backward.register_fake
def _(grad: Any, rows: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(rows), rows.new_empty(2, rows.size(1), dtype=accumulator(rows))


@operator("fold", mutates=("running_mean", "running_var", "batches"))
def fold(
    values: Tensor,
    middle: Tensor,
    squares: Tensor,
    total: Tensor,
    gamma: Tensor,
    beta: Tensor,
    w1: Tensor,
    terms: Tensor,
    bias: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    batches: Tensor,
    eps: float,
    momentum: float,
) -> tuple[Tensor, Tensor, Tensor]:
    return fold_kernels.fold(
        values.contiguous(), middle, squares, total, gamma, beta, w1.contiguous(),
        terms.contiguous(), bias.contiguous(), running_mean, running_var, batches, eps,
        momentum,
    )  # fmt: skip


@fold.register_fake
def _(values: Tensor, middle: Tensor, sq: Any, t: Any, g: Any, b: Any, w1: Tensor, *_: Any) -> Any:
    both = w1.new_empty(values.size(0), 2 * w1.size(1))
    return torch.empty_like(w1), both, torch.empty_like(middle)


@operator("fold_backward")
def fold_backward(
    d_matrix: Tensor,
    d_both: Tensor,
    values: Tensor,
    middle: Tensor,
    squares: Tensor,
    total: Tensor,
    count: Tensor,
    gamma: Tensor,
    beta: Tensor,
    scale: Tensor,
    w1: Tensor,
    terms: Tensor,
    eps: float,
) -> list[Tensor]:
    return fold_kernels.fold_backward(
        d_matrix.contiguous(), d_both.contiguous(), values.contiguous(), middle, squares, total,
        count, gamma, beta, scale, w1.contiguous(), terms.contiguous(), eps,
    )  # fmt: skip


@fold_backward.register_fake
def _(
    dm: Any, db: Any, values: Tensor, mi: Any, sq: Tensor, t: Any, n: Any, g: Any, b: Any, s: Any,
    w1: Tensor, terms: Tensor, eps: Any,
) -> Any:  # fmt: skip
    acc = accumulator(values)
    vectors = [sq.new_empty(w1.size(0), dtype=acc) for _ in range(3)]
    weights = [w1.new_empty(w.shape, dtype=acc) for w in (w1, terms)]
    return [torch.empty_like(values), *vectors, *weights, w1.new_empty(w1.size(1), dtype=acc)]


@operator("set_linear")
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


@operator("set_linear_terms")
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


@operator("set_linear_backward")
def set_linear_backward(
    grad: Tensor, rows: Tensor, matrix: Tensor, center: Tensor, ptr: Tensor, own: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the rows, of the matrix, and of the terms of the contexts."""
    grad = grad.contiguous()
    dx, slope = dense.set_linear_backward(grad, rows.contiguous(), matrix.contiguous(), center)
    return dx, slope, moments.sums(grad, ptr, own)


@set_linear_backward.register_fake
def _(grad: Tensor, rows: Tensor, matrix: Tensor, center: Any, ptr: Any, own: Tensor) -> Any:
    acc = accumulator(rows)
    both = rows.new_empty(own.numel(), 2 * matrix.size(1), dtype=acc)
    return torch.empty_like(rows), matrix.new_empty(matrix.shape, dtype=acc), both


@operator("fast_core")
def fast_core(
    u: Tensor, w4: Tensor, w5: Tensor, routes: list[Tensor], padded: bool
) -> tuple[Tensor, Tensor]:
    return messages.fast(u.contiguous(), w4.contiguous(), w5.contiguous(), routes, padded)


@fast_core.register_fake
def _(u: Tensor, w4: Tensor, w5: Tensor, routes: Any, padded: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(u), torch.empty_like(u)


@operator("fast_core_backward")
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
    return torch.empty_like(u), w4.new_empty(2, *w4.shape, dtype=accumulator(u))


@operator("default_core")
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


@operator("default_core_backward")
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
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of u, of the edge term, of the terms' matrices and b_a, and of W_r, W_v, b_r, ….

    `terms` are W_a, W_b, W_m where the neighbour's own context passes, and W_u. See
    `dense.terms_backward` and `dense.update_backward`.
    """
    grad = grad.contiguous()
    d_terms = u.new_empty(u.size(0), len(terms) * u.size(1))
    back, others = dense.update_backward(
        grad, relus, hidden, wr, wv, arrived, owner, routes[2], d_terms
    )
    d_edge = messages.message_gradients(back, ab, edge_term, d_terms, routes, padded)
    edges = None if edge_term is None else d_edge
    matrix = torch.cat(terms, 1)
    du, first = dense.terms_backward(d_terms, u, matrix, grad, adds, edges)
    return du, d_edge, first, others


@default_core_backward.register_fake
def _(
    grad: Any, u: Tensor, ab: Any, relus: Any, hidden: Any, edge_term: Any, terms: Any, *_: Any
) -> Any:
    channels, count = u.size(1), len(terms)
    edges = 0 if edge_term is None else edge_term.size(0)
    shapes = (
        (edges, channels),
        (count * channels + 1, channels),
        (2 * channels + 3, channels),
    )
    return torch.empty_like(u), *(u.new_empty(shape, dtype=accumulator(u)) for shape in shapes)
