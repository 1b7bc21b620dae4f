"""Draw the figures of four pages in docs/theory from results/theory.

python docs/theory/draw_results.py
"""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import networkx as nx
from PIL import Image

HERE = Path(__file__).resolve().parent
RESULTS = HERE.parents[1] / "results" / "theory"
BLUE, ORANGE, GREEN, GREY = "#2563a8", "#d9711c", "#3b8f4e", "#888888"


def read(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return content


def save(name: str) -> None:
    """Save the figure with a palette of 48 colours: a third of the file size."""
    whole = io.BytesIO()
    plt.savefig(whole, dpi=100, bbox_inches="tight", facecolor="white")
    plt.close()
    small = Image.open(whole).convert("RGB").quantize(48)
    small.save(HERE / "figures" / f"{name}.png", optimize=True)


def mpnn() -> None:
    """The regular pairs of Proposition 1."""
    triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    places = {k: (x, y) for k, (x, y) in enumerate(
        [(-1.1, -0.6), (-1.1, 0.6), (-0.2, 0), (1.1, -0.6), (1.1, 0.6), (0.2, 0)])}  # fmt: skip
    prism = nx.circular_ladder_graph(3)
    drawn = [
        (triangles, places),
        (nx.cycle_graph(6), nx.circular_layout(range(6))),
        (prism, nx.shell_layout(prism, [[0, 1, 2], [3, 4, 5]], rotate=0)),
        (nx.circulant_graph(6, [1, 3]), nx.circular_layout(range(6))),
    ]
    pairs = read("mpnn")["separations"]
    texts = [
        f"{pair[side]}\ntr(A³) = {pair[side + '_trace']}"
        for pair in pairs
        for side in ("first", "second")
    ]
    _, axes = plt.subplots(1, 4, figsize=(9, 2.6))
    for axis, (graph, layout), text in zip(axes, drawn, texts, strict=True):
        nx.draw(graph, layout, ax=axis, node_size=120, node_color=BLUE, edge_color=GREY, width=1.6)
        axis.set_title(text, fontsize=10)
        axis.margins(0.15)
    save("mpnn")


def ppgn() -> None:
    """Approximation error against the width of the perceptrons."""
    steps = read("ppgn")["approximations"]
    hidden = [step["hidden"] for step in steps]
    gaps = [step["gap"] for step in steps]
    _, axis = plt.subplots(figsize=(5, 3.2))
    axis.loglog(hidden, gaps, "o-", color=BLUE, label="measured")
    guide = [gaps[-1] * (hidden[-1] / h) ** 2 for h in hidden]
    axis.loglog(hidden, guide, "--", color=GREY, label="ReLUs⁻²")
    axis.set_xlabel("ReLUs per square")
    axis.set_ylabel("relative difference")
    axis.legend(frameon=False)
    save("ppgn")


def coloring() -> None:
    """Rows per context against depth, for the largest graphs."""
    rows = read("coloring")["rows"]
    largest = max(row["nodes"] for row in rows)
    names = list(dict.fromkeys(row["family"] for row in rows))
    _, axes = plt.subplots(2, 3, figsize=(9, 5), sharex=True, sharey=True)
    for axis, name in zip(axes.flat, names, strict=True):
        own = [row for row in rows if (row["family"], row["nodes"]) == (name, largest)]
        depth = [row["layers"] for row in own]
        axis.axhline(largest, color=GREY, linestyle="--", label="one-hot (n)")
        axis.semilogy(depth, [row["colors"] for row in own], "s-", color=ORANGE, label="colours")
        for key, style, text in (("max_rows", "^:", "largest"), ("mean_rows", "o-", "mean")):
            axis.semilogy(
                depth,
                [row[key] for row in own],
                style,
                color=BLUE,
                label=f"neighbourhood, {text}",
                markersize=4,
            )
        half = own[0]["diameter"] / 2
        if half < max(depth):
            axis.axvline(half, color=GREEN, linewidth=1, label="L = diameter / 2")
        axis.set_title(f"{name} (diameter {own[0]['diameter']})", fontsize=10)
    for axis in axes[1]:
        axis.set_xlabel("layers L")
    for axis in axes[:, 0]:
        axis.set_ylabel("rows of a context")
    handles, labels = axes[1, 2].get_legend_handles_labels()
    plt.tight_layout()
    plt.figlegend(handles, labels, loc="upper center", ncols=5, frameon=False, fontsize=9,
                  bbox_to_anchor=(0.5, 1.05))  # fmt: skip
    save("coloring")


def expressivity() -> None:
    """The pairs that each network distinguishes, by graph family."""
    record = read("expressivity")
    sizes = {size["family"]: size["pairs"] for size in record["families"]}
    kinds = dict.fromkeys(reference["refinement"] for reference in record["references"])
    names, counts = [], []
    for kind in kinds:
        names.append(f"{kind} refinement")
        found = [r for r in record["references"] if r["refinement"] == kind]
        counts.append([r["told_apart"] for r in found])
    for model in record["settings"]["models"]:
        names.append(model)
        counts.append([c["told_apart"] for c in record["counts"] if c["model"] == model])
    shares = [
        [float("nan") if told is None else told / pairs
         for told, pairs in zip(line, sizes.values(), strict=True)]
        for line in counts
    ]  # fmt: skip
    _, axis = plt.subplots(figsize=(6.2, 6.8))
    colors = plt.get_cmap("Blues").copy()
    colors.set_bad("#e8e8e8")
    axis.imshow(shares, cmap=colors, vmin=0, vmax=1.25, aspect="auto")
    for y, line in enumerate(counts):
        for x, told in enumerate(line):
            text = "not invariant" if told is None else str(told)
            dark = told is not None and shares[y][x] > 0.7
            axis.text(
                x, y, text, ha="center", va="center", color="white" if dark else "black",
                fontsize=6 if told is None else 9,
            )  # fmt: skip
    axis.axhline(len(kinds) - 0.5, color="black", linewidth=1)
    axis.set_xticks(range(len(sizes)), [f"{name}\n({pairs})" for name, pairs in sizes.items()])
    axis.set_yticks(range(len(names)), names)
    axis.tick_params(length=0, labelsize=8)
    axis.set_title("pairs distinguished", fontsize=10)
    save("expressivity")


def main() -> None:
    (HERE / "figures").mkdir(exist_ok=True)
    for draw in (mpnn, ppgn, coloring, expressivity):
        draw()


if __name__ == "__main__":
    main()
