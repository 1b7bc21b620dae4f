"""Graphs of a batch one by one: local node numbers, and where their edges were."""

from __future__ import annotations

import torch
from strategies import ODD, make_case, path

from smpgnn.baselines.per_graph import split_graphs
from smpgnn.contexts.topology import Topology


def test_splits_in_local_numbers() -> None:
    case = make_case([path(3), ODD["empty"], ODD["loops"], ODD["edgeless"]])
    keys, order = split_graphs(case.topology)
    assert [key.num_nodes for key in keys] == [3, 0, 3, 3]
    assert keys[2].edge_index.T.tolist() == [list(edge) for edge in ODD["loops"][1]]
    assert keys[2].pairs == [(0, 1), (1, 2)]
    assert keys[3].pairs == []
    assert order.tolist() == list(range(case.topology.num_edges))


def test_equal_graphs_have_equal_keys_wherever_they_stand() -> None:
    keys, _ = split_graphs(make_case([path(3), path(4), path(3)]).topology)
    assert keys[0] == keys[2]
    assert hash(keys[0]) == hash(keys[2])
    assert keys[0] != keys[1]


def test_edges_of_a_graph_need_not_stand_together() -> None:
    edge_index = torch.tensor([[2, 0, 3, 1], [3, 1, 2, 0]])
    topology = Topology.checked(edge_index, torch.tensor([0, 0, 1, 1]))
    keys, order = split_graphs(topology)
    assert order.tolist() == [1, 3, 0, 2]
    assert [key.edge_index.tolist() for key in keys] == [[[0, 1], [1, 0]]] * 2
