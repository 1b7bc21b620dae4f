"""A user's own graphs: each format against networkx, schemas, labels, and every refusal."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.data import Data

from smpgnn.data.graph_schema import Attribute, GraphSchema
from smpgnn.data.graphs import GraphTable, graphs_from_pyg, read_graphs
from smpgnn.data.targets import TargetSpec
from smpgnn.errors import InputError


def sample(directed: bool = False, label: object = "yes") -> Any:
    """Three nodes, two edges, numbers and texts as attributes."""
    graph = nx.DiGraph() if directed else nx.Graph()
    graph.graph["label"] = label
    graph.add_node("a", size=1.5, colour="red", big=True)
    graph.add_node("b", size=2.5, colour="blue", big=False)
    graph.add_node("c", size=3.5, colour="red", big=False)
    graph.add_edge("a", "b", weight=0.5, kind="x")
    graph.add_edge("c", "b", weight=0.25, kind="y")
    return graph


def save(graph: Any, path: Path) -> Path:
    if path.suffix == ".json":
        path.write_text(json.dumps(nx.node_link_data(graph, edges="edges")))
    elif path.suffix == ".graphml":
        nx.write_graphml(graph, path)
    else:
        nx.write_edgelist(graph, path)
    return path


def arcs(table: GraphTable, g: int = 0) -> dict[tuple[str, str], list[float]]:
    """The directed edges of graph g by node name, with their features."""
    part = table.store.select([g])
    names = table.node_names[g]
    attr = part.edge_attr
    return {
        (names[a], names[b]): [] if attr is None else attr[e].tolist()
        for e, (a, b) in enumerate(part.edge_index.T.tolist())
    }


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
    assert arcs(read_graphs(path, directed=True)) == {("10", "2"): [3.0], ("2", "7"): [1.5]}
    assert read_graphs(path, edge_attributes=()).store.edge_attr is None


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


def test_vectors_and_categorical_numbers(tmp_path: Path) -> None:
    nodes = [{"id": k, "x": [k, 0.5], "element": e} for k, e in enumerate([6, 8, 6])]
    path = tmp_path / "g.json"
    path.write_text(json.dumps({"nodes": nodes, "edges": []}))
    table = read_graphs(path, categorical=["element"])
    assert table.store.x is not None
    assert table.store.x.tolist() == [[0, 0.5, 1, 0], [1, 0.5, 0, 1], [2, 0.5, 1, 0]]
    assert table.schema.node_attributes[1].categories == ("6", "8")
    some = read_graphs(path, node_attributes=["element"]).store.x
    assert some is not None
    assert some.tolist() == [[6], [8], [6]]


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
        InputError, match=r"new.graphml: .*'colour' is 'green', but the model knows"
    ):
        read_graphs(path, schema=schema)
    save(nx.path_graph(2), path)
    with pytest.raises(InputError, match="has a node without the attribute 'size'"):
        read_graphs(path, schema=schema)


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
    with pytest.raises(InputError, match="labels is a table of graphs"):
        read_graphs(path, level="node", labels=tmp_path / "labels.csv")


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
        ("graph\ng1\ng2\n", None, "has the column 'graph' only"),
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


def with_edges(*edges: object) -> str:
    return json.dumps({"nodes": [{"id": 0}, {"id": 1}], "edges": edges})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.json", "", "is empty"),
        ("g.json", "[]", "is an empty list"),
        ("g.jsonl", "\n\n", "nothing but blanks"),
        ("g.json", '{"nodes": [}', "not valid JSON: .* line 1, column 12"),
        ("g.jsonl", '{"nodes": [{"id": 1}], "edges": []}\n{', "line 2 is not valid JSON"),
        ("g.json", "[" * 100_000, "nested too deeply|not valid JSON"),
        ("g.json", "[1]", "graph 0 is not a node-link graph"),
        ("g.json", '{"nodes": [{"id": 0}]}', "no list 'edges' or 'links'"),
        ("g.json", '{"nodes": [], "edges": []}', "Graph g.json has no nodes"),
        ("g.json", '{"nodes": [{"x": 1}], "edges": []}', "node 0 has no 'id'"),
        ("g.json", '{"nodes": [{"id": 1}, {"id": 1}], "edges": []}', "two nodes have the id 1"),
        ("g.json", '{"nodes": [{"id": 1}], "edges": [], "graph": 3}', "'graph' must be an object"),
        ("g.json", with_edges({"source": 0}), "edge 0 needs a 'source'"),
        (
            "g.json",
            with_edges({"source": 0, "target": 7}),
            "edge 0: the edge names node 7, which graph g.json does not have",
        ),
        ("g.json", '{"nodes": [{"id": 0, "a": NaN}], "edges": []}', "'a' is nan, not a finite"),
        ("g.json", '{"nodes": [{"id": 0, "a": 1e999}], "edges": []}', "'a' is inf, not a finite"),
        ("g.json", json.dumps({"nodes": [{"id": 0, "a": 10**400}], "edges": []}), "finite number"),
        ("g.json", '{"nodes": [{"id": 0, "a": null}], "edges": []}', "without the attribute 'a'"),
        ("g.json", '{"nodes": [{"id": 0, "a": {}}], "edges": []}', "'a' is {}, not a finite"),
        (
            "g.json",
            '{"nodes": [{"id": 0, "a": 1}, {"id": 1, "a": "t"}], "edges": []}',
            "'a' is a category, elsewhere a number",
        ),
        (
            "g.json",
            '{"nodes": [{"id": 0, "a": [1, 2]}, {"id": 1, "a": [1]}], "edges": []}',
            "'a' is a list of 1 numbers, not 2",
        ),
        (
            "g.json",
            '{"nodes": [{"id": 0, "a": 1}, {"id": 1}], "edges": []}',
            "Graph g.json has a node without the attribute 'a'",
        ),
        ("g.graphml", "<graphml><graph>", r"not valid XML: .*line 1, column \d+"),
        ("g.graphml", "<html></html>", "first element is <html>"),
        ("g.graphml", "<graphml></graphml>", "holds no <graph>"),
        ("g.graphml", '<!DOCTYPE a [<!ENTITY b "c">]><graphml/>', "declares XML entities"),
        ("g.graphml", "<graphml><graph/></graphml>", "Graph g.graphml has no nodes"),
        (
            "g.graphml",
            '<graphml><graph><node id="a"/><edge source="a" target="b"/></graph></graphml>',
            "edge 0: the edge names node 'b'",
        ),
        (
            "g.graphml",
            '<graphml><key id="d" attr.name="w" attr.type="int"/><graph><node id="a">'
            '<data key="d">many</data></node></graph></graphml>',
            "node 'a': attribute 'w' is 'many'",
        ),
        ("g.graphml", "<graphml><graph><node/></graph></graphml>", "has no id"),
        ("g.graphml", "<graphml><graph><hyperedge/></graph></graphml>", "hyperedge"),
        ("g.txt", "# nothing\n", "Graph g.txt has no nodes"),
        ("g.txt", "a b 1\nb c\n", "line 2: 2 cells, but 3 in the lines before"),
        ("g.csv", "source,target,w\na,b\n", "line 2: 2 cells, but 3"),
        ("g.csv", 'a,b\n"c,d\n', "line 2 cannot be read"),
        ("g.csv", "a,b\n,c\n", "line 2: a node has no name"),
        ("g.txt", "a b {'w': open('x')}\n", "line 1: .* cannot be read as attributes"),
        ("g.txt", "a b {1}\n", "line 1: .* cannot be read as attributes"),
        ("g.gml", "graph []", r"unknown ending: the known ones are \.json, \.jsonl"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        read_graphs(path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_places(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_graphs(tmp_path / "no.json")
    (tmp_path / "notes.md").write_text("hello")
    with pytest.raises(InputError, match="holds no file with graphs: the known endings"):
        read_graphs(tmp_path)
    (tmp_path / "g.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read_graphs(tmp_path)
    (tmp_path / "g.txt").write_text("a b")
    with pytest.raises(InputError, match="level is 'edge'"):
        read_graphs(tmp_path, level="edge")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"labels\.csv does not exist"):
        read_graphs(tmp_path, labels=tmp_path / "labels.csv")


def test_attributes_that_differ_between_graphs(tmp_path: Path) -> None:
    save(sample(), tmp_path / "g1.json")
    other = sample(label="no")
    for _, _, values in other.edges(data=True):
        del values["kind"]
    save(other, tmp_path / "g2.json")
    message = "Graph g2.json has an edge without the attribute 'kind', which graph g1.json has"
    with pytest.raises(InputError, match=message):
        read_graphs(tmp_path)
    table = read_graphs(tmp_path, edge_attributes=["weight"])
    assert table.schema.edge_channels == 1


def test_graph_without_its_target(tmp_path: Path) -> None:
    save(sample(), tmp_path / "g1.json")
    other = sample()
    del other.graph["label"]
    save(other, tmp_path / "g2.json")
    assert read_graphs(tmp_path).store.y is None
    with pytest.raises(InputError, match=r"Graph g2\.json has no attribute 'label'"):
        read_graphs(tmp_path, target="label")
    with pytest.raises(InputError, match=r"No graph has the attribute 'labels'.*: 'label'"):
        read_graphs(tmp_path, target="labels")


def test_too_many_texts_for_one_hot(tmp_path: Path) -> None:
    graph = nx.path_graph(300)
    for node in graph:
        graph.nodes[node]["name"] = f"n{node}"
    path = save(graph, tmp_path / "g.json")
    with pytest.raises(InputError, match="'name' has more than 256 different texts"):
        read_graphs(path)
    assert read_graphs(path, node_attributes=()).store.x is None


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


# PyTorch Geometric


def data(n: int = 3, **values: Any) -> Data:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    return Data(x=torch.ones(n, 2), edge_index=edge_index, **values)


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


EDGES = torch.tensor([[0, 1], [1, 0]])


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (Data(x=torch.ones(2, 1)), "Graph 1 has no edge_index"),
        (Data(x=torch.ones(2, 1), edge_index=EDGES[0]), "Graph 1 has no edge_index of shape"),
        (Data(x=torch.ones(2, 1), edge_index=EDGES.float()), "Graph 1: edge_index holds"),
        (Data(edge_index=EDGES), "Graph 1 has neither x nor num_nodes"),
        (Data(x=torch.ones(0, 2), edge_index=EDGES[:, :0]), "Graph 1 has no nodes"),
        (Data(x=torch.ones(2, 2), edge_index=EDGES - 1), "Graph 1: edge_index names node -1"),
        (Data(x=torch.ones(1, 2), edge_index=EDGES), "Graph 1: edge_index names node 1"),
        (Data(x=torch.full((2, 2), math.nan), edge_index=EDGES), "Graph 1: x holds NaN"),
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
    with pytest.raises(InputError, match="no graph in the list"):
        graphs_from_pyg([])
    with pytest.raises(InputError, match="level is 'edge'"):
        graphs_from_pyg([data()], level="edge")  # type: ignore[arg-type]
