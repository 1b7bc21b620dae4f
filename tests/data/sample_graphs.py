"""A small graph with every kind of attribute, and helpers to save graphs and read edges back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import networkx as nx

from smpgnn.data.graphs import GraphTable


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
