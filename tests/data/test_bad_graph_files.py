"""Graph files and folders that are refused, and the messages."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest

from smpgnn.data.graphs import read_graphs
from smpgnn.errors import InputError


def with_edges(*edges: object) -> str:
    return json.dumps({"nodes": [{"id": 0}, {"id": 1}], "edges": edges})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("g.json", "", "is empty"),
        ("g.json", "[]", "is an empty list"),
        ("g.jsonl", "\n\n", "only blanks"),
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
            "edge 0: node 7 of the edge does not exist in graph g.json",
        ),
        ("g.json", '{"nodes": [{"id": 0, "a": NaN}], "edges": []}', "'a' is nan, not a finite"),
        ("g.json", '{"nodes": [{"id": 0, "a": 1e999}], "edges": []}', "'a' is inf, not a finite"),
        ("g.json", json.dumps({"nodes": [{"id": 0, "a": 10**400}], "edges": []}), "finite number"),
        ("g.json", '{"nodes": [{"id": ' + "9" * 5000 + '}], "edges": []}', "thousands of digits"),
        ("g.json", '{"nodes": [{"id": 0, "a": []}], "edges": []}', "'a' is an empty list"),
        ("g.txt", "a b {'w': '\\U0000DC00'}\n", "line 1 contains a lone surrogate"),
        ("g.txt", "a b {'w': []}\n", "'w' is an empty list"),
        ("g.txt", "a b {'w': " + "9" * 5000 + "}\n", "line 1: .* cannot be read as attributes"),
        ("g.txt", "a b " + "9" * 5000 + "\n", "'weight' is inf, not a finite number"),
        ("g.json", '{"nodes": [{"id": 0, "a": null}], "edges": []}', "without the attribute 'a'"),
        ("g.json", '{"nodes": [{"id": 0, "a": {}}], "edges": []}', "'a' is {}, not a finite"),
        (
            "g.json",
            '{"nodes": [{"id": 0, "a": 1}, {"id": 1, "a": "t"}], "edges": []}',
            "'a' is a category, but elsewhere a number",
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
        ("g.graphml", "<html></html>", "root element is <html>"),
        ("g.graphml", "<graphml></graphml>", "contains no <graph>"),
        ("g.graphml", '<!DOCTYPE a [<!ENTITY b "c">]><graphml/>', "declares XML entities"),
        ("g.graphml", "<graphml><graph/></graphml>", "Graph g.graphml has no nodes"),
        (
            "g.graphml",
            '<graphml><graph><node id="a"/><edge source="a" target="b"/></graph></graphml>',
            "edge 0: node 'b' of the edge",
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
        ("g.json", '{"nodes": [{"id": "\\ud800"}], "edges": []}', "contains a lone surrogate"),
        ("g.txt", "a b {'w': '\\udc00'}", "line 1 contains a lone surrogate"),
        ("g.gml", "graph []", r"unknown extension: known are \.json, \.jsonl"),
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
    with pytest.raises(InputError, match="contains no graph files: the known extensions"):
        read_graphs(tmp_path)
    (tmp_path / "g.txt").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read_graphs(tmp_path)
    (tmp_path / "g.txt").write_text("a b")
    with pytest.raises(InputError, match="level is 'edge'"):
        read_graphs(tmp_path, level="edge")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"labels\.csv does not exist"):
        read_graphs(tmp_path, labels=tmp_path / "labels.csv")


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize("depth", [900, 980, 2000, 100_000])
def test_deep_nesting_ends_well_wherever_it_is(tmp_path: Path, depth: int) -> None:
    path = tmp_path / "g.json"
    texts = (
        '{"nodes": [{"id": %s}], "edges": []}',
        '{"nodes": [{"id": 0, "a": %s}], "edges": []}',
        '{"nodes": [{"id": 0}], "edges": [], "graph": {"y": %s}}',
    )
    for text in texts:
        path.write_text(text % nested(depth))
        with contextlib.suppress(InputError):
            read_graphs(path)


def test_messages_stay_short(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    for value in ('"' + "x" * 100_000 + '"', "9" * 4000, nested(500)):
        start = '{"nodes": [{"id": 0, "a": 1}, {"id": 1, "a": '
        path.write_text(start + value + '}], "edges": []}')
        with pytest.raises(InputError) as caught:
            read_graphs(path)
        assert len(str(caught.value)) < 400 + len(str(path))


def test_entities_are_refused_in_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "g.graphml"
    text = '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE a [<!ENTITY b "c">]><graphml/>'
    path.write_bytes(text.encode("utf-16"))
    with pytest.raises(InputError, match="declares XML entities"):
        read_graphs(path)


def test_pipes_are_refused_immediately(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "g.json")
    with pytest.raises(InputError, match=r"g\.json is a pipe or device: save its content"):
        read_graphs(tmp_path / "g.json")
    with pytest.raises(InputError, match="contains no graph files"):
        read_graphs(tmp_path)


def test_names_of_files_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"g\xff.json")
    try:
        (tmp_path / name).write_text(with_edges())
    except OSError:
        pytest.skip("this file system has no such names")
    (shown,) = read_graphs(tmp_path).names
    assert shown == "g\\udcff.json"
    (tmp_path / name).write_text(
        '{"nodes": [{"id": "\\ud83d\\ude00"}], "edges": []}'
    )  # a whole one
    assert read_graphs(tmp_path).node_names == (("\U0001f600",),)
