"""Draw local contexts, layer by layer, on two graphs that message passing cannot distinguish.

    python examples/contexts.py --output demo

In a ring of six nodes and in two triangles all nodes have the same degree, so ordinary message
passing cannot distinguish them. Here every node sums the contexts of its neighbours, U_i ← Σ_j U_j,
from one-hot contexts on. The contexts after each layer are the powers of the adjacency matrix.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from smpgnn import ContextIndex, SMPLayer, Topology


def ring(*nodes: int) -> list[tuple[int, int]]:
    return [(a, b) for a, b in zip(nodes, nodes[1:] + nodes[:1], strict=True)]


def both_ways(edges: list[tuple[int, int]]) -> Tensor:
    pairs = torch.tensor(edges).t()
    return torch.cat([pairs, pairs.flip(0)], dim=1)


def contexts(edge_index: Tensor, num_layers: int) -> list[Tensor]:
    """U⁽⁰⁾, …, U⁽ᴸ⁾ as matrices: row i is the context of node i, [n, n] each."""
    topology = Topology.checked(edge_index)
    index = ContextIndex.build(topology, "onehot", num_layers)
    context, layer = index.initial(None, torch.float64), SMPLayer(aggregation="sum")
    found = [context]
    for _ in range(num_layers):
        context = layer(context, index)
        found.append(context)
    return [context.rows.view(topology.num_nodes, topology.num_nodes) for context in found]


def draw(graphs: dict[str, list[Tensor]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    layers = len(next(iter(graphs.values())))
    figure, axes = pyplot.subplots(
        len(graphs), layers, figsize=(2.6 * layers, 2.9 * len(graphs)), layout="constrained"
    )
    for line, (name, matrices) in zip(axes, graphs.items(), strict=True):
        for number, (axis, matrix) in enumerate(zip(line, matrices, strict=True)):
            axis.imshow(matrix, cmap="Blues", vmin=0, vmax=float(matrix.max()) * 1.4)
            for i, row in enumerate(matrix.tolist()):
                for j, value in enumerate(row):
                    if value:
                        axis.text(j, i, f"{value:.0f}", ha="center", va="center", fontsize=8)
            axis.set_title(f"layer {number}, trace {float(matrix.trace()):.0f}", fontsize=10)
            axis.set_xticks(range(len(matrix)), list("abcdef"), fontsize=8)
            axis.set_yticks(range(len(matrix)), list("abcdef"), fontsize=8)
            axis.set_xlabel("knows of", fontsize=8)
        line[0].set_ylabel(f"{name}\ncontext of node", fontsize=9)
    figure.savefig(path, dpi=140)


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw local contexts, layer by layer.")
    parser.add_argument("--output", type=Path, default=Path("demo"), help="folder for the figure")
    parser.add_argument("--layers", type=int, default=3)
    options = parser.parse_args()
    graphs = {
        "ring of six": contexts(both_ways(ring(0, 1, 2, 3, 4, 5)), options.layers),
        "two triangles": contexts(both_ways(ring(0, 1, 2) + ring(3, 4, 5)), options.layers),
    }
    for name, matrices in graphs.items():
        traces = ", ".join(f"{float(matrix.trace()):.0f}" for matrix in matrices)
        print(f"{name:<14} trace of the contexts after each layer: {traces}")
    if options.layers >= 3:
        print("The trace after 3 layers is 6 × the number of triangles, which differs.")
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "contexts.png"
    draw(graphs, path)
    print(f"Figure: {path}")


if __name__ == "__main__":
    main()
