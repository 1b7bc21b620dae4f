"""Graphs of the user in every format, compared with networkx."""

from __future__ import annotations

import json
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_graphs import arcs, sample, save

from smpgnn.data.graph_schema import Attribute, GraphSchema
from smpgnn.data.graphs import read_graphs
from smpgnn.data.targets import TargetSpec


@pytest.mark.parametrize("suffix", [".json", ".graphml"])
@pytest.mark.parametrize("directed", [False, True])
def test_a_graph_with_everything(tmp_path: Path, suffix: str, directed: bool) -> None:
    save(sample(directed, "yes"), tmp_path / f"g1{suffix}")
    save(sample(directed, "no"), tmp_path / f"g2{suffix}")
    table = read_graphs(tmp_path)
    assert table.names == (f"g1{suffix}", f"g2{suffix}")
    assert table.node_names == (("a", "b", "c"),) * 2
    assert table.schema == GraphSchema(
        level="graph",
        node_attributes=(
            Attribute("size", "number"),
            Attribute("colour", "category", 2, ("blue", "red")),
            Attribute("big", "number"),
        ),
        edge_attributes=(
            Attribute("weight", "number"),
            Attribute("kind", "category", 2, ("x", "y")),
        ),
        targets=TargetSpec("classification", ("label",), (("no", "yes"),)),
    )
    assert table.store.x is not None
    assert table.store.x[:3].tolist() == [[1.5, 0, 1, 1], [2.5, 1, 0, 0], [3.5, 0, 1, 0]]
    assert table.store.x.shape[1] == table.schema.node_channels
    expected = {("a", "b"): [0.5, 1, 0], ("c", "b"): [0.25, 0, 1]}
    if not directed:
        expected |= {(b, a): value for (a, b), value in expected.items()}
    assert arcs(table) == expected
    assert table.schema.edge_channels == 3
    assert table.store.y is not None
    assert table.store.y.tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("suffix", [".edgelist", ".txt"])
def test_edge_list_of_networkx(tmp_path: Path, suffix: str) -> None:
    graph = nx.Graph()
    graph.add_edge(10, 2, weight=3)
    graph.add_edge(2, 7, weight=1.5)
    path = save(graph, tmp_path / f"g{suffix}")
    table = read_graphs(path)
    assert table.store.x is None
    assert table.store.y is None
    assert table.node_names == (("10", "2", "7"),)
    assert arcs(table) == {
        ("10", "2"): [3.0],
        ("2", "10"): [3.0],
        ("2", "7"): [1.5],
        ("7", "2"): [1.5],
    }


@pytest.mark.parametrize(
    ("name", "text", "attributes"),
    [
        ("g.csv", "source,target,length,kind\na,b,1,x\nb,c,2,y\n", ["length", "kind"]),
        ("g.csv", "a;b;1\nb;c;2\n", ["weight"]),
        ("g.tsv", "From\tTo\na\tb\nb\tc\n", []),
        ("g.txt", "# a comment\na b 1 2\n\nb c 3 4\n", ["value1", "value2"]),
        ("g.txt", "a, b\nb, c\n", []),
    ],
)
def test_edge_tables(tmp_path: Path, name: str, text: str, attributes: list[str]) -> None:
    (tmp_path / name).write_text(text)
    table = read_graphs(tmp_path / name)
    assert [item.name for item in table.schema.edge_attributes] == attributes
    assert set(arcs(table)) == {("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")}


def test_edge_list_with_both_directions_and_lone_nodes(tmp_path: Path) -> None:
    path = tmp_path / "g.txt"
    path.write_text("a b\nb a\nlonely\na a\n")
    table = read_graphs(path)
    assert table.node_names == (("a", "b", "lonely"),)
    assert table.store.edge_index.T.tolist() == [[1, 0], [0, 1], [0, 0]]


def test_lists_and_lines_of_json(tmp_path: Path) -> None:
    graphs = [nx.path_graph(n) for n in (2, 3, 4)]
    for n, graph in enumerate(graphs):
        graph.graph["y"] = n * 0.5
    graphs[1].graph["name"] = "middle"
    data = [nx.node_link_data(graph, edges="links") for graph in graphs]
    (tmp_path / "a.json").write_text(json.dumps(data))
    (tmp_path / "b.jsonl").write_text("\n".join(json.dumps(item) for item in data) + "\n\n")
    for name in ("a.json", "b.jsonl"):
        table = read_graphs(tmp_path / name)
        assert table.names == (f"{name}[0]", "middle", f"{name}[2]")
        assert table.store.num_nodes.tolist() == [2, 3, 4]
        assert table.store.num_edges.tolist() == [2, 4, 6]
        assert table.store.y is not None
        assert table.store.y.tolist() == [[0.0], [0.5], [1.0]]
    assert len(read_graphs(tmp_path).store) == 6


def test_parallel_edges_stay(tmp_path: Path) -> None:
    graph = nx.MultiDiGraph([(0, 1), (0, 1), (1, 0)])
    for suffix in (".json", ".graphml"):
        table = read_graphs(save(graph, tmp_path / f"g{suffix}"))
        assert table.store.edge_index.T.tolist() == [[0, 1], [0, 1], [1, 0]]


def test_several_graphs_in_one_graphml(tmp_path: Path) -> None:
    path = tmp_path / "g.graphml"
    path.write_text(
        '<graphml><key id="d" for="node" attr.name="w" attr.type="int"><default>5</default></key>'
        '<graph id="one" edgedefault="directed"><node id="x"><data key="d">1</data></node>'
        '<node id="y"/><edge source="y" target="x"/></graph>'
        '<graph id="two" edgedefault="undirected"><node id="z"/></graph></graphml>'
    )
    table = read_graphs(path)
    assert table.names == ("g.graphml[0]", "g.graphml[1]")
    assert table.store.x is not None
    assert table.store.x.tolist() == [[1.0], [5.0], [5.0]]
    assert table.store.edge_index.tolist() == [[1], [0]]


@given(
    n=st.integers(1, 8),
    pairs=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(0, 9)), max_size=15),
    directed=st.booleans(),
    suffix=st.sampled_from([".json", ".graphml"]),
)
def test_round_trip_of_any_graph(
    tmp_path_factory: pytest.TempPathFactory,
    n: int,
    pairs: list[tuple[int, int, int]],
    directed: bool,
    suffix: str,
) -> None:
    graph = nx.DiGraph() if directed else nx.Graph()
    for node in range(n):
        graph.add_node(node, value=node * 0.5)
    for a, b, weight in pairs:
        graph.add_edge(a % n, b % n, weight=weight)
    table = read_graphs(save(graph, tmp_path_factory.mktemp("round") / f"g{suffix}"))
    assert table.store.x is not None
    assert table.store.x[:, 0].tolist() == [node * 0.5 for node in range(n)]
    expected = {
        (str(a), str(b)): [float(w)] for a, b, w in graph.to_directed().edges(data="weight")
    }
    assert arcs(table) == expected
