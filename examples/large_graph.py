"""Train SMP on one graph of 10,000 nodes with mini-batches of target nodes.

    python examples/large_graph.py

The graph is a triangulated mesh without a fifth of its edges. The target is the number of triangles
through each node, which does not follow from the degrees. One-hot contexts would have 10,000 rows
for each of 10,000 nodes. A mini-batch contains only the rows on which its targets depend, and gives
the same result; the last line of output compares it with the whole graph.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from scipy.sparse import coo_matrix
from torch import Tensor
from torch.nn import functional as F
from torch_geometric.data import Data

from smpgnn import SMP
from smpgnn.contexts.target_nodes import TargetLoader


def mesh(side: int, generator: torch.Generator) -> Tensor:
    """A grid of side × side nodes with a random diagonal per cell, without one edge in five."""
    place = torch.arange(side * side).view(side, side)
    across = torch.stack([place[:, :-1], place[:, 1:]]).view(2, -1)
    along = torch.stack([place[:-1], place[1:]]).view(2, -1)
    down = torch.stack([place[:-1, :-1], place[1:, 1:]]).view(2, -1)
    up = torch.stack([place[:-1, 1:], place[1:, :-1]]).view(2, -1)
    diagonal = torch.where(torch.rand(down.size(1), generator=generator) < 0.5, down, up)
    edges = torch.cat([across, along, diagonal], dim=1)
    edges = edges[:, torch.rand(edges.size(1), generator=generator) >= 0.2]
    return torch.cat([edges, edges.flip(0)], dim=1)


def triangles(edge_index: Tensor, nodes: int) -> Tensor:
    """The number of triangles through each node, [n, 1]: ½ Σ_j (A² ⊙ A)_ij."""
    ones = np.ones(edge_index.size(1))
    adjacency = coo_matrix((ones, edge_index.numpy()), shape=(nodes, nodes)).tocsr()
    closed = (adjacency @ adjacency).multiply(adjacency).sum(axis=1)
    return torch.from_numpy(np.asarray(closed) / 2).float()


def predict(model: SMP, loader: TargetLoader) -> tuple[Tensor, Tensor]:
    """Predictions and true values for the targets of the loader, [T, 1] each."""
    model.eval()
    with torch.no_grad():
        found = [(model(b.x, b.edge_index, index=b.index), b.y) for b in loader]
    model.train()
    return torch.cat([out for out, _ in found]), torch.cat([y for _, y in found if y is not None])


def main() -> None:
    parser = argparse.ArgumentParser(description="Train SMP on a large graph by target nodes.")
    parser.add_argument("--side", type=int, default=100, help="the graph has side² nodes")
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    nodes, layers = options.side**2, 3
    edge_index = mesh(options.side, generator)
    data = Data(edge_index=edge_index, y=triangles(edge_index, nodes), num_nodes=nodes)
    order = torch.randperm(nodes, generator=generator)
    trained, held_out = order[: nodes * 4 // 5], order[nodes * 4 // 5 :]

    model = SMP(
        in_channels=0,
        out_channels=1,
        hidden_channels=32,
        num_layers=layers,
        layer="fast",
        identifiers="neighborhood",
        level="node",
        extractor_channels=32,
        norm="batch",
        residual=True,
    )
    loader = TargetLoader(data, layers, trained, batch_size=100, shuffle=True, generator=generator)
    test = TargetLoader(data, layers, held_out, batch_size=1000)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 5e-3, total_steps=max(1, options.epochs * len(loader)), pct_start=0.1
    )
    print(f"{nodes:,} nodes, {edge_index.size(1):,} directed edges, {len(trained):,} targets")
    start = time.perf_counter()
    for epoch in range(1, options.epochs + 1):
        total = 0.0
        for batch in loader:
            assert batch.y is not None
            loss = F.mse_loss(model(batch.x, batch.edge_index, index=batch.index), batch.y)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            schedule.step()
            total += float(loss.detach())
        out, truth = predict(model, test)
        exact = float((out.round() == truth).double().mean())
        print(
            f"epoch {epoch}: loss {total / len(loader):.3f}, held-out nodes: mean error "
            f"{float((out - truth).abs().mean()):.3f}, {100 * exact:.1f} % exact after rounding, "
            f"{time.perf_counter() - start:.0f} s",
            flush=True,
        )
    model.eval()
    with torch.no_grad():
        whole = model(None, data.edge_index, num_nodes=nodes)[held_out]
    gap = float((whole - predict(model, test)[0]).abs().max())
    print(f"largest difference between batches of targets and the whole graph: {gap:.1e}")


if __name__ == "__main__":
    main()
