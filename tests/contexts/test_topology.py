"""Topology: what is checked, inferred and counted."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from strategies import ODD, Structure, batches, make_case, path

from smpgnn import InputError, Topology
from smpgnn.baselines.directions import DirectionalFields
from smpgnn.contexts.topology import pointer, segments


@given(graphs=batches())
def test_counts_are_those_of_the_graphs(graphs: list[Structure]) -> None:
    topology = make_case(graphs).topology
    assert topology.num_graphs == len(graphs)
    assert topology.graph_size.tolist() == [n for n, _ in graphs]
    starts = [sum(n for n, _ in graphs[:k]) for k in range(len(graphs) + 1)]
    assert topology.graph_ptr.tolist() == starts
    received = [sum(i == node for _, i in edges) for n, edges in graphs for node in range(n)]
    assert topology.degree.tolist() == received
    assert topology.inverse_average_degree.tolist() == [
        n / len(edges) if edges else 0.0 for n, edges in graphs
    ]


@given(graphs=batches())
def test_edges_by_receiver_lists_every_edge_once(graphs: list[Structure]) -> None:
    topology = make_case(graphs).topology
    ptr, order = topology.edges_by_receiver
    assert sorted(order.tolist()) == list(range(topology.num_edges))
    for node in range(topology.num_nodes):
        assert (topology.receiver[order[ptr[node] : ptr[node + 1]]] == node).all()


def test_the_number_of_nodes_is_inferred() -> None:
    edges = torch.tensor([[0, 3], [3, 0]])
    assert Topology.checked(edges).num_nodes == 4
    assert Topology.checked(edges, num_nodes=6).num_nodes == 6
    assert Topology.checked(edges, torch.zeros(5, dtype=torch.long)).num_nodes == 5
    assert Topology.checked(torch.zeros(2, 0, dtype=torch.long)).num_nodes == 0


def test_the_number_of_graphs_is_inferred() -> None:
    edges = torch.zeros(2, 0, dtype=torch.long)
    assert Topology.checked(edges, num_nodes=3).num_graphs == 1
    assert Topology.checked(edges, torch.tensor([0, 2])).num_graphs == 3
    assert Topology.checked(edges, torch.tensor([0, 2]), num_graphs=5).num_graphs == 5
    assert Topology.checked(edges, torch.zeros(0, dtype=torch.long)).num_graphs == 0


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_other_integers_are_taken(dtype: torch.dtype) -> None:
    topology = Topology.checked(torch.tensor([[0, 1], [1, 0]]).to(dtype))
    assert topology.edge_index.dtype == torch.long


def test_the_average_degree_counts_loops_once_and_doubles_twice() -> None:
    topology = make_case([ODD["loops"]]).topology
    assert topology.inverse_average_degree.tolist() == [3 / 6]
    assert topology.degree.tolist() == [1, 3, 2]


def test_permute_renames_the_ends_of_the_edges() -> None:
    topology = make_case([path(3), path(2)]).topology.permute(torch.tensor([2, 0, 1, 4, 3]))
    edges = set(map(tuple, topology.edge_index.t().tolist()))
    assert edges == {(2, 0), (0, 2), (0, 1), (1, 0), (4, 3), (3, 4)}


def test_permute_refuses_to_mix_graphs() -> None:
    with pytest.raises(InputError, match="permutation"):
        make_case([path(3), path(2)]).topology.permute(torch.tensor([3, 0, 1, 2, 4]))


def test_segments_by_hand() -> None:
    sizes = torch.tensor([2, 0, 3])
    which, rank = segments(sizes, 5)
    assert pointer(sizes).tolist() == [0, 2, 2, 5]
    assert which.tolist() == [0, 0, 2, 2, 2]
    assert rank.tolist() == [0, 1, 0, 1, 2]


def test_what_is_found_in_graphs_is_looked_for_once() -> None:
    topology = make_case([path(3)]).topology
    found = topology.find(DirectionalFields(1))
    assert topology.find(DirectionalFields(1)) is found
    assert topology.find(DirectionalFields(2)).shape == (4, 2)
