"""GraphSchema: how the attributes of graphs are encoded as features, and the targets."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor

from smpgnn.config.plain import from_plain
from smpgnn.data.raw_graph import RawGraph
from smpgnn.data.tables import listing
from smpgnn.data.targets import TargetSpec
from smpgnn.errors import InputError, shown

Level = Literal["graph", "node"]
Part = Literal["node", "edge"]
MAX_CATEGORIES = 256


def check_level(level: str) -> None:
    """Refuse levels other than "graph" and "node"."""
    if level not in get_args(Level):
        raise InputError(f"level is '{level}', but must be 'graph' or 'node'.")


@dataclass(frozen=True)
class Attribute:
    """One attribute: a number (one channel), a vector (`width`) or a category (one-hot)."""

    name: str
    kind: Literal["number", "vector", "category"]
    width: int = 1
    categories: tuple[str, ...] = ()


@dataclass(frozen=True)
class GraphSchema:
    """All that is needed to encode other graphs in the same way; contains plain values only."""

    level: Level
    node_attributes: tuple[Attribute, ...] = ()
    edge_attributes: tuple[Attribute, ...] = ()
    targets: TargetSpec | None = None

    @property
    def node_channels(self) -> int:
        return sum(attribute.width for attribute in self.node_attributes)

    @property
    def edge_channels(self) -> int:
        return sum(attribute.width for attribute in self.edge_attributes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return cast(dict[str, Any], json.loads(json.dumps(asdict(self))))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> GraphSchema:
        return from_plain(cls, values, "schema")


def infer_attributes(
    graphs: Sequence[RawGraph], part: Part, exclude: Sequence[str] = ()
) -> tuple[Attribute, ...]:
    """The attributes of the nodes (or edges), which all of them in all graphs must have.

    Numbers and booleans are one channel, lists of numbers one channel per entry; texts are one-hot.
    """
    names = _common_names(graphs, part, frozenset(exclude))
    return tuple(_infer(graphs, part, name) for name in names)


def encode_attributes(
    graphs: Sequence[RawGraph], part: Part, attributes: Sequence[Attribute]
) -> Tensor | None:
    """Encode the features of nodes (or directed edges), [N, F] float32; None if there are none."""
    if not attributes:
        return None
    return torch.cat([_encode(graphs, part, attribute) for attribute in attributes], dim=1)


def _items(
    graphs: Sequence[RawGraph], part: Part
) -> Iterator[tuple[RawGraph, Mapping[str, object]]]:
    for graph in graphs:
        for values in graph.node_values if part == "node" else graph.edge_values:
            yield graph, values


def _common_names(
    graphs: Sequence[RawGraph], part: Part, exclude: frozenset[str]
) -> tuple[str, ...]:
    first: tuple[RawGraph, tuple[str, ...]] | None = None
    for graph, values in _items(graphs, part):
        names = tuple(name for name in values if name not in exclude)
        if first is None:
            first = graph, names
        elif set(names) != set(first[1]):
            differing = sorted(set(names) ^ set(first[1]))[0]
            here, there = (graph, first[0]) if differing in first[1] else (first[0], graph)
            raise InputError(
                f"Graph {here.name} has {_article(part)} without the attribute '{differing}', "
                f"which graph {there.name} has: add it to all."
            )
    return () if first is None else first[1]


def _values(graphs: Sequence[RawGraph], part: Part, name: str) -> Iterator[tuple[RawGraph, object]]:
    for graph, values in _items(graphs, part):
        if values.get(name) is None:
            raise InputError(
                f"Graph {graph.name} has {_article(part)} without the attribute '{name}': "
                "add it to all."
            )
        yield graph, values[name]


def _infer(graphs: Sequence[RawGraph], part: Part, name: str) -> Attribute:
    kind, width = "", 1
    categories: set[str] = set()
    for graph, value in _values(graphs, part, name):
        own, size = "number", 1
        if isinstance(value, list | tuple):
            own, size = "vector", len(value)
        elif isinstance(value, str):
            own = "category"
            categories.add(_category(value))
        kind, width = (kind, width) if kind else (own, size)
        if size == 0:
            raise _differs(graph, part, name, "an empty list")
        if own != kind:
            raise _differs(graph, part, name, f"a {own}, but elsewhere a {kind}")
        if size != width:
            raise _differs(graph, part, name, f"a list of {size} numbers, not {width}")
        if len(categories) > MAX_CATEGORIES:
            raise InputError(
                f"The {part} attribute '{name}' has more than {MAX_CATEGORIES} different texts, "
                "too many for one-hot encoding: remove it."
            )
    if kind == "category":
        return Attribute(name, "category", len(categories), tuple(sorted(categories, key=_order)))
    return Attribute(name, "vector" if kind == "vector" else "number", width)


def _encode(graphs: Sequence[RawGraph], part: Part, attribute: Attribute) -> Tensor:
    """The channels of one attribute, [N, width]."""
    name, width = attribute.name, attribute.width
    number = {category: k for k, category in enumerate(attribute.categories)}
    codes: list[int] = []
    rows: list[float] = []
    for graph, value in _values(graphs, part, name):
        if attribute.kind == "category":
            code = number.get(_category(value))
            if code is None:
                raise InputError(
                    f"Graph {graph.name}: the {part} attribute '{name}' is '{shown(value)}', "
                    f"but the model only knows {listing(attribute.categories)}."
                )
            codes.append(code)
            continue
        entries = value if isinstance(value, list | tuple) else (value,)
        if len(entries) != width or isinstance(value, str):
            raise _differs(graph, part, name, f"not a {attribute.kind} of width {width}")
        for entry in entries:
            channel = _finite(entry)
            if channel is None:
                raise _differs(graph, part, name, f"{shown(entry)}, not a finite number")
            rows.append(channel)
    if attribute.kind == "category":
        index = torch.tensor(codes, dtype=torch.long)
        return torch.nn.functional.one_hot(index, width).to(torch.float32)
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, width)


def _finite(entry: object) -> float | None:
    """The number that an entry is; None if it is none, or too large for float32."""
    try:
        number = float(entry) if isinstance(entry, int | float) else math.nan
    except OverflowError:
        return None
    return number if abs(number) < 3e38 else None


def _category(value: object) -> str:
    """1, 1.0 and '1' are the same category in all file formats."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _order(category: str) -> tuple[int, float, str]:
    try:
        return 0, float(category), category
    except ValueError:
        return 1, 0.0, category


def _differs(graph: RawGraph, part: Part, name: str, what: str) -> InputError:
    return InputError(f"Graph {graph.name}: the {part} attribute '{name}' is {what}: fix the file.")


def _article(part: Part) -> str:
    return f"a{'n' if part == 'edge' else ''} {part}"
