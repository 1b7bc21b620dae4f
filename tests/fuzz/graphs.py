"""Fuzz graph files: node-link JSON, GraphML, edge lists."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

from fuzz.cases import Case
from fuzz.corpus import corpus
from fuzz.models import edges, graph
from fuzz.mutate import NUMBERS, TEXTS, mutated

_LIST_ENDINGS = ("g.txt", "g.csv", "g.tsv", "g.edgelist")


def json_case(random: Random) -> Case:
    """Graphs as JSON, with changed bytes or with values of other types."""
    if random.random() < 0.5:
        tokens = (
            '"id"',
            '"edges"',
            '"nodes"',
            "null",
            "{",
            "}",
            "[",
            "]",
            ",",
            ":",
            "1e999",
            "NaN",
        )
        data = mutated(random, _json_seeds(), tokens)
    else:
        values: Any = [graph(number) for number in range(random.choice((1, 1, 5)))]
        values = values if len(values) > 1 or random.random() < 0.3 else values[0]
        for _ in range(random.choice((1, 1, 2, 4))):
            values = replaced(random, values)
        data = json.dumps(values, ensure_ascii=random.random() < 0.5).encode("utf-8", "replace")
    return _graph_case(random, random.choice(("g.json", "g.json", "g.jsonl")), data)


def _graph_case(
    random: Random, name: str, data: bytes, models: tuple[str, ...] = ("GRAPHS", "NODES")
) -> Case:
    files = {name: data}
    if random.random() < 0.2 and "LISTS" not in models:
        files = {f"folder/{name}": data, "folder/other.json": json.dumps(graph(1)).encode()}
        name = "folder"
    interrupt = random.uniform(0, 0.03) if random.random() < 0.03 else None
    what = random.random()
    model = random.choice(models)
    if what < 0.5:
        return Case(("predict", model, name, "-o", "out.csv"), files, ("out.csv",), interrupt)
    if what < 0.55:
        words = ("explain", model, name, "-o", "out.csv", "--steps", "1")
        return Case(words, files, ("out.csv",), interrupt)
    if what < 0.7:
        return Case(("evaluate", model, name), files, (), interrupt)
    words = ("train", "graphs", name, "--output", "run", "--device", "cpu")
    if "LISTS" in models:
        others = {f"e{number}.txt": edges(number).encode() for number in range(4)}
        files = {f"lists/{key}": value for key, value in {name: data, **others}.items()}
        lines = "".join(f"{key},{number}\n" for number, key in enumerate((name, *others)))
        files["labels.csv"] = f"file,label\n{lines}".encode()
        words = ("train", "graphs", "lists", *words[3:], "--labels", "labels.csv")
        return Case((*words, "--task", "regression"), files, ("run",), interrupt)
    more = random.choice(
        (
            (),
            ("--targets", "label"),
            ("--targets", "end", "--level", "node"),
            ("--targets", "kind", "--level", "node"),
            ("--targets", "label", "--task", "classification"),
            ("--targets", "w", "--level", "node"),
            ("--targets", "label", "--identifiers", random.choice(("onehot", "local", "coloring"))),
            ("--targets", "label", "--split-column", "name"),
        )
    )
    return Case((*words, *more), files, ("run",), interrupt)


def replaced(random: Random, value: Any) -> Any:
    """Replace, remove, rename or move one value of a tree."""
    if isinstance(value, dict) and value and random.random() < 0.85:
        key = random.choice(list(value))
        what = random.random()
        if what < 0.1:
            return {name: entry for name, entry in value.items() if name != key}
        if what < 0.2:
            new = random.choice(("id", "w", "links", "source", "key", "", "name", "kind", "length"))
            return {new if name == key else name: entry for name, entry in value.items()}
        return {**value, key: replaced(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.85:
        place = random.randrange(len(value))
        what = random.random()
        if what < 0.1:
            return value[:place] + value[place + 1 :]
        if what < 0.2:
            return [*value, value[place]] * random.choice((1, 1, 1, 30))
        return [*value[:place], replaced(random, value[place]), *value[place + 1 :]]
    return random.choice(_JSON_VALUES)


_JSON_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 99, 1.5, -0.0, 1e308, 1e39, 1e-46, 10**30, 10**400, "", "a",
    "b", "0", "1", [], {}, [1], [1, 2], ["a"], [[]], [[1]], {"a": 1}, [None], float("nan"),
    float("inf"), "x" * 300, "\0", "\ud800", "é", "a\nb", [1.5, 2.5, 3.5], {"id": 0}, [0] * 400,
    "\x1b[31m", [True], [10**400], [1e39],
)  # fmt: skip


@cache
def _json_seeds() -> list[bytes]:
    graphs = [graph(number) for number in range(3)]
    return [
        json.dumps(graphs[0]).encode(),
        json.dumps(graphs).encode(),
        "\n".join(json.dumps(one) for one in graphs).encode(),
        json.dumps(graphs[1], indent=1).encode(),
        *corpus("json"),
    ]


# GraphML

_XML_TOKENS = (
    "<node id='a'/>", "<edge source='0' target='1'/>", "<graph>", "</graph>", "<data key='d0'>",
    "<!DOCTYPE a [<!ENTITY b 'c'>]>", "&b;", "&#0;", "&#55296;", "<![CDATA[", "]]>", "<?xml ?>",
    "edgedefault='directed'", "attr.type='boolean'", "attr.type='long'", "for='all'", "xmlns='x'",
    "<default>1</default>", "<hyperedge/>", "<port/>", "id='0'", "directed='true'", "&lt;", "<",
    "encoding='utf-16'", "<?xml version='1.0' encoding='cp037'?>",
)  # fmt: skip


def graphml_case(random: Random) -> Case:
    """GraphML with changed bytes or tokens."""
    return _graph_case(random, "g.graphml", mutated(random, _graphml_seeds(), _XML_TOKENS))


@cache
def _graphml_seeds() -> list[bytes]:
    found = []
    for directed in ("undirected", "directed"):
        one = graph(2)
        assert isinstance(one["nodes"], list)
        assert isinstance(one["edges"], list)
        nodes = "".join(
            f'<node id="{node["id"]}"><data key="d0">{node["w"]}</data>'
            f'<data key="d1">{node["kind"]}</data><data key="d2">{node["end"]}</data></node>\n'
            for node in one["nodes"]
        )
        edges = "".join(
            f'<edge source="{edge["source"]}" target="{edge["target"]}">'
            f'<data key="d3">{edge["length"]}</data></edge>\n'
            for edge in one["edges"]
        )
        found.append(
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
            '<key id="d0" for="node" attr.name="w" attr.type="double"/>\n'
            '<key id="d1" for="node" attr.name="kind" attr.type="string"/>\n'
            '<key id="d2" for="node" attr.name="end" attr.type="int"><default>0</default></key>\n'
            '<key id="d3" for="edge" attr.name="length" attr.type="float"/>\n'
            '<key id="d4" for="graph" attr.name="label" attr.type="float"/>\n'
            f'<graph id="g" edgedefault="{directed}"><data key="d4">3.0</data>\n'
            f"{nodes}{edges}</graph></graphml>\n".encode()
        )
    return [*found, *corpus("graphml")]


# Edge lists


def edges_case(random: Random) -> Case:
    """Edge lists with any separators."""
    tokens = ("source target", "{'w': 1}", "{", "}", "#", ",", ";", "\t", "\n", "1.5", '"', "a b c")
    made = random.random() < 0.3
    data = _edges(random) if made else mutated(random, _edge_seeds(), tokens)
    return _graph_case(random, random.choice(_LIST_ENDINGS), data, ("LISTS",))


def _edges(random: Random) -> bytes:
    cells = ("0", "1", "2", "a", "b", "é", *NUMBERS[:20], *TEXTS[:8])
    lines = []
    for _ in range(random.choice((1, 3, 10))):
        width = random.choice((1, 2, 2, 3, 4))
        lines.append(random.choice((" ", ",", "\t", ";")).join(
            random.choice(cells) for _ in range(width)
        ))  # fmt: skip
    return "\n".join(lines).encode("utf-8", "replace")


@cache
def _edge_seeds() -> list[bytes]:
    return [
        b"0 1 1.0\n1 2 2.0\n2 0 3.0\n",
        b"source,target,length\n0,1,1.0\n1,2,2.5\n2,0,1\n",
        b"# a graph\n0 1 {'length': 1.0}\n1 2 {'length': 2.0}\n3\n",
        b"a\tb\nb\tc\nc\ta\n",
        b"u;v;w\n1;2;3\n2;3;4\n",
        *corpus("edges"),
    ]
