"""Draw the figures of the concept pages, the front page and the README: docs/figures/concepts.

python docs/draw_concepts.py [FOLDER]

Every matrix shows numbers that the library computes. Each figure exists twice, for light and for
dark pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import networkx as nx
import torch
from concept_shapes import PALETTES, Canvas, Palette
from torch import Tensor

from smpgnn import ContextIndex, DefaultSMPLayer, LayerOptions, LocalContext, Topology

FOLDER = Path(__file__).resolve().parent / "figures" / "concepts"
#: A ring of five with a tail of three.
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (2, 5), (5, 6), (6, 7)]
PLACES = {0: (0, 0.9), 1: (0, -0.1), 2: (1, -0.35), 3: (1.6, 0.4), 4: (1, 1.15),
          5: (1.9, -1.05), 6: (1.0, -1.5), 7: (0.1, -1.1)}  # fmt: skip
NAMES = "abcdefgh"
CENTRE, CHANNELS = 0, 4


def both_ways(edges: list[tuple[int, int]]) -> Tensor:
    pairs = torch.tensor(edges).t()
    return torch.cat([pairs, pairs.flip(0)], dim=1)


def layers(count: int) -> list[DefaultSMPLayer]:
    """Layers with random weights; without biases and set terms, rows stay zero until news comes."""
    torch.manual_seed(7)
    options = LayerOptions(set_terms=False, message_residual=True, update_residual=True)
    made = [DefaultSMPLayer(CHANNELS, CHANNELS, options=options).double() for _ in range(count)]
    with torch.no_grad():
        for name, weight in (pair for one in made for pair in one.named_parameters()):
            if "bias" in name:
                weight.zero_()
    return made


def contexts(identifiers: str, depth: int, radius: int = 1) -> tuple[ContextIndex, list[Tensor]]:
    """The index, and the rows of all contexts before and after each layer."""
    index = ContextIndex.build(Topology.checked(both_ways(EDGES)), identifiers, depth, radius)
    marks = index.initial(None, torch.float64)
    torch.manual_seed(1)
    first = torch.randn(CHANNELS, dtype=torch.float64)
    context = marks.with_rows(marks.rows * first)
    found = [context.rows]
    with torch.no_grad():
        for layer in layers(depth):
            context = layer(context, index)
            context = context.with_rows(context.rows / context.rows.abs().max())
            found.append(context.rows)
    return index, found


def of_node(index: ContextIndex, rows: Tensor, node: int) -> Tensor:
    return rows[index.layout.ptr[node] : index.layout.ptr[node + 1]]


def hops() -> dict[int, int]:
    found: dict[int, int] = nx.single_source_shortest_path_length(nx.Graph(EDGES), CENTRE)
    return found


def shown(rows: Tensor) -> Tensor:
    """Small values made visible: signed cube roots, at most 1."""
    return rows.sign() * (rows.abs() / rows.abs().max()) ** (1 / 3)


def context(canvas: Canvas) -> None:
    """The graph, and the context of one node before and after each of two layers."""
    index, states = contexts("onehot", 2)
    canvas.graph(EDGES, PLACES, (0.1, 0.6), 1.0, NAMES, strong={CENTRE})
    canvas.text(1.05, 3.55, "a graph")
    titles = ("context of a", "after 1 layer", "after 2 layers")
    for place, (rows, title) in enumerate(zip(states, titles, strict=True)):
        left = 3.4 + 2.35 * place
        canvas.matrix((left, 0.55), shown(of_node(index, rows, CENTRE)), NAMES, strong={CENTRE})
        canvas.text(left + 0.7, 3.55, title)
        if place:
            canvas.arrow((left - 0.85, 1.9), (left - 0.4, 1.9))
    canvas.text(6.4, 0.25, "rows: what a knows of each node; columns: channels. Grey is zero.",
                size=8)  # fmt: skip


def layer(canvas: Canvas) -> None:
    """Message, sum and update of one node with two neighbours, row by row."""
    index, states = contexts("onehot", 2)
    network, start = layers(2)[1], LocalContext(states[1], index.layout)
    with torch.no_grad():
        prepared = network.prepare(start, index)
        layout, receiver, sender = index.by_edge
        sides = [
            LocalContext(prepared.rows.index_select(0, rows), layout) for rows in (receiver, sender)
        ]
        sent = network.message(*sides, None)
        total = network.aggregate(sent, index)
        new = network.update(prepared, total, index).rows
    edges = index.topology.edge_index.t().tolist()
    middle, known_only_to_c = 1, 5  # node b with its neighbours a and c; f is next to c

    def draw(at: tuple[float, float], rows: Tensor, title: str) -> None:
        canvas.matrix(at, shown(rows), NAMES, frame=known_only_to_c, cell=0.24)
        canvas.text(at[0] + 0.48, at[1] + 2.12, title)

    for place, node in enumerate((0, middle, 2)):
        words = "the receiver" if node == middle else "a neighbour"
        name = f"$U_{NAMES[node]}$, {words}"
        draw((0.5, 4.7 - 2.4 * place), of_node(index, prepared.rows, node), name)
    for place, node in enumerate((0, 2)):
        bottom, number = 3.5 - 2.4 * place, edges.index([node, middle])
        rows = sent.rows[layout.ptr[number] : layout.ptr[number + 1]]
        draw((3.4, bottom), rows, f"message $m(U_b, U_{NAMES[node]})$")
        for side in (0.75, -0.75):
            start_at = (1.6, bottom + 0.95 + 1.45 * side)
            canvas.arrow(start_at, (2.95, bottom + 0.95 + 0.35 * side))
        canvas.arrow((4.55, bottom + 0.95), (5.85, 3.25 + 0.35 * (1 - 2 * place)))
    draw((6.3, 2.3), of_node(index, total.rows, middle), "their sum")
    canvas.arrow((7.45, 3.25), (8.75, 3.25))
    draw((9.2, 2.3), of_node(index, new, middle), "update $u(U_b, sum)$")
    canvas.text(7.3, 0.75, "Framed: the row of node f. Each row is computed from the same row of\n"
                "the other contexts, so c tells b about f, and the names of the\n"
                "nodes do not matter: the layer is equivariant.", size=9)  # fmt: skip


def identifiers(canvas: Canvas) -> None:
    """The rows of one context under three schemes, on one graph."""
    canvas.graph(EDGES, PLACES, (0.1, 0.6), 1.0, NAMES, strong={CENTRE},
                 shade={node: 3 - hop for node, hop in hops().items()})  # fmt: skip
    canvas.text(1.05, 3.75, "the context of a,\nafter two layers")
    near = sorted(node for node, hop in hops().items() if hop <= 2)
    within = sorted(node for node, hop in hops().items() if hop <= 1)
    far = sorted(set(range(8)) - set(near))
    rest = sorted(set(range(8)) - set(within))
    schemes = (
        ("onehot", list(NAMES), "onehot\none row per node"),
        ("neighborhood", [*(NAMES[n] for n in near), "+".join(NAMES[n] for n in far)],
         "neighborhood\nequal rows stored once"),
        ("local", [*(NAMES[n] for n in within), "+".join(NAMES[n] for n in rest)],
         "local, radius 1\nfar nodes as one row"),
    )  # fmt: skip
    for place, (scheme, names, title) in enumerate(schemes):
        left = 3.9 + 2.9 * place
        if scheme == "neighborhood":  # the rows of onehot, unseen ones once
            index, states = contexts("onehot", 2)
            whole = of_node(index, states[-1], CENTRE)
            assert bool((whole[far] == whole[far[0]]).all())
            rows = whole[[*near, far[0]]]
        else:
            index, states = contexts(scheme, 2, radius=1)
            rows = of_node(index, states[-1], CENTRE)
        assert len(rows) == len(names)
        bottom = 0.55 + 0.34 * (8 - len(rows))
        canvas.matrix((left, bottom), shown(rows), names, strong={names.index(NAMES[CENTRE])})
        canvas.text(left + 0.7, 3.65, title)
        canvas.text(left + 0.7, 0.25, f"{len(rows)} rows", size=9)


def capture(canvas: Canvas) -> None:
    """Batches of different sizes in arrays of one size, and what a replay saves."""
    canvas.text(2.0, 3.75, "batches have different numbers of rows …")
    canvas.text(2.0, 3.45, "… padded, they have one size", size=8)
    for place, sizes in enumerate(((6, 4, 3), (3, 5, 2), (4, 4, 4))):
        left, bottom = 0.3 + 1.25 * place, 0.6
        for number, size in enumerate(sizes):
            canvas.box((left, bottom), 0.85, 0.16 * size, number, f"graph {number + 1}")
            bottom += 0.16 * size
        canvas.box((left, bottom), 0.85, 0.16 * (16 - sum(sizes)), None, "padding")
        canvas.text(left + 0.42, 0.3, f"batch {place + 1}", size=8)
    canvas.text(7.9, 3.75, "one training step, in time")
    for bottom, title, starts, launch in (
        (2.1, "eager: the CPU launches every kernel", [0.0 + 0.62 * k for k in range(9)], 0.5),
        (0.6, "captured: one launch replays them all", [0.55 + 0.16 * k for k in range(9)], 0.0),
    ):
        canvas.text(7.9, bottom + 1.13, title, size=9)
        canvas.text(4.72, bottom + 0.72, "CPU", size=8)
        canvas.text(4.72, bottom + 0.24, "GPU", size=8)
        for number, start in enumerate(starts):
            if launch or number == 0:
                canvas.box((5.05 + (start if launch else 0), bottom + 0.55), 0.5, 0.32, 0, "")
            canvas.box((5.05 + start + launch, bottom + 0.08), 0.14, 0.32, 1, "")
    canvas.text(7.9, 0.3, "a schematic picture; measured times are on the page Speed", size=8)


def overview(canvas: Canvas) -> None:
    """From a graph to a prediction, in one picture."""
    canvas.graph(EDGES, PLACES, (0.1, 0.75), 1.0, NAMES)
    canvas.text(1.05, 3.75, "graph", size=11)
    index, states = contexts("onehot", 3)
    for column, (rows, title) in enumerate(
        zip((states[0], states[3]), ("contexts: one per node", "after L layers"), strict=True)
    ):
        left = 3.3 + 4.3 * column
        canvas.text(left + 1.15, 3.75, title, size=11)
        for node in range(8):
            at = (left + 0.62 * (node % 4), 2.15 - 1.62 * (node // 4))
            canvas.matrix(at, shown(of_node(index, rows, node)), None, cell=0.115, high=0.155,
                          strong={node})  # fmt: skip
            canvas.text(at[0] + 0.23, at[1] + 1.36, NAMES[node], size=8)
    canvas.arrow((2.45, 2.0), (3.05, 2.0))
    canvas.arrow((5.95, 2.0), (7.3, 2.0))
    canvas.text(6.62, 2.35, "message", size=9)
    canvas.text(6.62, 1.72, "sum, update", size=9)
    canvas.arrow((10.25, 2.0), (10.85, 2.0))
    canvas.text(11.75, 3.75, "prediction", size=11)
    canvas.text(11.75, 2.0, "read the own rows\nand the sums,\npool over nodes", size=9)
    canvas.text(4.45, 0.2, "a row for every node:\nat first only its own has a mark", size=8)
    canvas.text(8.75, 0.2, "cycles, distances and\nconnectivity are now in the rows", size=8)


#: What draws each figure, its limits, and inches per unit: fewer make the text larger.
FIGURES: dict[str, tuple[Callable[[Canvas], None], tuple[float, float, float, float], float]] = {
    "overview": (overview, (-0.2, 12.8, -0.15, 4.0), 0.64),
    "context": (context, (-0.2, 10.1, 0.0, 3.8), 0.78),
    "layer": (layer, (0.0, 11.0, -0.25, 7.0), 0.78),
    "identifiers": (identifiers, (-0.2, 12.0, 0.0, 4.15), 0.78),
    "capture": (capture, (0.0, 11.2, 0.1, 4.0), 0.78),
}


def draw(name: str, palette: Palette, path: Path) -> None:
    paint, (left, right, bottom, top), unit = FIGURES[name]
    width = unit * (right - left)
    figure: Any = plt.figure(figsize=(width, width * (top - bottom) / (right - left)))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    axes.set_axis_off()
    paint(Canvas(axes, palette))
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "smpgnn"  # the same file each time
    for name in FIGURES:
        for palette in PALETTES:
            draw(name, palette, folder / f"{name}-{palette.name}.svg")


if __name__ == "__main__":
    main()
