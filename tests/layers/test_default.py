"""Default SMP: the equations of section 4, edge by edge, and the path a–b–c by hand."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import Structure, assert_same, batches, make_case, path, randomize, seeds, to_rows

from smpgnn import DefaultSMPLayer, LocalContext
from smpgnn.ops import neighbor

OPTIONS: list[dict[str, Any]] = [
    {},
    {"towers": 2},
    {"message_residual": True},
    {"update_residual": True},
    {"towers": 2, "message_residual": True, "update_residual": True},
    {"divide_update": True},
    {"own_terms": True, "towers": 2},
    {"set_terms": False, "towers": 2},
    {"divide_update": True, "message_residual": True, "update_residual": True},
]


def forward_and_oracle(
    layer: DefaultSMPLayer, graphs: list[Structure], identifiers: str, seed: int
) -> tuple[LocalContext, torch.Tensor, list[torch.Tensor], Any]:
    """The layer on random contexts, the oracle on the same ones, and the leaves of both."""
    case = make_case(graphs, 0, layer.edge_channels, seed)
    index = case.index(identifiers)
    case = case.with_identifiers(index.table.identifier)
    generator = torch.Generator().manual_seed(seed)
    shapes = [(g.num_nodes, g.num_rows, layer.in_channels) for g in case.graphs]
    us = [torch.randn(s, generator=generator, dtype=torch.float64).requires_grad_() for s in shapes]
    context = LocalContext(to_rows(us), index.layout)
    expected = to_rows(
        [oracle.default_layer(layer, u, g) for u, g in zip(us, case.graphs, strict=True)]
    )
    return context, expected, [*us, *case.leaves()], (index, case.edge_attr)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("identifiers", ["onehot", "coloring"])
@given(graphs=batches(), edge_channels=st.sampled_from([0, 3]), seed=seeds())
def test_equals_the_oracle(
    identifiers: str,
    options: dict[str, Any],
    graphs: list[Structure],
    edge_channels: int,
    seed: int,
) -> None:
    layer = randomize(DefaultSMPLayer(4, 6, edge_channels, **options), seed)
    context, expected, leaves, rest = forward_and_oracle(layer, graphs, identifiers, seed)
    assert_same(layer(context, *rest).rows, expected, layer, leaves)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), edge_channels=st.sampled_from([0, 3]), seed=seeds())
def test_edge_by_edge_equals_the_fast_path(
    options: dict[str, Any], graphs: list[Structure], edge_channels: int, seed: int
) -> None:
    layer = randomize(DefaultSMPLayer(4, 6, edge_channels, **options), seed)
    context, _, leaves, rest = forward_and_oracle(layer, graphs, "onehot", seed)
    assert_same(
        layer(context, *rest).rows, layer.general_forward(context, *rest).rows, layer, leaves
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_weights_of_several_layers_at_once(options: dict[str, Any]) -> None:
    """Layers whose weights are assembled in one batch equal layers that assemble their own."""
    case = make_case([path(4), path(2)], 0, 3)
    index = case.index("onehot")
    layers = torch.nn.ModuleList(DefaultSMPLayer(c, 6, 3, **options) for c in (4, 6, 6))
    randomize(layers)
    rows = torch.randn(index.num_rows, 4, dtype=torch.float64, requires_grad=True)
    one = other = LocalContext(rows, index.layout)
    for layer, weights in zip(layers, DefaultSMPLayer.assemble_weights(list(layers)), strict=True):
        one = layer(one, index, case.edge_attr, None, weights)
        other = layer(other, index, case.edge_attr)
    assert_same(one.rows, other.rows, layers, [rows, *case.leaves()])


@given(graphs=batches(), seed=seeds(), chunk=st.integers(1, 40))
def test_the_size_of_the_pieces_changes_nothing(
    graphs: list[Structure], seed: int, chunk: int
) -> None:
    layer = randomize(DefaultSMPLayer(4, 6, 2), seed)
    context, expected, leaves, rest = forward_and_oracle(layer, graphs, "onehot", seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(neighbor, "CHUNK", {"cpu": chunk, "cuda": chunk})
        assert_same(layer(context, *rest).rows, expected, layer, leaves)


def identity_layer(edge_channels: int = 0) -> DefaultSMPLayer:
    """Û = U, m_ij = relu(Û_i + Û_j + y_ij), U' = relu(Û_i + Σ_j m_ij / d_avg)."""
    layer = DefaultSMPLayer(1, 1, edge_channels).double()
    with torch.no_grad():
        for name, value in layer.named_parameters():
            off = name.endswith("bias") or ".w2." in name or ".w3." in name
            value.fill_(0.0 if off else 1.0)
    return layer


def test_path_by_hand() -> None:
    """Σ_j (U_i + U_j) = D + A on the path, divided by d_avg = 4/3, added to U = I."""
    case = make_case([path(3)], node_channels=0)
    index = case.index("onehot")
    new = identity_layer()(index.initial(None, torch.float64), index)
    expected = torch.tensor(
        [[1 + 0.75, 0.75, 0], [0.75, 1 + 1.5, 0.75], [0, 0.75, 1 + 0.75]], dtype=torch.float64
    )
    assert torch.equal(new.rows.view(3, 3), expected)


def test_edge_features_reach_all_rows_of_the_receiver_by_hand() -> None:
    """One edge a → b with y = 2: every row of b receives relu(U_b + U_a + 2), d_avg = 1/2."""
    case = make_case([(2, ((0, 1),))], node_channels=0)
    index = case.index("onehot")
    y = torch.tensor([[2.0]], dtype=torch.float64)
    new = identity_layer(edge_channels=1)(index.initial(None, torch.float64), index, y)
    expected = [[1.0, 0.0], [2 * (1 + 2.0), 1 + 2 * (1 + 2.0)]]
    assert new.rows.view(2, 2).tolist() == expected


def test_reset_parameters_draws_new_weights_of_all_parts() -> None:
    layer = DefaultSMPLayer(3, 4, 2)
    before = [value.clone() for value in layer.parameters()]
    layer.reset_parameters()
    for value, old in zip(layer.parameters(), before, strict=True):
        assert not torch.equal(value, old)
