"""Algorithm 1: how many colours it uses, compared with the rows of neighbourhood identifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import networkx as nx
import torch
from torch import Tensor

from smpgnn.contexts.coloring import coloring
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.neighborhood import neighborhoods
from smpgnn.contexts.topology import Topology
from smpgnn.paper.theory.graphs import topology
from smpgnn.paper.theory.tables import Table, print_table


@dataclass(frozen=True)
class Rows:
    """The rows of a context that a graph needs under each scheme, for a network of some depth.

    A neighbourhood is the ball of radius L around a node, and one row for unseen nodes.
    """

    family: str
    nodes: int  # one-hot identifiers need as many rows
    degree: float  # average
    diameter: int
    layers: int  # depth L of the network
    colors: int  # χ of Algorithm 1
    mean_rows: float  # of the neighbourhoods
    max_rows: int  # of the largest neighbourhood


def grid(n: int) -> nx.Graph:
    """A square grid of about n nodes."""
    side = round(n**0.5)
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side))


def mesh(n: int) -> nx.Graph:
    """A square grid of about n nodes with one diagonal in every cell."""
    side = round(n**0.5)
    graph = nx.grid_2d_graph(side, side)
    cells = ((a, b) for a in range(side - 1) for b in range(side - 1))
    graph.add_edges_from(((a, b), (a + 1, b + 1)) for a, b in cells)
    return nx.convert_node_labels_to_integers(graph)


def regular(degree: int, n: int) -> nx.Graph:
    """A random regular graph, drawn until it is connected."""
    seed = 0
    while not nx.is_connected(graph := nx.random_regular_graph(degree, n, seed=seed)):
        seed += 1
    return graph


FAMILIES: dict[str, Callable[[int], nx.Graph]] = {
    "tree": lambda n: nx.random_labeled_tree(n, seed=0),
    "grid": grid,
    "mesh": mesh,
    "3-regular": lambda n: regular(3, n),
    "6-regular": lambda n: regular(6, n),
    "scale-free": lambda n: nx.barabasi_albert_graph(n, 2, seed=0),
}


def rows(family: str, graph: nx.Graph, depths: Sequence[int]) -> list[Rows]:
    """The rows of one connected graph for networks of several depths.

    Checks what the appendix promises: no node sees a colour twice within L hops, and colours are
    saved iff the diameter exceeds 2L. Raises `AssertionError` if it does not hold.
    """
    batch = topology([graph])
    n, diameter = len(graph), nx.diameter(graph)
    degree = 2 * graph.number_of_edges() / n
    found = []
    for layers in depths:
        color = coloring(batch, layers)
        check_colors(batch, layers, color)
        sizes = ContextIndex.build(batch, "neighborhood", layers).table.ptr.diff()
        most, mean = int(sizes.max()), float(sizes.double().mean())
        one = Rows(family, n, degree, diameter, layers, int(color.max()) + 1, mean, most)
        assert (one.colors < n) == (diameter > 2 * layers), one
        assert one.max_rows <= one.colors + 1, one
        found.append(one)
    return found


def check_colors(batch: Topology, layers: int, color: Tensor) -> None:
    """Raise `AssertionError` if a node sees a colour twice within this many hops."""
    node, seen = neighborhoods(batch, layers)
    key = node * (int(color.max()) + 1) + color[seen]
    assert torch.unique(key).numel() == key.numel(), f"a colour repeats within {layers} hops"


def measure(
    sizes: Sequence[int] = (64, 256, 1024), depths: Sequence[int] = (1, 2, 3, 4, 6, 8)
) -> list[Rows]:
    """All families, for these numbers of nodes and layers."""
    return [
        row
        for name, make in FAMILIES.items()
        for size in sizes
        for row in rows(name, make(size), depths)
    ]


def depth_table(found: Sequence[Rows], depths: Sequence[int]) -> Table:
    """Colours / largest neighbourhood / mean neighbourhood of the largest graphs."""
    largest = max(row.nodes for row in found)
    lines: list[list[object]] = []
    for family in dict.fromkeys(row.family for row in found):
        own = {r.layers: r for r in found if (r.family, r.nodes) == (family, largest)}
        one = own[depths[0]]
        cells = [
            f"{own[layers].colors} / {own[layers].max_rows} / {own[layers].mean_rows:.0f}"
            for layers in depths
        ]
        lines.append([family, f"{one.degree:.1f}", one.diameter, *cells])
    return [["graph", "degree", "diameter", *(f"L = {layers}" for layers in depths)], *lines]


def size_table(found: Sequence[Rows], layers: int) -> Table:
    """Colours / mean neighbourhood of all sizes."""
    sizes = sorted({row.nodes for row in found})
    lines: list[list[object]] = []
    for family in dict.fromkeys(row.family for row in found):
        own = {r.nodes: r for r in found if (r.family, r.layers) == (family, layers)}
        lines.append([family, *(f"{own[n].colors} / {own[n].mean_rows:.0f}" for n in sizes)])
    return [["graph", *(f"n = {n}" for n in sizes)], *lines]


def run(sizes: Sequence[int] = (64, 256), depths: Sequence[int] = (1, 2, 4)) -> None:
    found = measure(sizes, depths)
    print(f"Rows of a context for n = {max(sizes)}: colours of Algorithm 1 / largest / mean")
    print("neighbourhood, with one row for unseen nodes.")
    print_table(depth_table(found, depths))
    print("\nTwo layers: colours / mean neighbourhood.")
    print_table(size_table(found, 2))
    print("\nNo node saw a colour twice. Colours were saved exactly where the diameter exceeds 2L.")
    print("No neighbourhood had more rows than there were colours, plus one.")
