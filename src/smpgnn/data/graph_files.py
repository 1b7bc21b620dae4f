"""Read graphs from node-link JSON (NetworkX), GraphML and edge lists; runs no code in them."""

from __future__ import annotations

import ast
import csv
import json
import re
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from smpgnn.data.graphml import read_graphml
from smpgnn.data.raw_graph import RawEdge, RawGraph, assemble
from smpgnn.data.tables import existing_file
from smpgnn.errors import InputError, shown

Value = TypeVar("Value")
FORMATS = (".json", ".jsonl", ".graphml", ".edgelist", ".txt", ".csv", ".tsv")
_HALF = re.compile(r"\\u0*d[89a-f]", re.IGNORECASE)
_HEADERS = {("source", "target"), ("from", "to"), ("src", "dst"), ("u", "v"), ("node1", "node2")}


def read_files(path: str | Path, skip: object = None) -> list[RawGraph]:
    """All graphs of a file, or of all files with a known extension in a folder, sorted by name.

    `skip` may be a file of the folder that is not a graph.
    """
    path = Path(path)
    files = [path]
    if path.is_dir():
        files = [
            file
            for file in sorted(path.iterdir())
            if file.is_file()
            and file.suffix.lower() in FORMATS
            and not file.name.startswith(".")
            and not (isinstance(skip, str | Path) and file.samefile(skip))
        ]
    if not files:
        raise InputError(
            f"{path} contains no graph files: the known extensions are {', '.join(FORMATS)}."
        )
    return [graph for file in files for graph in _read(existing_file(file))]


def _read(file: Path) -> Iterable[RawGraph]:
    suffix = file.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"{file} has an unknown extension: known are {', '.join(FORMATS)}.")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError(f"{file} cannot be read ({error.strerror or error}).") from error
    if suffix == ".graphml":
        return read_graphml(file, data)
    try:
        text = data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text: save it as UTF-8.") from error
    if suffix in (".json", ".jsonl"):
        return _read_json(file, text)
    return [_read_edge_list(file, text)]


# Node-link JSON


def _read_json(file: Path, text: str) -> Iterator[RawGraph]:
    """One graph, a list of graphs, or (.jsonl) one graph per line."""
    items: Iterable[tuple[str, Any]]
    if file.suffix.lower() == ".jsonl":
        lines = enumerate(text.split("\n"), start=1)
        places = ((f"{file}, line {line}", content) for line, content in lines if content.strip())
        items = ((place, _parse(content, place)) for place, content in places)
        empty = "contains only blanks: give one graph per line"
    else:
        data = _parse(text, str(file))
        if not isinstance(data, list):
            yield _node_link(data, str(file), (file.name, file.stem))
            return
        items = ((f"{file}, graph {number}", item) for number, item in enumerate(data))
        empty = "is an empty list: give at least one graph"
    number = -1
    for number, (place, item) in enumerate(items):
        yield _node_link(item, place, (f"{file.name}[{number}]", str(number)), listed=True)
    if number < 0:
        raise InputError(f"{file} {empty}.")


def _parse(text: str, place: str) -> Any:
    try:
        return _readable(json.loads(text), text, place)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{place} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    except InputError:
        raise
    except ValueError as error:  # Python limits the digits of an integer
        raise InputError(
            f"{place} contains a number with thousands of digits: shorten it."
        ) from error
    except RecursionError as error:
        raise InputError(f"{place} is nested too deeply for a graph: flatten it.") from error


def _readable(value: Value, text: str, place: str) -> Value:
    """Return `value`, read from `text`; refuse it if it contains a lone surrogate."""
    if _HALF.search(text):  # UTF-8 text can contain a lone surrogate only as an escape
        try:
            json.dumps(value, ensure_ascii=False, default=str, skipkeys=True).encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"{place} contains a lone surrogate (\\ud800 to \\udfff): remove it."
            ) from error
    return value


