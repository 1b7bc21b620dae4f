"""Targets of graphs and nodes from attributes or from a table of labels."""

from __future__ import annotations

import json
import math
from pathlib import Path

import networkx as nx
import pytest
import torch
from sample_graphs import sample, save

from smpgnn.data.graphs import read_graphs
from smpgnn.data.targets import TargetSpec
from smpgnn.errors import InputError


def test_node_level(tmp_path: Path) -> None:
    graph = nx.path_graph(4)
    for node in graph:
        graph.nodes[node]["size"] = node
        if node != 2:
            graph.nodes[node]["role"] = "end" if node in (0, 3) else "inner"
    path = save(graph, tmp_path / "g.json")
    table = read_graphs(path, level="node", target="role")
    assert [item.name for item in table.schema.node_attributes] == ["size"]
    assert table.schema.targets == TargetSpec("classification", ("role",), (("end", "inner"),))
    assert table.store.y is None
    assert table.store.y_node is not None
    values = table.store.y_node[:, 0].tolist()
    assert values[:2] == [0.0, 1.0]
    assert math.isnan(values[2])
    again = read_graphs(path, schema=table.schema).store.y_node
    assert again is not None
    torch.testing.assert_close(again, table.store.y_node, equal_nan=True)
    with pytest.raises(InputError, match="No node has the attribute 'roles'"):
        read_graphs(path, level="node", target="roles")
    with pytest.raises(InputError, match="labels has one row per graph"):
        read_graphs(path, level="node", labels=tmp_path / "labels.csv")


def test_graph_without_its_target(tmp_path: Path) -> None:
    save(sample(), tmp_path / "g1.json")
    other = sample()
    del other.graph["label"]
    save(other, tmp_path / "g2.json")
    assert read_graphs(tmp_path).store.y is None
    with pytest.raises(InputError, match=r"Graph g2\.json has no attribute 'label'"):
        read_graphs(tmp_path, target="label")
    with pytest.raises(InputError, match=r"No graph has the attribute 'labels'.* are 'label'"):
        read_graphs(tmp_path, target="labels")


@pytest.mark.parametrize("key", ["graph", "File", "anything"])
@pytest.mark.parametrize("ending", ["", ".txt"])
def test_label_table(tmp_path: Path, key: str, ending: str) -> None:
    for name in ("g1", "g2", "g3"):
        (tmp_path / f"{name}.txt").write_text("a b\n")
    labels = tmp_path / "labels.csv"
    rows = [f"g{n}{ending},{n}.5,c{n}" for n in (3, 1, 2, 9)]
    labels.write_text("\n".join([f"{key},value,colour", *rows]))
    table = read_graphs(tmp_path, labels=labels, target="value")
    assert table.names == ("g1.txt", "g2.txt", "g3.txt")
    assert table.store.y is not None
    assert table.store.y.tolist() == [[1.5], [2.5], [3.5]]
    coloured = read_graphs(tmp_path, labels=labels, target=["colour"])
    assert coloured.schema.targets is not None
    assert coloured.schema.targets.classes == (("c1", "c2", "c3"),)
    evaluated = read_graphs(tmp_path, labels=labels, schema=table.schema).store.y
    assert evaluated is not None
    assert torch.equal(evaluated, table.store.y)


def test_label_table_by_position_and_all_columns(tmp_path: Path) -> None:
    data = [nx.node_link_data(nx.path_graph(n), edges="edges") for n in (1, 2, 3)]
    (tmp_path / "a.json").write_text(json.dumps(data))
    (tmp_path / "l.csv").write_text("id,u,v\n0,1,2.5\n1,2,3.5\n2,3,4.5\n")
    y = read_graphs(tmp_path / "a.json", labels=tmp_path / "l.csv").store.y
    assert y is not None
    assert y.tolist() == [[1.0, 2.5], [2.0, 3.5], [3.0, 4.5]]


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        ("graph,y\ng1,1\n", None, "has no row for graph g2.txt"),
        ("graph,y\ng1,1\ng1,2\n", None, "several rows for graph 'g1'"),
        ("graph\ng1\ng2\n", None, "has only the column 'graph'"),
        ("graph,y\ng1,1\ng2,2\n", "z", "no column 'z'"),
        ("graph,y\ng1,1\ng2,oops\n", None, r"line 3: target 'y' is 'oops'"),
    ],
)
def test_bad_label_tables(tmp_path: Path, text: str, target: str | None, message: str) -> None:
    for name in ("g1", "g2"):
        (tmp_path / f"{name}.txt").write_text("a b\n")
    labels = tmp_path / "labels.csv"
    labels.write_text(text)
    with pytest.raises(InputError, match=message):
        read_graphs(tmp_path, labels=labels, target=target, task="regression")
