"""Sums over neighbours: values term by term, and gradients against finite differences."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import ODD, SCHEMES, Structure, assert_same, batches, make_case, path, seeds
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from smpgnn.ops import Lift, backend, neighbor, neighbor_sum, relu_neighbor_sum


def random(rows: int, seed: int, channels: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    value = torch.randn(rows, channels, generator=generator, dtype=torch.float64)
    return value.requires_grad_()


def term_by_term(lift: Lift, terms: list[Tensor], like: Tensor) -> Tensor:
    """scale · Σ of the terms of each receiving row."""
    out = [torch.zeros_like(like[0]) for _ in range(like.size(0))]
    for target, term in zip(lift.target.tolist(), terms, strict=True):
        out[target] = out[target] + lift.scale[target] * term
    return torch.stack(out) if out else like


@pytest.mark.parametrize("identifiers", SCHEMES)
@given(graphs=batches(max_nodes=4, max_graphs=2), seed=seeds())
def test_neighbor_sum_term_by_term(identifiers: str, graphs: list[Structure], seed: int) -> None:
    index = make_case(graphs).index(identifiers)
    rows = random(index.num_rows, seed)
    terms = [rows[source] for source in index.lift.source.tolist()]
    assert_same(neighbor_sum(rows, index.lift), term_by_term(index.lift, terms, rows), None, [rows])


@pytest.mark.parametrize("with_edges", [True, False], ids=["edges", "no edges"])
@given(
    graphs=batches(max_nodes=4, max_graphs=2),
    identifiers=st.sampled_from(SCHEMES),
    chunk=st.sampled_from([1, 3, 10, 1 << 19]),
    seed=seeds(),
)
def test_relu_neighbor_sum_term_by_term(
    with_edges: bool, graphs: list[Structure], identifiers: str, chunk: int, seed: int
) -> None:
    case = make_case(graphs)
    index = case.index(identifiers)
    receiver, sender = random(index.num_rows, seed), random(index.num_rows, seed + 1)
    edge = random(case.edge_index.size(1), seed + 2) if with_edges else None
    lift = index.lift
    terms = []
    for k in range(lift.source.numel()):
        total = receiver[lift.target[k]] + sender[lift.source[k]]
        terms.append((total if edge is None else total + edge[lift.edge[k]]).relu())
    leaves = [receiver, sender] if edge is None else [receiver, sender, edge]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbor, "CHUNK", {"cpu": chunk, "cuda": chunk})
        actual = relu_neighbor_sum(receiver, sender, edge, lift)
        assert_same(actual, term_by_term(lift, terms, receiver), None, leaves)


@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("name", ["pair", "loops", "two parts", "directed cycle"])
def test_neighbor_sum_against_finite_differences(identifiers: str, name: str) -> None:
    index = make_case([ODD[name]]).index(identifiers)
    rows = random(index.num_rows, 0)
    assert gradcheck(lambda r: neighbor_sum(r, index.lift), [rows])
    assert gradgradcheck(lambda r: neighbor_sum(r, index.lift), [rows])


@pytest.mark.parametrize("chunk", [1, 7, 1 << 19])
@pytest.mark.parametrize("identifiers", SCHEMES)
def test_relu_neighbor_sum_against_finite_differences(
    monkeypatch: pytest.MonkeyPatch, identifiers: str, chunk: int
) -> None:
    monkeypatch.setattr(neighbor, "CHUNK", {"cpu": chunk, "cuda": chunk})
    case = make_case([path(3), ODD["loops"]])
    index = case.index(identifiers)
    inputs = [random(index.num_rows, 0), random(index.num_rows, 1), random(10, 2)]
    assert gradcheck(lambda r, s, e: relu_neighbor_sum(r, s, e, index.lift), inputs)
    assert gradcheck(lambda r, s: relu_neighbor_sum(r, s, None, index.lift), inputs[:2])


@given(graphs=batches(), entries=st.integers(1, 30))
def test_pieces_are_small_and_cover_all_rows_and_entries_in_order(
    graphs: list[Structure], entries: int
) -> None:
    lift = make_case(graphs).index("onehot").lift
    rows, parts = [], []
    for row, part in lift.chunks(entries):
        rows += list(range(row.start, row.stop))
        parts += list(range(part.start, part.stop))
        inside = lift.target[part]
        assert inside.numel() <= entries + max(lift.ptr.diff().tolist(), default=0)
        assert ((inside >= row.start) & (inside < row.stop)).all()
    assert rows == list(range(lift.scale.numel()))
    assert parts == list(range(lift.source.numel()))


@pytest.mark.parametrize("edges", [True, False], ids=["edges", "no edges"])
def test_the_relu_sum_has_second_derivatives(edges: bool) -> None:
    index = make_case([path(3)]).index("onehot")
    inputs = [random(9, 0), random(9, 1), *([random(4, 2)] if edges else [])]

    def function(receiver: Tensor, sender: Tensor, edge: Tensor | None = None) -> Tensor:
        return relu_neighbor_sum(receiver, sender, edge, index.lift).square()

    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)


def test_mixed_precision_takes_the_wider_one() -> None:
    index = make_case([path(3)]).index("onehot")
    receiver, sender = torch.randn(9, 2), torch.randn(9, 2).bfloat16()
    assert relu_neighbor_sum(receiver, sender, None, index.lift).dtype == torch.float32


@pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")
@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are interpreted on a CPU")
@pytest.mark.parametrize("with_edges", [True, False], ids=["edges", "no edges"])
@pytest.mark.parametrize("links", ["lift", "inside"])
def test_kernels_equal_the_plain_forms(
    links: str, with_edges: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also messages inside a context, many of which share an edge."""
    case = make_case([path(5), ODD["loops"], ODD["edgeless"], ODD["two parts"]])
    index = case.index("local", 2)
    lift = index.lift if links == "lift" else index.links.inside
    receiver, sender = random(index.num_rows, 0), random(index.num_rows, 1)
    edge = random(case.edge_index.size(1), 2) if with_edges else None
    leaves = [receiver, sender] if edge is None else [receiver, sender, edge]
    expected = relu_neighbor_sum(receiver, sender, edge, lift)
    slopes = torch.autograd.grad(expected.sin().sum(), leaves)
    monkeypatch.setattr(backend, "INTERPRETED", True)
    actual = relu_neighbor_sum(receiver, sender, edge, lift)
    assert_same(actual, expected)
    assert_same(torch.autograd.grad(actual.sin().sum(), leaves), slopes)
