"""The general layer: powers of A, aggregations by hand, and layers of one's own."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    ODD,
    SCHEMES,
    Structure,
    assert_same,
    batches,
    cycle,
    make_case,
    path,
    randomize,
    seeds,
    structures,
    to_dense,
    undirected,
)
from torch import Tensor, nn

from smpgnn import (
    ContextIndex,
    DefaultSMPLayer,
    FastSMPLayer,
    InputError,
    LocalContext,
    SMPLayer,
)
from smpgnn.layers import FastMPNNLayer, MPNNLayer
from smpgnn.layers.base import AGGREGATIONS
from smpgnn.testing import assert_equivariant


def run(layer: SMPLayer, structure: Structure, steps: int, x: Tensor | None = None) -> Tensor:
    """One-hot contexts after so many steps, [n, n, C]."""
    case = make_case([structure], node_channels=0)
    index = case.index("onehot")
    context = index.initial(x, torch.float64)
    for _ in range(steps):
        context = layer(context, index)
    (dense,) = to_dense(context, index)
    return dense


def test_powers_of_the_adjacency_matrix_of_a_path() -> None:
    """U' = Σ_j U_j from the one-hot encoding computes I, A, A², A³ (section 3.1)."""
    powers = [
        [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
        [[0, 1, 0], [1, 0, 1], [0, 1, 0]],
        [[1, 0, 1], [0, 2, 0], [1, 0, 1]],
        [[0, 2, 0], [2, 0, 2], [0, 2, 0]],
    ]
    for step, power in enumerate(powers):
        assert run(SMPLayer(), path(3), step)[:, :, 0].tolist() == power


@given(graphs=batches(), steps=st.integers(0, 4))
def test_powers_of_any_adjacency_matrix(graphs: list[Structure], steps: int) -> None:
    """Directed edges, loops and repeated edges count as they stand in A[i, j]."""
    case = make_case(graphs, node_channels=0)
    index = case.index("onehot")
    context = index.initial(None, torch.float64)
    for _ in range(steps):
        context = SMPLayer()(context, index)
    for u, graph in zip(to_dense(context, index), case.graphs, strict=True):
        if graph.num_nodes:
            power = torch.linalg.matrix_power(graph.adjacency(), steps)
            assert torch.equal(u[:, :, 0], power)


def test_the_trace_counts_triangles() -> None:
    """Proposition 1: tr(A³) is 12 for two triangles and 0 for a hexagon."""
    triangles = undirected(6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    assert run(SMPLayer(), triangles, 3)[:, :, 0].trace() == 12
    assert run(SMPLayer(), cycle(6), 3)[:, :, 0].trace() == 0


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("sum", [[-1.0, 2.0], [0.0, 0.0], [-3.0, 0.0]]),
        ("mean", [[-0.5, 1.0], [0.0, 0.0], [-1.5, 0.0]]),
        ("max", [[0.0, 2.0], [0.0, 0.0], [0.0, 0.0]]),
        ("absmax", [[-1.0, 2.0], [0.0, 0.0], [-3.0, 0.0]]),
    ],
)
def test_aggregations_at_the_central_node_of_a_path(
    aggregation: str, expected: list[list[float]]
) -> None:
    """b hears of a with x = (-1, 2) and of c with x = (-3, 0), and nothing of itself."""
    x = torch.tensor([[-1.0, 2.0], [5.0, 5.0], [-3.0, 0.0]], dtype=torch.float64)
    u = run(SMPLayer(aggregation), path(3), 1, x)
    assert u[1, :, 1:].tolist() == expected


def test_positive_wins_over_negative_of_equal_size() -> None:
    """The rows meet at node 2 of 0 → 2 ← 1 when both have heard the opposite of each other."""
    case = make_case([(3, ((0, 2), (1, 2)))], node_channels=0)
    index = case.index("onehot")
    rows = torch.zeros(9, 1)
    rows[0], rows[3] = -4.0, 4.0  # what nodes 0 and 1 know of node 0
    new = SMPLayer("absmax")(LocalContext(rows, index.layout), index)
    assert new.rows.view(3, 3)[2].tolist() == [4, 0, 0]


class KeepLargest(SMPLayer):
    """Equation (5) of Appendix B.3: the argmax of |U_j| over N_i ∪ {i}."""

    def __init__(self) -> None:
        super().__init__("absmax")

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        louder = messages.rows.abs() > context.rows.abs()
        return context.with_rows(torch.where(louder, messages.rows, context.rows))


@pytest.mark.parametrize("structure", [path(5), cycle(8), ODD["directed cycle"]])
def test_absmax_spreads_all_features_negative_ones_too(structure: Structure) -> None:
    """After as many steps as the diameter every context holds [1, x_j] in row j."""
    case = make_case([structure])
    diameter = int(max(max(row) for row in case.graphs[0].hops()))
    x = -case.x.detach().abs()
    full = torch.cat([torch.ones(len(x), 1, dtype=torch.float64), x], dim=1)
    before, after = (run(KeepLargest(), structure, d, x) for d in (diameter - 1, diameter))
    assert torch.equal(after, full.expand_as(after))
    assert not torch.equal(before, full.expand_as(before))


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@given(graphs=batches(), seed=seeds())
def test_aggregations_by_definition(aggregation: str, graphs: list[Structure], seed: int) -> None:
    """Node by node from the list of messages; zero where there is none."""
    case = make_case(graphs, 2, seed=seed)
    index = case.index("onehot")
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(index.num_rows, 2, generator=generator, dtype=torch.float64)
    context = LocalContext(rows.requires_grad_(), index.layout)
    new = SMPLayer(aggregation)(context, index)
    actual, expected = [], []
    pairs = zip(to_dense(context, index), to_dense(new, index), case.graphs, strict=True)
    for old, u, graph in pairs:
        for i in range(graph.num_nodes):
            messages = [old[j] for j, to in graph.edges if to == i]
            arrived = torch.stack(messages) if messages else old[:1] * 0
            largest = arrived.abs().argmax(0, keepdim=True)
            expected.append(
                {
                    "sum": arrived.sum(0),
                    "mean": arrived.mean(0),
                    "max": arrived.amax(0),
                    "absmax": arrived.gather(0, largest)[0],
                }[aggregation]
            )
            actual.append(u[i])
    assert_same(actual, expected, None, [rows])