def _node_link(data: Any, place: str, names: tuple[str, ...], *, listed: bool = False) -> RawGraph:
    """A graph in the format of networkx.node_link_data; edges are under 'edges' or 'links'."""
    if not isinstance(data, dict) or not isinstance(data.get("nodes"), list):
        raise InputError(
            f"{place} is not a node-link graph: write an object with a list 'nodes' and a list "
            "'edges' (or 'links'), as networkx.node_link_data does."
        )
    links = data.get("edges", data.get("links"))
    if not isinstance(links, list):
        raise InputError(f"{place} has no list 'edges' or 'links': add it, even if empty.")
    attributes = data.get("graph") or {}
    if not isinstance(attributes, dict):
        raise InputError(f"{place}: 'graph' must be an object with the graph's attributes.")
    own = [attributes.get("name"), attributes.get("id"), data.get("name"), data.get("id")]
    called = tuple(str(name) for name in own if isinstance(name, str | int) and name != "")
    nodes: dict[Hashable, Mapping[str, object]] = {}
    for position, item in enumerate(data["nodes"]):
        if not isinstance(item, dict) or "id" not in item:
            raise InputError(f"{place}: node {position} has no 'id': give it one.")
        node = _identity(item["id"])
        if node in nodes:
            raise InputError(f"{place}: two nodes have the id {shown(repr(node))}: rename one.")
        nodes[node] = {key: value for key, value in item.items() if key != "id"}
    parallel = bool(data.get("multigraph", False))
    reserved = {"source", "target", "key"} if parallel else {"source", "target"}
    edges: list[RawEdge] = []
    for position, item in enumerate(links):
        if not isinstance(item, dict) or "source" not in item or "target" not in item:
            raise InputError(f"{place}: edge {position} needs a 'source' and a 'target'.")
        values = {key: value for key, value in item.items() if key not in reserved}
        source, target = _identity(item["source"]), _identity(item["target"])
        edges.append(RawEdge(source, target, values, f"{place}, edge {position}"))
    return assemble(
        (*called, *names) if listed else (*names, *called),
        nodes,
        edges,
        directed=bool(data.get("directed", False)),
        parallel=parallel,
        attributes=attributes,
    )


def _identity(value: Any) -> Hashable:
    """A hashable node id; lists (tuples in Python) and objects become text."""
    return json.dumps(value) if isinstance(value, list | dict) else value


# Edge lists


def _read_edge_list(file: Path, text: str) -> RawGraph:
    """An undirected graph: lines 'u v values...' for edges, 'u' for lone nodes, '#' for comments.

    Cells are separated by blanks or commas, in .csv and .tsv files as usual. A header 'source
    target ...' names the values; without it a single value is the weight. Lines of networkx,
    "u v {'a': 1}", are read, too.
    """
    nodes: dict[Hashable, Mapping[str, object]] = {}
    edges: list[RawEdge] = []
    names: list[str] | None = None
    for place, cells, values in _cells(file, text):
        first = tuple(cell.casefold() for cell in cells[:2])
        if not nodes and names is None and first in _HEADERS:
            names = cells[2:]
            continue
        nodes.update((node, {}) for node in cells[:2])
        if len(cells) == 1:
            continue
        if names is None:
            count = len(cells) - 2
            names = ["weight"] if count == 1 else [f"value{k + 1}" for k in range(count)]
        if len(cells) != 2 + len(names):
            raise InputError(
                f"{place}: {len(cells)} cells, but {2 + len(names)} in the lines before: "
                "fix the line."
            )
        numbers = {name: _number(cell) for name, cell in zip(names, cells[2:], strict=True)}
        edges.append(RawEdge(cells[0], cells[1], {**numbers, **values}, place))
    return assemble(
        (file.name, file.stem), nodes, edges, directed=False, parallel=False, attributes={}
    )


def _cells(file: Path, text: str) -> Iterator[tuple[str, list[str], Mapping[str, object]]]:
    """Place, cells and attributes (in networkx's format) of each line with content."""
    table = file.suffix.lower() in (".csv", ".tsv")
    separator = max(",;\t", key=text.split("\n", 1)[0].count)
    for line, written in enumerate(text.split("\n"), start=1):
        place = f"{file}, line {line}"
        content = written.strip()
        if not content or content.startswith("#"):
            continue
        values: Mapping[str, object] = {}
        if table:
            try:
                record = next(csv.reader([content], delimiter=separator, strict=True))
            except csv.Error as error:
                raise InputError(f"{place} cannot be read ({error}).") from error
            cells = [cell.strip() for cell in record]
            while cells and not cells[-1]:
                cells.pop()
        else:
            content, brace, rest = content.partition("{")
            values = _literal(brace + rest, place) if brace else {}
            cells = re.split(r"[\s,;]+", content.strip(" \t,;"))
        if not cells or not all(cells[:2]):
            raise InputError(f"{place}: a node has no name: fix the line.")
        yield place, cells, values


def _literal(text: str, place: str) -> Mapping[str, object]:
    """Attributes as networkx writes them, a Python dictionary of constants."""
    try:
        with warnings.catch_warnings():  # from the parser, about escapes and numbers
            warnings.simplefilter("ignore", SyntaxWarning)
            values = dict(ast.literal_eval(text).items())  # constants only: runs no code
    except (
        ValueError,
        SyntaxError,
        MemoryError,
        RecursionError,
        TypeError,
        AttributeError,
    ) as error:
        raise InputError(f"{place}: '{text[:40]}' cannot be read as attributes.") from error
    return _readable({str(name): value for name, value in values.items()}, text, place)


def _number(cell: str) -> object:
    try:
        return float(cell)
    except ValueError:
        return cell
