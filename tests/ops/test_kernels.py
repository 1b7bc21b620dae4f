"""The Triton kernels, on a GPU or by Triton's interpreter, against the plain forms."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from odd_layouts import DEVICE, make_index
from strategies import SCHEMES, assert_same, make_case, path
from sweep import sweep
from torch import Tensor

pytest.importorskip("triton", reason="needs triton")


from smpgnn import ContextIndex
from smpgnn.contexts.topology import pointer
from smpgnn.ops import tiles
from smpgnn.ops.default_core import DefaultWeights, default_core_reference
from smpgnn.ops.default_core import kernel as default
from smpgnn.ops.fast_core import fast_core_reference
from smpgnn.ops.fast_core import kernel as fast
from smpgnn.ops.fold import fold_reference
from smpgnn.ops.fold import kernel as fold
from smpgnn.ops.moments import kernel as moments
from smpgnn.ops.moments import measure_reference
from smpgnn.ops.neighbor import kernel as neighbor
from smpgnn.ops.neighbor import neighbor_sum
from smpgnn.ops.set_map import kernel as set_map
from smpgnn.ops.set_map import set_linear_reference
from smpgnn.ops.sparse import kernel as segment
from smpgnn.ops.sparse import segment_max


def draw(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    value = torch.randn(*shape, generator=generator, dtype=torch.float64)
    return value.to(DEVICE).requires_grad_()


def gradients(out: Tensor | tuple[Tensor, ...], grads: list[Tensor], inputs: list[Tensor]) -> list:
    outs = [out] if isinstance(out, Tensor) else list(out)
    return list(torch.autograd.grad(outs, inputs, grads))


ALL = [*SCHEMES, "nodes"]
WIDTHS = [3, 16]


def once(identifiers: str, other: Any) -> bool:
    """All types of contexts with the usual value of another parameter, and one with the others."""
    return identifiers == "neighborhood" or other in (WIDTHS[0], True, (3, 3))


@pytest.mark.parametrize(("identifiers", "width"), sweep(ALL, WIDTHS, always=once))
def test_neighbor_sum_and_its_transpose(identifiers: str, width: int) -> None:
    index = make_index(identifiers)
    rows, grad = draw(index.num_rows, width), draw(index.num_rows, width, seed=1).detach()
    routes = index.routes.tensors()
    expected = neighbor_sum(rows, index.lift)
    back = gradients(expected, [grad], [rows])
    assert_same(neighbor.neighbor_sum(rows.detach(), routes, False, False), expected.detach())
    assert_same(neighbor.neighbor_sum(grad, routes, True, False), back[0])
    base = draw(index.num_rows, width, seed=2).detach()
    unscaled = neighbor.neighbor_sum(grad, routes, True, False, scaled=False, base=base)
    scale = index.lift.scale.unsqueeze(1)
    has = scale.squeeze(1) > 0
    assert_same((unscaled - base)[has] * scale[has], back[0][has])


@pytest.mark.parametrize(("identifiers", "squares"), sweep(ALL, [True, False], always=once))
def test_moments(identifiers: str, squares: bool) -> None:
    layout = make_index(identifiers).layout
    rows = draw(layout.owner.numel(), 3)
    _, *expected, _middle = measure_reference(rows, layout, True)
    count = layout.count.double()
    own, mean, within = moments.moments(rows.detach(), *layout.small, layout.multiplicity)
    middle = count @ mean / count.sum()
    total = within.sum(0) + count @ (mean - middle).square()
    assert_same([own, mean, total], [value.detach() for value in expected])
    grads = [torch.randn_like(value) for value in (rows, *expected)]
    grads[3] = grads[3] if squares else torch.zeros_like(grads[3])
    back = gradients((rows, *expected), grads, [rows])
    actual = moments.moments_backward(
        grads[0], rows.detach(), grads[1], grads[2], grads[3] if squares else None, middle,
        *layout.small, layout.count, layout.multiplicity, False,
    )  # fmt: skip
    assert_same(actual, back[0])
    found = moments.statistics(mean, within, layout.count)
    assert_same(list(found), [middle, total, count.sum().unsqueeze(0)])


@pytest.mark.parametrize(
    ("identifiers", "widths"), sweep(ALL, [(3, 3), (1, 16), (17, 2)], always=once)
)
def test_set_linear(identifiers: str, widths: tuple[int, int]) -> None:
    inside, outside = widths
    layout = make_index(identifiers).layout
    size, count = layout.owner.numel(), layout.own.numel()
    rows, matrix = draw(size, inside), draw(inside, outside)
    both, center = draw(count, 2 * outside), draw(inside)
    expected = set_linear_reference(rows, matrix, both, center, layout)
    given = [value.detach() for value in (rows, matrix, both, center)]
    owner = layout.small_owner
    assert_same(set_map.set_linear(*given, owner, *layout.small), expected.detach())
    wa, wb = (draw(outside, outside, seed=k).detach() for k in range(2))
    ba = draw(outside).detach()
    out, terms = set_map.set_linear_terms(*given, owner, *layout.small, wa, wb, ba)
    u = expected.detach()
    assert_same([out, terms], [u, torch.cat([u @ wa + ba, u @ wb], dim=1)])
    grad = torch.randn_like(expected)
    back = gradients(expected, [grad], [rows, matrix, both])
    actual = set_map.set_linear_backward(grad, given[0], given[1], given[3])
    assert_same([*actual, set_map.context_sums(grad, *layout.small)], back)


@pytest.mark.parametrize("sources", [1, 2], ids=["means", "own rows too"])
@pytest.mark.parametrize(("inside", "outside"), [(3, 3), (1, 16), (17, 2)])
def test_fold(inside: int, outside: int, sources: int) -> None:
    """The matrix, the terms and, where the rows are shifted by it, the center."""
    contexts = 37
    values, squares = (
        draw(contexts, sources, inside),
        draw(inside).detach().square().requires_grad_(),
    )
    gamma, beta = draw(inside, seed=1), draw(inside, seed=2)
    w1, bias = draw(inside, outside), draw(outside)
    terms = draw(sources, inside, 2 * outside)
    count = torch.arange(contexts, device=DEVICE) % 5
    total = count.sum().double().unsqueeze(0)
    inputs = [values, squares, gamma, beta, w1, terms, bias]
    middle = count.double() @ values[:, 0] / total
    matrix, both = fold_reference(*inputs, middle, total, 1e-5)
    given = [value.detach() for value in inputs]
    running = [torch.zeros(inside, device=DEVICE, dtype=torch.float64) for _ in range(2)]
    running.append(torch.tensor(7, device=DEVICE))
    actual = fold.fold(given[0], middle.detach(), given[1], total, *given[2:], *running, 1e-5, 0.1)
    assert running.pop() == 8
    assert_same(list(actual[:2]), [matrix.detach(), both.detach()])
    variance = given[1] / total
    assert_same(running, [0.1 * middle.detach(), 0.1 * variance * total / (total - 1)])
    grads = [torch.randn_like(matrix), torch.randn_like(both)]
    # the set map subtracts the center from the rows: its gradient is −(Σ_i d_base_i) · matrixᵀ
    d_center = -(grads[1][:, :outside].sum(0) @ matrix.detach().t())
    back = gradients((matrix, both, middle), [*grads, d_center], inputs)
    found = fold.fold_backward(
        *grads, given[0], middle.detach(), given[1], total, count, given[2], given[3], actual[2],
        given[4], given[5], 1e-5,
    )  # fmt: skip
    assert_same(found, back)


@pytest.mark.parametrize(("identifiers", "width"), sweep(ALL, WIDTHS, always=once))
def test_fast_core(identifiers: str, width: int) -> None:
    index = make_index(identifiers)
    inputs = [draw(index.num_rows, width), draw(width, width), draw(width, width, seed=1)]
    expected = fast_core_reference(*inputs, index)
    given = [value.detach() for value in inputs]
    routes = index.routes.tensors()
    out, sums = fast.fast_core(*given, routes, False)
    assert_same(out, expected.detach())
    grad = torch.randn_like(expected)
    back = gradients(expected, [grad], inputs)
    owner, scale = index.layout.small_owner, routes[2]
    du, ds, slopes = fast.fast_update_backward(grad, given[0], sums, *given[1:], owner, scale)
    du = neighbor.neighbor_sum(ds, routes, True, False, scaled=False, base=du)
    assert_same([du, *slopes], back)


NARROW = tiles.Tiling(16, 4, columns=16)
TILINGS = {
    "together": {},
    "by columns": {("terms_backward", 16): NARROW},
    "by the library": {},
}


def usual(identifiers: str, edges: bool, residuals: tuple[bool, bool], tiling: str) -> bool:
    """Each tiling once, each part of the layer once, and the whole layer with each scheme."""
    whole = edges and residuals[0]
    return (whole and tiling == "together") or (
        identifiers == "neighborhood" and (whole or tiling == "together")
    )


@pytest.mark.parametrize(
    ("identifiers", "edges", "residuals", "tiling"),
    sweep(ALL, [False, True], [(False, False), (True, True)], TILINGS, always=usual),
)
def test_default_core(
    identifiers: str,
    edges: bool,
    residuals: tuple[bool, bool],
    tiling: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tiles, "TILINGS", tiles.TILINGS | TILINGS[tiling])
    monkeypatch.setattr(tiles, "MANY", 0)
    monkeypatch.setattr(tiles, "WIDE", 16 if tiling == "by the library" else 32)
    width, index = 6, make_index(identifiers)
    u = draw(index.num_rows, width)
    assert tiles.by_library(u, width) == (tiling == "by the library")
    edge = draw(index.topology.num_edges, width) if edges else None
    matrices = [draw(width, width, seed=k) for k in range(6)]
    biases = [draw(width, seed=k) for k in range(4)]
    weights = DefaultWeights(*matrices, *biases)
    expected = default_core_reference(
        u, edge, weights, index, message_residual=residuals[0], update_residual=residuals[1]
    )
    wa, wb, wu, wr, wm, wv = (value.detach() for value in matrices)
    ba, *rest = (value.detach() for value in biases)
    v = u.detach()
    ab = torch.cat([v @ wa + ba, v @ wb], dim=1)
    e = None if edge is None else edge.detach()
    routes, arrived = index.routes.tensors(), index.routes.arrived
    passes, adds = residuals
    owner, ptr, scale = index.layout.small_owner, routes[0], routes[2]
    relus, passed = default.message_sums(v, ab, e, routes, passes, False)
    hidden, actual = default.update(
        v, relus, passed, [wu, wr, wm, wv], rest, arrived, owner, ptr, adds
    )
    assert_same(actual, expected.detach())
    grad = torch.randn_like(expected)
    wanted = [u, *([edge] if edges else []), *matrices, *biases]
    found = torch.autograd.grad([expected], wanted, [grad], allow_unused=True)
    back = [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]
    terms = torch.cat([wa, wb, wm, wu] if passes else [wa, wb, wu], dim=1)
    d_terms = torch.full_like(v @ terms, torch.nan)
    sent, others = default.update_backward(
        grad, relus, hidden, wr, wv, arrived, owner, scale, d_terms
    )
    d_edge = default.message_gradients(sent, ab, e, d_terms, routes, False)
    known = d_edge if edges else None
    du, sums = default.terms_backward(d_terms, v, terms, grad, adds, known)
    slopes, d_ba = sums[:-1].chunk(4 if passes else 3), sums[-1]
    (d_wr, d_wv), (d_br, d_bv, d_bu) = others[:-3].chunk(2), others[-3:]
    d_wm = slopes[2] if passes else torch.zeros_like(wm)
    d_matrices = [slopes[0], slopes[1], slopes[-1], d_wr, d_wm, d_wv]
    d_biases = [d_ba, d_bu, d_br, d_bv]
    assert_same([du, *([d_edge] if edges else []), *d_matrices, *d_biases], back)


@pytest.mark.parametrize(
    ("identifiers", "passes"),
    sweep(["onehot", "coloring"], [False, True], always=lambda *case: case == ("coloring", True)),
)
def test_messages_clear_rows_that_no_context_owns(identifiers: str, passes: bool) -> None:
    width, spare, index = 3, 7, make_index(identifiers)
    size, routes, terms = index.num_rows, index.routes.tensors(), 4 if passes else 3
    u, back = (draw(size + spare, width, seed=k).detach() for k in range(2))
    ab, given = draw(size + spare, 2 * width).detach(), draw(size + spare, terms * width).detach()
    ab[size:], u[size:], back[size:] = torch.nan, torch.nan, torch.nan

    def run(rows: int, padded: bool) -> list[Tensor]:
        relus, passed = default.message_sums(u[:rows], ab[:rows], None, routes, passes, padded)
        d_terms = given[:rows].clone()
        default.message_gradients(back[:rows], ab[:rows], None, d_terms, routes, padded)
        return [relus, d_terms, *([] if passed is None else [passed])]

    for padded, exact in zip(run(size + spare, True), run(size, False), strict=True):
        assert_same(padded[:size], exact)
        assert not padded[size:].any()


@pytest.mark.parametrize("identifiers", ALL)
def test_segment_sums_and_maxima(identifiers: str) -> None:
    layout = make_index(identifiers).layout
    rows = draw(layout.owner.numel(), 3)
    rows.data[::2] = rows.data[:1]  # equal largest rows share the gradient
    expected = segment_max(rows, layout.ptr, layout.owner, layout.multiplicity)
    top = segment.segment_max(rows.detach(), layout.ptr, layout.multiplicity)
    assert_same(top, expected.detach())
    grad = torch.randn_like(expected)
    back = gradients(expected, [grad], [rows])
    actual = segment.segment_max_backward(
        grad, rows.detach(), top, layout.ptr, layout.multiplicity, False
    )
    assert_same(actual, back[0])
    total = segment.segment_sum(rows.detach(), layout.ptr, None)
    assert_same(total, layout.plain[0](rows.detach()))


def test_sums_of_rows_that_are_named() -> None:
    sizes = torch.tensor([3, 0, 40, 1, 16, 0])
    ptr, rows = pointer(sizes).to(DEVICE), draw(11, 5).detach()
    index = (torch.arange(70) * 7 % 11).to(DEVICE)  # the last ten belong to no segment
    expected = torch.stack([rows[part].sum(0) for part in index[:60].split(sizes.tolist())])
    assert_same(segment.segment_sum(rows, ptr, index), expected)


def test_rows_wider_than_a_program() -> None:
    topology = make_case([path(4), path(2)]).topology.to(DEVICE)
    layout = ContextIndex.build(topology, "onehot", 2).layout
    rows = draw(int(layout.ptr[-1]), 300).requires_grad_()
    expected = segment_max(rows, layout.ptr, layout.owner)
    grad = torch.randn_like(expected)
    (back,) = torch.autograd.grad(expected, rows, grad)
    rows = rows.detach()
    top = segment.segment_max(rows, layout.ptr, None)
    assert_same(top, expected.detach())
    assert_same(segment.segment_max_backward(grad, rows, top, layout.ptr, None, False), back)
    assert_same(segment.segment_sum(rows, layout.ptr, None), layout.plain[0](rows))
