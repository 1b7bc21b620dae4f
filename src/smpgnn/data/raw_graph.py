"""RawGraph: a graph as read from a file, with names and attributes, before it is encoded."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from smpgnn.errors import InputError, readable, shown


@dataclass(frozen=True, eq=False)
class RawGraph:
    """Nodes in file order and directed `edges`; an undirected edge appears twice.

    `names` are the names a label table may use for the graph; messages show the first.
    `node_values` and `edge_values` are the attributes of each node and each directed edge.
    """

    names: tuple[str, ...]
    nodes: tuple[Hashable, ...]
    node_values: list[Mapping[str, object]]
    edges: list[tuple[int, int]]
    edge_values: list[Mapping[str, object]]
    attributes: Mapping[str, object]

    @property
    def name(self) -> str:
        return self.names[0]


class RawEdge(NamedTuple):
    """An edge as written in the file, with its place for messages."""

    source: Hashable
    target: Hashable
    values: Mapping[str, object]
    place: str


def assemble(
    names: Sequence[str],
    nodes: Mapping[Hashable, Mapping[str, object]],
    edges: Sequence[RawEdge],
    *,
    directed: bool,
    parallel: bool,
    attributes: Mapping[str, object],
) -> RawGraph:
    """Check nodes and edges and assign indices; without `parallel` a repeated edge counts once."""
    if not nodes:
        raise InputError(f"Graph {names[0]} has no nodes: remove it or add a node.")
    number = {node: k for k, node in enumerate(nodes)}
    kept: dict[object, tuple[int, int, Mapping[str, object]]] = {}
    for order, edge in enumerate(edges):
        for end in (edge.source, edge.target):
            if end not in number:
                raise InputError(
                    f"{edge.place}: node {shown(repr(end))} of the edge does not exist in graph "
                    f"{names[0]}: add the node or fix the edge."
                )
        a, b = number[edge.source], number[edge.target]
        pair = (a, b) if directed else (min(a, b), max(a, b))
        kept[order if parallel else pair] = (a, b, edge.values)
    pairs: list[tuple[int, int]] = []
    values: list[Mapping[str, object]] = []
    for a, b, value in kept.values():
        pairs.append((a, b))
        values.append(value)
        if not directed and a != b:
            pairs.append((b, a))
            values.append(value)
    unique = tuple(dict.fromkeys(map(readable, names)))
    return RawGraph(unique, tuple(nodes), list(nodes.values()), pairs, values, attributes)
