"""Large sparse graphs, generated without a loop over nodes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def grid(nodes: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """A rectangular grid of about `nodes` nodes."""
    place = _rectangle(nodes)
    return _both_ways(_lines(place)), place.numel()


def mesh(nodes: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """A grid with a random diagonal in each cell."""
    place = _rectangle(nodes)
    down = torch.stack([place[:-1, :-1], place[1:, 1:]]).view(2, -1)
    up = torch.stack([place[:-1, 1:], place[1:, :-1]]).view(2, -1)
    choice = torch.rand(down.size(1), generator=generator) < 0.5
    edges = torch.cat([_lines(place), torch.where(choice, down, up)], dim=1)
    return _both_ways(edges), place.numel()


def cubic(nodes: int, generator: torch.Generator) -> tuple[Tensor, int]:
    """A random graph of degree 3: pairs edge ends at random and redraws invalid pairs."""
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
