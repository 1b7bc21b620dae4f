"""Attributes of nodes and edges as features, and the schema that new graphs must follow."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest
from sample_graphs import sample, save

from smpgnn.data.graph_schema import GraphSchema
from smpgnn.data.graphs import read_graphs
from smpgnn.errors import InputError


def test_vectors_and_texts(tmp_path: Path) -> None:
    nodes = [{"id": k, "x": [k, 0.5], "element": e} for k, e in enumerate("686")]
    path = tmp_path / "g.json"
    path.write_text(json.dumps({"nodes": nodes, "edges": []}))
    table = read_graphs(path)
    assert table.store.x is not None
    assert table.store.x.tolist() == [[0, 0.5, 1, 0], [1, 0.5, 0, 1], [2, 0.5, 1, 0]]
    assert table.schema.node_attributes[1].categories == ("6", "8")


def test_schema_is_plain_and_used_for_prediction(tmp_path: Path) -> None:
    for name, label in (("g1", "yes"), ("g2", "no")):
        save(sample(label=label), tmp_path / f"{name}.json")
    trained = read_graphs(tmp_path).schema
    schema = GraphSchema.from_dict(json.loads(json.dumps(trained.to_dict())))
    assert schema == trained
    new = sample()
    del new.graph["label"]
    for node in new:
        new.nodes[node]["colour"] = "red"
        new.nodes[node]["extra"] = 1
    path = save(new, tmp_path / "new.graphml")
    table = read_graphs(path, schema=schema)
    assert table.store.y is None
    assert table.store.x is not None
    assert table.store.x[:, 1:3].tolist() == [[0, 1]] * 3
    labelled = read_graphs(tmp_path / "g2.json", schema=schema).store.y
    assert labelled is not None
    assert labelled.tolist() == [[0.0]]
    new.nodes["a"]["colour"] = "green"
    save(new, path)
    with pytest.raises(
        InputError, match=r"new.graphml: .*'colour' is 'green', but the model only knows"
    ):
        read_graphs(path, schema=schema)
    save(nx.path_graph(2), path)
    with pytest.raises(InputError, match="has a node without the attribute 'size'"):
        read_graphs(path, schema=schema)


def test_attributes_that_differ_between_graphs(tmp_path: Path) -> None:
    save(sample(), tmp_path / "g1.json")
    other = sample(label="no")
    for _, _, values in other.edges(data=True):
        del values["kind"]
    save(other, tmp_path / "g2.json")
    message = "Graph g2.json has an edge without the attribute 'kind', which graph g1.json has"
    with pytest.raises(InputError, match=message):
        read_graphs(tmp_path)


def test_too_many_texts_for_one_hot(tmp_path: Path) -> None:
    graph = nx.path_graph(300)
    for node in graph:
        graph.nodes[node]["name"] = f"n{node}"
    path = save(graph, tmp_path / "g.json")
    with pytest.raises(InputError, match="'name' has more than 256 different texts"):
        read_graphs(path)
