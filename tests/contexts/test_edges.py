"""Values of nodes and edges, one from the other, whatever the order of the edges."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from strategies import ODD, Structure, assert_same, batches, cycle, make_case, path, seeds
from torch import Tensor

from smpgnn import ContextIndex
from smpgnn.contexts.edges import Edges

GRAPHS = [path(4), ODD["loops"], ODD["isolated last"], ODD["double edge"], cycle(5)]


def random(size: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(size, 2, generator=generator, dtype=torch.float64).requires_grad_()


@given(graphs=batches(), seed=seeds())
def test_gathers_and_sums_equal_products_with_matrices(graphs: list[Structure], seed: int) -> None:
    topology = make_case(graphs, seed=seed).topology
    nodes_and_edges = Edges(topology)
    nodes, edges = random(topology.num_nodes, seed), random(topology.num_edges, seed + 1)
    number = torch.arange(topology.num_nodes)
    leaves = (topology.sender.unsqueeze(1) == number).double()  # [E, N]
    arrives = (topology.receiver.unsqueeze(1) == number).double()
    assert_same(nodes_and_edges.from_senders(nodes), leaves @ nodes, inputs=[nodes])
    assert_same(nodes_and_edges.from_receivers(nodes), arrives @ nodes, inputs=[nodes])
    assert_same(nodes_and_edges.sum(edges), arrives.T @ edges, inputs=[edges])


@given(graphs=batches(), seed=seeds())
def test_largest_equal_loops(graphs: list[Structure], seed: int) -> None:
    topology = make_case(graphs, seed=seed).topology
    edges = random(topology.num_edges, seed)
    rows = []
    for i in range(topology.num_nodes):
        arriving = [e for e, k in enumerate(topology.receiver.tolist()) if k == i]
        rows.append(edges[arriving].amax(0) if arriving else edges.new_zeros(2))
    expected = torch.stack([*rows, edges.new_zeros(2)])[:-1]
    assert_same(Edges(topology).max(edges), expected, inputs=[edges])


def test_equal_largest_share_the_gradient() -> None:
    topology = make_case([(2, ((0, 1), (1, 1), (0, 0), (1, 1)))]).topology
    edges = torch.tensor([[3.0], [3.0], [5.0], [1.0]], requires_grad=True)
    Edges(topology).max(edges).sum().backward()
    assert edges.grad.flatten().tolist() == [0.5, 0.5, 1.0, 0.0]


def test_derivatives_of_sums_can_be_derived_again() -> None:
    topology = make_case(GRAPHS).topology
    nodes_and_edges, edges = Edges(topology), random(topology.num_edges, 0)
    nodes = random(topology.num_nodes, 1)
    assert torch.autograd.gradgradcheck(
        lambda x, e: nodes_and_edges.sum(nodes_and_edges.from_senders(x) * e).square(),
        (nodes, edges),
    )


@pytest.mark.parametrize("identifiers", ["onehot", "nodes"])
def test_an_index_has_one_state_for_each_edge(identifiers: str) -> None:
    topology = make_case(GRAPHS).topology
    index = (
        ContextIndex.of_nodes(topology)
        if identifiers == "nodes"
        else ContextIndex.build(topology, identifiers, 1)
    )
    layout = index.edges.layout
    assert layout.count.tolist() == [1] * topology.num_edges
    assert layout.unowned is None
    assert index.edges is index.edges
