"""Algorithm 1: how many colours it needs, beside the rows of neighbourhood identifiers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import networkx as nx
import torch

from smpgnn.contexts.coloring import coloring
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.neighborhood import neighborhoods
from smpgnn.contexts.topology import Topology
from smpgnn.paper.theory.families import topology
from smpgnn.paper.theory.program import Program


@dataclass(frozen=True)
class Rows:
    """The rows of a context that a graph needs under each scheme, for so many layers.

    Args:
        family, nodes, degree, diameter: of the graph; `degree` is its average.
        layers: depth L of the network.
        colors: χ of Algorithm 1; one-hot identifiers need `nodes`.
        mean_rows: of neighbourhood identifiers: the ball of radius L and the unseen row, on average
            over the nodes.
        max_rows: the same for the largest ball.
    """

    family: str
    nodes: int
    degree: float
    diameter: int
    layers: int
    colors: int
    mean_rows: float
    max_rows: int


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


def tree(n: int) -> nx.Graph:
    """A uniform random tree of n nodes."""
    return nx.random_labeled_tree(n, seed=0)


def regular(degree: int) -> Callable[[int], nx.Graph]:
    """Random regular graphs of this degree, drawn until connected."""

    def draw(n: int) -> nx.Graph:
        seed = 0
        while not nx.is_connected(graph := nx.random_regular_graph(degree, n, seed=seed)):
            seed += 1
        return graph

    return draw


def scale_free(n: int) -> nx.Graph:
    """A graph of Barabási and Albert, two edges a new node."""
    return nx.barabasi_albert_graph(n, 2, seed=0)


FAMILIES: dict[str, Callable[[int], nx.Graph]] = {
    "tree": tree,
    "grid": grid,
    "mesh": mesh,
    "3-regular": regular(3),
    "6-regular": regular(6),
    "scale-free": scale_free,
}


def rows(family: str, graph: nx.Graph, depths: Sequence[int]) -> list[Rows]:
    """The rows of one connected graph for networks of several depths.

    Checks what the appendix promises: no node sees a colour twice within L hops, and the colouring
    saves rows iff the diameter exceeds 2L. Raises `AssertionError` where it does not hold.
    """
    batch = topology([graph])
    n, diameter = graph.number_of_nodes(), nx.diameter(graph)
    found = []
    for layers in depths:
        color = coloring(batch, layers)
        sizes = ContextIndex.build(batch, "neighborhood", layers).table.ptr.diff()
        one = Rows(
            family,
            n,
            2 * graph.number_of_edges() / n,
            diameter,
            layers,
            int(color.max()) + 1,
            float(sizes.double().mean()),
            int(sizes.max()),
        )
        check_colors(batch, layers, color)
        assert (one.colors < n) == (diameter > 2 * layers), one
        assert one.max_rows <= one.colors + 1, one
        found.append(one)
    return found


def check_colors(batch: Topology, layers: int, color: torch.Tensor) -> None:
    """Raise `AssertionError` where a node sees a colour twice within this many hops."""
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


def run() -> None:
    sizes, depths = (64, 256), (1, 2, 4)
    print("Rows of a context: colours of Algorithm 1, and balls with the unseen row (mean, most)")
    print(f"{'graph':<11} {'n':>5} {'degree':>6} {'diameter':>8} {'L':>2} {'colours':>8}"
          f" {'mean':>7} {'most':>5}")  # fmt: skip
    for row in measure(sizes, depths):
        print(
            f"{row.family:<11} {row.nodes:>5} {row.degree:>6.1f} {row.diameter:>8} "
            f"{row.layers:>2} {row.colors:>8} {row.mean_rows:>7.1f} {row.max_rows:>5}"
        )
    print("No node saw a colour twice; colours were saved just where the diameter exceeds 2L;")
    print("no context of a neighbourhood had more rows than there were colours, and one.")


PROGRAM = Program(
    name="coloring",
    claim="Appendix E, Algorithm 1: identifiers may repeat beyond 2L hops; how many are needed",
    run=run,
)
