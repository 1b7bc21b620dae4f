"""Draw the figures of warm-up.md and reconstruction.md in docs/theory/figures.

python docs/theory/draw_contexts.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import networkx as nx
from torch import Tensor

from smpgnn.paper.theory.embedding import TOLERANCE
from smpgnn.paper.theory.graphs import adjacency_matrix, undirected
from smpgnn.paper.theory.reconstruction import channels_of, reconstruction
from smpgnn.paper.theory.three_steps import decode
from smpgnn.paper.theory.warm_up import receptive_fields, warm_up

matplotlib.use("Agg")
from matplotlib import pyplot

FOLDER = Path(__file__).parent / "figures"
INK, ACCENT, PALE = "#222222", "#c1440e", "#e8e4da"


def kite() -> nx.Graph:
    """A triangle at the end of a path. The edge 4–5 is the last one to reach node 0."""
    return nx.Graph([(0, 1), (1, 2), (2, 3), (3, 4), (3, 5), (4, 5)])


PLACES = {0: (0, 0), 1: (0, 1), 2: (0, 2), 3: (0, 3), 4: (-0.6, 4), 5: (0.6, 4)}


def draw_graph(axes: Any, known: Tensor) -> None:
    """The whole graph in grey; the edges that node 0 knows in colour."""
    graph = kite()
    seen = [(a, b) for a, b in graph.edges if known[a, b]]
    nx.draw_networkx_edges(graph, PLACES, ax=axes, edge_color=PALE, width=2.5)
    nx.draw_networkx_edges(graph, PLACES, edgelist=seen, ax=axes, edge_color=ACCENT, width=2.5)
    colors = [ACCENT if node == 0 else "white" for node in graph]
    nx.draw_networkx_nodes(graph, PLACES, ax=axes, node_color=colors, edgecolors=INK, node_size=150)
    nx.draw_networkx_labels(graph, PLACES, ax=axes, font_size=7, font_color=INK)
    axes.margins(0.25, 0.1)
    axes.set_axis_off()


def draw_matrix(axes: Any, values: Tensor, colors: str, low: float, high: float) -> None:
    axes.imshow(values, cmap=colors, vmin=low, vmax=high)
    axes.set_xticks(range(values.size(1)), minor=False)
    axes.set_yticks(range(values.size(0)))
    axes.tick_params(length=0, labelsize=6)
    for side in axes.spines.values():
        side.set_color(PALE)


def mark(axes: Any, known: Tensor) -> None:
    """Outline the entries of known edges."""
    for p, q in known.nonzero().tolist():
        axes.add_patch(
            pyplot.Rectangle((q - 0.5, p - 0.5), 1, 1, fill=False, edgecolor=ACCENT, linewidth=1.5)
        )


def draw_warm_up() -> None:
    contexts = warm_up([kite()], 5)[0, :, 0]
    figure, rows = pyplot.subplots(2, 5, figsize=(7.5, 3.9), height_ratios=[1.25, 1])
    for number, (top, bottom, context) in enumerate(zip(*rows, contexts, strict=True), start=1):
        draw_graph(top, context)
        top.set_title(f"l = {number}", fontsize=9, color=INK)
        draw_matrix(bottom, context, "Greys", 0, 1.3)
        mark(bottom, context)
    save(figure, "warm_up.png")


def draw_reconstruction() -> None:
    edges = undirected(kite())
    layers = reconstruction(edges, 5)
    known = receptive_fields(kite(), 5)[:, 0]
    figure, rows = pyplot.subplots(2, 5, figsize=(7.5, 3.4))
    for number, (top, bottom, contexts) in enumerate(zip(*rows, layers, strict=True), start=1):
        vectors = contexts[0]
        draw_matrix(top, vectors, "RdBu_r", -1, 1)
        top.set_title(f"l = {number}", fontsize=9, color=INK)
        product = (vectors @ vectors.T).abs()
        draw_matrix(bottom, (product > TOLERANCE) * (0.25 + 0.75 * product), "Greys", 0, 1)
        mark(bottom, known[number - 1])
    rows[0, 0].set_ylabel("U_0", fontsize=9)
    rows[1, 0].set_ylabel("|U_0 U_0ᵀ|", fontsize=9)
    last = decode(layers[-1], channels_of(edges)).a
    assert bool((last == adjacency_matrix(kite())).all())
    save(figure, "reconstruction.png")


def save(figure: Any, name: str) -> None:
    FOLDER.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(FOLDER / name, dpi=110, metadata={"Software": None})
    pyplot.close(figure)


if __name__ == "__main__":
    draw_warm_up()
    draw_reconstruction()
