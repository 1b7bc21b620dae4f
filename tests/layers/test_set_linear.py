"""The set map: the equation of section 4 and its four terms by hand."""

from __future__ import annotations

import oracle
import pytest
import torch
from hypothesis import given
from strategies import Structure, assert_same, batches, make_case, path, randomize, seeds, to_rows

from smpgnn import DefaultSMPLayer, LocalContext, SetLinear
from smpgnn.errors import InputError
from smpgnn.layers import MarkedSetLinear, MPNNLayer, RowLinear


def identity_(weight: torch.Tensor) -> None:
    with torch.no_grad():
        weight.copy_(torch.eye(weight.size(-1)).expand_as(weight))


@pytest.mark.parametrize("kind", [SetLinear, MarkedSetLinear])
@pytest.mark.parametrize("towers", [1, 2])
@pytest.mark.parametrize("identifiers", ["onehot", "coloring"])
@given(graphs=batches(), seed=seeds())
def test_equals_the_equation(
    identifiers: str, towers: int, kind: type[SetLinear], graphs: list[Structure], seed: int
) -> None:
    case = make_case(graphs, seed=seed)
    index = case.index(identifiers)
    case = case.with_identifiers(index.table.identifier)
    us = [torch.randn(g.num_nodes, g.num_rows, 4, dtype=torch.float64) for g in case.graphs]
    rows = to_rows(us).requires_grad_()
    module = randomize(kind(4, 6, towers), seed)
    actual = module(LocalContext(rows, index.layout)).rows
    split = rows.split([u.size(0) * u.size(1) for u in us])
    us = [part.view(u.shape) for part, u in zip(split, us, strict=True)]
    expected = [oracle.set_map(module, u, g) for u, g in zip(us, case.graphs, strict=True)]
    assert_same(actual, to_rows(expected), module, [rows])


def test_each_term_by_hand() -> None:
    index = make_case([path(3)]).index("onehot")
    rows = torch.tensor([[3.0], [0], [0], [0], [6], [0], [9], [0], [3]])
    context = LocalContext(rows, index.layout)
    module = MarkedSetLinear(1, 1)
    for term, values in {
        "w1": [3, 0, 0, 0, 6, 0, 9, 0, 3],
        "w2": [1, 1, 1, 2, 2, 2, 4, 4, 4],
        "c": [1, 1, 1, 1, 1, 1, 1, 1, 1],
        "w3": [1, 0, 0, 0, 2, 0, 0, 0, 4],
        "own_to_all": [3, 3, 3, 6, 6, 6, 3, 3, 3],
        "own_to_own": [3, 0, 0, 0, 6, 0, 0, 0, 3],
    }.items():
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.zero_()
            (module.w2.bias if term == "c" else getattr(module, term).weight).fill_(1)
        assert module(context).rows.flatten().tolist() == values


def test_set_scale_multiplies_the_initial_set_terms_only() -> None:
    torch.manual_seed(0)
    whole = SetLinear(3, 4)
    torch.manual_seed(0)
    scaled = SetLinear(3, 4, set_scale=0.25)
    assert torch.equal(scaled.w1.weight, whole.w1.weight)
    assert torch.equal(scaled.w2.weight, 0.25 * whole.w2.weight)
    assert torch.equal(scaled.w2.bias, whole.w2.bias)
    assert torch.equal(scaled.w3.weight, 0.25 * whole.w3.weight)


@pytest.mark.parametrize("kind", [SetLinear, MarkedSetLinear])
def test_reset_parameters_draws_as_the_constructor_does(kind: type[SetLinear]) -> None:
    torch.manual_seed(1)
    module = kind(3, 4, set_scale=0.5)
    first = [value.clone() for value in module.parameters()]
    torch.manual_seed(1)
    module.reset_parameters()
    for value, before in zip(module.parameters(), first, strict=True):
        assert torch.equal(value, before)


def test_row_linear_maps_each_row_by_itself() -> None:
    index = make_case([path(2)]).index("onehot")
    module = RowLinear(1, 1)
    identity_(module.w1.weight)
    with torch.no_grad():
        module.w1.bias.fill_(10)
    rows = torch.tensor([[1.0], [2], [3], [4]])
    assert module(LocalContext(rows, index.layout)).rows.flatten().tolist() == [11, 12, 13, 14]


@pytest.mark.parametrize("make", [MPNNLayer, DefaultSMPLayer])
def test_own_terms_need_contexts_and_their_mean(make: type[DefaultSMPLayer]) -> None:
    with pytest.raises(InputError, match="own_terms"):
        make(3, 4, own_terms=True, set_terms=False)