class Attention(SMPLayer):
    """A layer of one's own with all that a message may use: both contexts, their means, edges."""

    edge_channels = 2

    def __init__(self, channels: int) -> None:
        super().__init__("mean")
        self.in_channels = channels
        self.gate, self.mix = nn.Linear(3 * channels + 2, channels), nn.Linear(channels, channels)

    def prepare(self, context: LocalContext, index: ContextIndex) -> LocalContext:
        return context.add_own(context.max())

    def message(self, u_i: LocalContext, u_j: LocalContext, y_ij: Tensor | None) -> LocalContext:
        known = torch.cat([u_j.mean() - u_i.mean(), u_i.own(), u_j.max(), y_ij], dim=1)
        gate = torch.sigmoid(u_j.expand(self.gate(known)))
        return u_j.with_rows(gate * (u_j.rows - u_i.rows)).add_own(u_j.own())

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        return context.with_rows(torch.tanh(self.mix(messages.rows)) + context.rows)


@pytest.mark.parametrize("identifiers", SCHEMES)
@given(graphs=batches(), seed=seeds())
def test_a_layer_of_ones_own_is_equivariant(
    identifiers: str, graphs: list[Structure], seed: int
) -> None:
    case = make_case(graphs, 2, 2, seed)
    assert_equivariant(
        randomize(Attention(3), seed), case.x, case.edge_index, case.edge_attr, case.batch,
        identifiers=identifiers, trials=1, seed=seed,
    )  # fmt: skip


@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize(
    "layer",
    [
        DefaultSMPLayer(3, 4),
        DefaultSMPLayer(4, 4, 2, towers=2, message_residual=True, update_residual=True),
        FastSMPLayer(3, 4),
        FastSMPLayer(4, 4, towers=2),
        MPNNLayer(3, 4, 2),
        FastMPNNLayer(3, 4),
    ],
    ids=lambda layer: f"{type(layer).__name__}-{layer.edge_channels}",
)
@given(graphs=batches(), seed=seeds())
def test_every_layer_is_equivariant(
    identifiers: str, layer: SMPLayer, graphs: list[Structure], seed: int
) -> None:
    case = make_case(graphs, 2, layer.edge_channels, seed)
    assert_equivariant(
        randomize(layer, seed), case.x, case.edge_index, case.edge_attr, case.batch,
        identifiers=identifiers, trials=1, seed=seed,
    )  # fmt: skip


@pytest.mark.parametrize(
    "layer",
    [DefaultSMPLayer(3, 4, 2), FastSMPLayer(3, 4), Attention(3), SMPLayer("absmax")],
    ids=lambda layer: type(layer).__name__,
)
@given(structure=structures(min_nodes=1), seed=seeds())
def test_layers_commute_with_a_permutation_of_both_axes(
    layer: SMPLayer, structure: Structure, seed: int
) -> None:
    """π . f(U, Y, A) = f(π . U, π . Y, π . A) with (π . U)[π(i), π(j)] = U[i, j] (Theorem 1)."""
    n, edges = structure
    generator = torch.Generator().manual_seed(seed)
    pi = torch.randperm(n, generator=generator)
    inverse = torch.argsort(pi)
    layer = randomize(layer, seed)
    case = make_case([structure], 0, layer.edge_channels, seed)
    renamed = make_case([(n, tuple((int(pi[j]), int(pi[i])) for j, i in edges))], 0)
    u = torch.randn(n, n, 3, generator=generator, dtype=torch.float64)
    results = []
    for value, index in (
        (u, case.index("onehot")),
        (u[inverse][:, inverse], renamed.index("onehot")),
    ):
        context = LocalContext(value.reshape(n * n, 3), index.layout)
        rows = layer(context, index, case.edge_attr).rows
        results.append(rows.view(n, n, -1))
    assert_same(results[1], results[0][inverse][:, inverse])


@given(graphs=batches(max_nodes=7), depth=st.integers(1, 3), seed=seeds())
def test_messages_that_pool_see_the_same_under_neighborhoods(
    graphs: list[Structure], depth: int, seed: int
) -> None:
    """`u_j.mean()` in a message is the mean over all nodes, also where rows are left out."""
    case = make_case(graphs, 2, 2, seed)
    layers = [randomize(Attention(3), seed + k) for k in range(depth)]
    results = []
    for identifiers in ("onehot", "neighborhood"):
        index = case.index(identifiers, depth)
        context = index.initial(case.x, torch.float64)
        for layer in layers:
            context = layer(context, index, case.edge_attr)
        results.append(to_dense(context, index))
    assert_same(results[1], results[0])


def test_contexts_of_other_graphs_are_refused() -> None:
    one, other = (make_case([path(3)], 0).index("onehot") for _ in range(2))
    with pytest.raises(InputError, match="context"):
        SMPLayer()(one.initial(None, torch.float64), other)


def test_an_unknown_aggregation_is_refused() -> None:
    with pytest.raises(InputError, match="aggregation must be one of sum, mean, max, absmax"):
        SMPLayer("median")
