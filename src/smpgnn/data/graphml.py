"""Read GraphML, the XML graph format of networkx, igraph, yEd and Gephi."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from smpgnn.data.raw_graph import RawEdge, RawGraph, assemble
from smpgnn.errors import InputError, shown


def _boolean(text: str) -> bool:
    if text.casefold() not in ("true", "false", "1", "0"):
        raise ValueError(text)
    return text.casefold() in ("true", "1")


_TYPES: dict[str, Callable[[str], object]] = {
    "boolean": _boolean,
    "int": int,
    "integer": int,
    "long": int,
    "float": float,
    "double": float,
    "string": str,
}


class _Key(NamedTuple):
    """A declared attribute: its name, what it belongs to, its type and default."""

    name: str
    owner: str
    convert: Callable[[str], object]
    default: str | None


def read_graphml(file: Path, data: bytes) -> Iterator[RawGraph]:
    """Read each graph of the file with the content `data`; parallel edges are kept."""
    root = _root(file, data)
    keys = _keys(root, file)
    graphs = [child for child in root if _tag(child) == "graph"]
    if not graphs:
        raise InputError(f"{file} contains no <graph>: give a GraphML file with at least one.")
    for number, element in enumerate(graphs):
        alone = len(graphs) == 1
        names = (file.name, file.stem) if alone else (f"{file.name}[{number}]", str(number))
        yield _graph(element, keys, file, names)


def _root(file: Path, data: bytes) -> ElementTree.Element:
    if b"<!ENTITY" in data.replace(b"\0", b""):  # in UTF-16, too
        # A few lines of entities can expand to gigabytes of text.
        raise InputError(f"{file} declares XML entities, which a graph does not need: remove them.")
    try:
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise InputError(f"{file} is not valid XML: {error}.") from error
    if _tag(root) != "graphml":
        raise InputError(f"{file} is XML but not GraphML: its root element is <{_tag(root)}>.")
    return root


def _keys(root: ElementTree.Element, file: Path) -> dict[str, _Key]:
    keys: dict[str, _Key] = {}
    for element in root:
        name = element.get("attr.name")
        if _tag(element) != "key" or name is None:
            continue  # keys without a name describe drawings
        kind = element.get("attr.type", "string")
        if kind not in _TYPES:
            raise InputError(
                f"{file}: attribute '{shown(name)}' has the unknown type '{shown(kind)}': known "
                f"types are {', '.join(_TYPES)}."
            )
        default = next((child.text or "" for child in element if _tag(child) == "default"), None)
        keys[element.get("id", "")] = _Key(name, element.get("for", "all"), _TYPES[kind], default)
    return keys


def _graph(
    element: ElementTree.Element, keys: Mapping[str, _Key], file: Path, names: tuple[str, ...]
) -> RawGraph:
    default = element.get("edgedefault", "undirected")
    nodes: dict[Hashable, Mapping[str, object]] = {}
    edges: list[RawEdge] = []
    for child in element:
        tag = _tag(child)
        if tag == "hyperedge":
            raise InputError(f"{file}: graph {names[0]} has a hyperedge: use edges of two nodes.")
        if tag == "node":
            node = child.get("id")
            if node is None:
                raise InputError(f"{file}: a node of graph {names[0]} has no id: give it one.")
            if node in nodes:
                raise InputError(f"{file}: two nodes have the id '{shown(node)}': rename one.")
            if any(_tag(inner) == "graph" for inner in child):
                raise InputError(f"{file}: node '{node}' contains a graph: flatten nested graphs.")
            nodes[node] = _values(child, keys, "node", f"{file}, node '{shown(node)}'")
        elif tag == "edge":
            place = f"{file}, edge {len(edges)}"
            own = child.get("directed")
            if own is not None and (own == "true") != (default == "directed"):
                raise InputError(
                    f"{place} and its graph differ in direction: make both directed or undirected."
                )
            values = _values(child, keys, "edge", place)
            edges.append(RawEdge(child.get("source"), child.get("target"), values, place))
    own_name = element.get("id")
    return assemble(
        names if own_name is None else (*names, own_name),
        nodes,
        edges,
        directed=default == "directed",
        parallel=True,
        attributes=_values(element, keys, "graph", f"{file}, graph {names[0]}"),
    )


def _values(
    element: ElementTree.Element, keys: Mapping[str, _Key], owner: str, place: str
) -> dict[str, object]:
    texts = {
        name: key.default
        for name, key in keys.items()
        if key.default is not None and key.owner in (owner, "all")
    }
    for child in element:
        name = child.get("key", "")
        if _tag(child) == "data" and name in keys:
            texts[name] = child.text or ""
    values: dict[str, object] = {}
    for name, text in texts.items():
        key = keys[name]
        try:
            values[key.name] = key.convert(text.strip())
        except ValueError as error:
            raise InputError(
                f"{place}: attribute '{shown(key.name)}' is '{shown(text)}', which is not of "
                "its declared type: correct the value or the type."
            ) from error
    return values


def _tag(element: ElementTree.Element) -> str:
    """The name of an element without its namespace."""
    return element.tag.rsplit("}", 1)[-1] if isinstance(element.tag, str) else ""
