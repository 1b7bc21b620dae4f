"""Fast SMP: the equation of section 4, edge by edge, and the path a–b–c by hand."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
import torch
from hypothesis import given
from strategies import Structure, assert_same, batches, make_case, path, randomize, seeds, to_rows

from smpgnn import FastSMPLayer, InputError, LocalContext

OPTIONS: list[dict[str, Any]] = [
    {},
    {"towers": 2},
    {"divide_update": True, "towers": 2},
    {"own_terms": True, "towers": 2},
    {"set_terms": False},
]


def forward_and_oracle(
    layer: FastSMPLayer, graphs: list[Structure], identifiers: str, seed: int
) -> tuple[LocalContext, torch.Tensor, list[torch.Tensor], Any]:
    case = make_case(graphs, 0, 0, seed)
    index = case.index(identifiers)
    case = case.with_identifiers(index.table.identifier)
    generator = torch.Generator().manual_seed(seed)
    shapes = [(g.num_nodes, g.num_rows, layer.in_channels) for g in case.graphs]
    us = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]
    expected = to_rows(
        [oracle.fast_layer(layer, u, g) for u, g in zip(us, case.graphs, strict=True)]
    )
    return LocalContext(to_rows(us), index.layout), expected, us, index


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("identifiers", ["onehot", "coloring"])
@given(graphs=batches(), seed=seeds())
def test_equals_the_oracle(
    identifiers: str, options: dict[str, Any], graphs: list[Structure], seed: int
) -> None:
    layer = randomize(FastSMPLayer(4, 6, **options), seed)
    context, expected, us, index = forward_and_oracle(layer, graphs, identifiers, seed)
    assert_same(layer(context, index).rows, expected, layer, us)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_edge_by_edge_equals_the_fast_path(
    options: dict[str, Any], graphs: list[Structure], seed: int
) -> None:
    layer = randomize(FastSMPLayer(3, 6, **options), seed)
    context, _, us, index = forward_and_oracle(layer, graphs, "onehot", seed)
    assert_same(layer(context, index).rows, layer.general_forward(context, index).rows, layer, us)


def test_path_by_hand() -> None:
    """I + (A + I ⊙ A) · 3/4 = I + 3/4 A: what a node knows of itself, no neighbour knows."""
    index = make_case([path(3)], node_channels=0).index("onehot")
    layer = FastSMPLayer(1, 1).double()
    with torch.no_grad():
        for name, value in layer.named_parameters():
            value.fill_(0.0 if ".w2." in name or ".w3." in name else 1.0)
    new = layer(index.initial(None, torch.float64), index)
    expected = [[1, 0.75, 0], [0.75, 1, 0.75], [0, 0.75, 1]]
    assert new.rows.view(3, 3).tolist() == expected
    # Once more: U' = V + (A V + V ⊙ A V) 3/4 with V as above.
    v, a = torch.tensor(expected).double(), torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    av = torch.tensor([[0.75, 1, 0.75], [1, 1.5, 1], [0.75, 1, 0.75]]).double()
    assert torch.equal(a.double() @ v, av)
    second = layer(new, index).rows.view(3, 3)
    assert torch.equal(second, v + 0.75 * (av + v * av))
    # With all of the update divided by d_avg = 4/3: (I + A) 3/4.
    layer.options = layer.options.changed(divide_update=True)
    divided = layer(index.initial(None, torch.float64), index).rows.view(3, 3)
    assert torch.equal(divided, 0.75 * (torch.eye(3).double() + a))


def test_has_no_edge_features() -> None:
    with pytest.raises(InputError, match="edge_channels"):
        FastSMPLayer(2, 2, edge_channels=3)


def test_reset_parameters_draws_new_weights_of_all_parts() -> None:
    layer = FastSMPLayer(3, 4)
    before = [value.clone() for value in layer.parameters()]
    layer.reset_parameters()
    for value, old in zip(layer.parameters(), before, strict=True):
        assert not torch.equal(value, old)
