"""Graphs of PyTorch Geometric are converted or refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from smpgnn.data.pyg import graphs_from_pyg
from smpgnn.errors import InputError

EDGES = torch.tensor([[0, 1], [1, 0]])


def data(n: int = 3, **values: Any) -> Data:
    return Data(x=torch.ones(n, 2), edge_index=EDGES, **values)


def test_pyg_graph_level() -> None:
    graphs = [data(3, y=torch.tensor([1.0, 2.0])), data(2, y=torch.tensor([[3.0, 4.0]]))]
    store = graphs_from_pyg(graphs)
    assert store.y is not None
    assert store.y.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert store.y_node is None
    assert "y_node" not in graphs[0]
    scalar = graphs_from_pyg([data(y=1.5), data(y=2.5)]).y
    assert scalar is not None
    assert scalar.tolist() == [[1.5], [2.5]]
    assert graphs_from_pyg([data()]).y is None


def test_pyg_node_level() -> None:
    graphs = [data(3, y=torch.tensor([0, 1, 0])), data(2, y=torch.tensor([1, 1]))]
    store = graphs_from_pyg(graphs, level="node")
    assert store.y is None
    assert store.y_node is not None
    assert store.y_node.tolist() == [[0], [1], [0], [1], [1]]
    with pytest.raises(InputError, match="one row per node: use level='node'"):
        graphs_from_pyg(graphs)
    given_apart = [data(3, y_node=torch.zeros(3, 2))]
    assert graphs_from_pyg(given_apart, level="node").y_node is not None
    with pytest.raises(InputError, match="Graph 0: y has 1 rows for 3 nodes"):
        graphs_from_pyg([data(3, y=torch.tensor([1.0]))], level="node")
    with pytest.raises(InputError, match="y is one number"):
        graphs_from_pyg([data(3, y=1.0)], level="node")


def test_pyg_graph_without_features() -> None:
    store = graphs_from_pyg([Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=2)])
    assert store.x is None
    assert store.num_nodes.tolist() == [2]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Data(x=torch.ones(2, 1)), "Graph 1 has no edge_index"),
        (Data(x=torch.ones(2, 1), edge_index=EDGES[0]), "Graph 1 has no edge_index of shape"),
        (Data(x=torch.ones(2, 1), edge_index=EDGES.float()), "Graph 1: edge_index has type"),
        (Data(edge_index=EDGES), "Graph 1 has neither x nor num_nodes"),
        (Data(x=torch.ones(0, 2), edge_index=EDGES[:, :0]), "Graph 1 has no nodes"),
        (
            Data(x=torch.ones(2, 2), edge_index=EDGES - 1),
            "Graph 1: edge_index contains the negative index -1",
        ),
        (Data(x=torch.ones(1, 2), edge_index=EDGES), "Graph 1: edge_index contains node 1"),
        (Data(x=torch.full((2, 2), math.nan), edge_index=EDGES), "Graph 1: x contains NaN"),
        (Data(x=torch.ones(2, 2) * 1j, edge_index=EDGES), "Graph 1: x must be a tensor of real"),
        (
            Data(x=torch.ones(2, 2), edge_index=EDGES, edge_attr=torch.ones(1, 1)),
            "Graph 1: edge_attr has 1 rows, not 2",
        ),
        (Data(x=torch.ones(2, 3), edge_index=EDGES), "Graph 1: 'x' has 3 columns"),
    ],
)
def test_bad_pyg_graphs(graph: Data, message: str) -> None:
    with pytest.raises(InputError, match=message):
        graphs_from_pyg([data(), graph])


def test_no_pyg_graphs() -> None:
    with pytest.raises(InputError, match="contains no graphs"):
        graphs_from_pyg([])
    with pytest.raises(InputError, match="level is 'edge'"):
        graphs_from_pyg([data()], level="edge")  # type: ignore[arg-type]
