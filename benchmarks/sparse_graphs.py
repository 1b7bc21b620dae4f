"""Large sparse graphs, drawn without a loop over nodes, and an exact count on them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def grid(nodes: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """A rectangle of about so many nodes, each joined to those left, right, above and below."""
    place = _rectangle(nodes)
    return _both_ways(_lines(place)), place.numel()


def mesh(nodes: int, generator: torch.Generator, missing: float = 0.0) -> tuple[Tensor, int]:
    """A grid with a random diagonal in each cell; a share of the edges may be missing."""
    place = _rectangle(nodes)
    down = torch.stack([place[:-1, :-1], place[1:, 1:]]).view(2, -1)
    up = torch.stack([place[:-1, 1:], place[1:, :-1]]).view(2, -1)
    choice = torch.rand(down.size(1), generator=generator) < 0.5
    edges = torch.cat([_lines(place), torch.where(choice, down, up)], dim=1)
    kept = torch.rand(edges.size(1), generator=generator) >= missing
    return _both_ways(edges[:, kept]), place.numel()


def cubic(nodes: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """A random graph of degree 3: ends of edges are paired at random, and bad pairs drawn anew."""
    nodes += nodes % 2
    ends = torch.arange(nodes).repeat(3)
    pairs = ends[torch.randperm(3 * nodes, generator=generator)].view(2, -1)
    while True:
        low, high = pairs.amin(0), pairs.amax(0)
        key, order = (low * nodes + high).sort()
        repeated = torch.zeros_like(key, dtype=torch.bool)
        repeated[order[1:]] = key[1:] == key[:-1]
        bad = torch.nonzero(repeated | (low == high)).flatten()
        if bad.numel() == 0:
            return _both_ways(pairs), nodes
        other = torch.randint(pairs.size(1), (bad.numel(),), generator=generator)
        mixed = torch.unique(torch.cat([bad, other]))
        drawn = torch.randperm(mixed.numel(), generator=generator)
        pairs[1, mixed] = pairs[1, mixed[drawn]]


GRAPHS: dict[str, Callable[[int, torch.Generator], tuple[Tensor, int]]] = {
    "grid": grid,
    "cubic": cubic,
    "mesh": mesh,
}


def triangles(edge_index: Tensor, nodes: int) -> Tensor:
    """The number of triangles through each node of an undirected graph, [N]: ½ Σ_j (A² ⊙ A)_ij."""
    import numpy as np
    from scipy.sparse import coo_matrix

    ones = np.ones(edge_index.size(1))
    adjacency = coo_matrix((ones, edge_index.cpu().numpy()), shape=(nodes, nodes)).tocsr()
    closed = (adjacency @ adjacency).multiply(adjacency).sum(axis=1)
    return torch.from_numpy(np.asarray(closed).ravel() / 2)


def _rectangle(nodes: int) -> Tensor:
    rows = max(2, int(nodes**0.5))
    columns = max(2, nodes // rows)
    return torch.arange(rows * columns).view(rows, columns)


def _lines(place: Tensor) -> Tensor:
    across = torch.stack([place[:, :-1], place[:, 1:]]).view(2, -1)
    along = torch.stack([place[:-1], place[1:]]).view(2, -1)
    return torch.cat([across, along], dim=1)


def _both_ways(edges: Tensor) -> Tensor:
    return torch.cat([edges, edges.flip(0)], dim=1)
