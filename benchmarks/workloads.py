"""Synthetic batches with the sizes of the paper's three experiments, and their networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from smpgnn.contexts.topology import pointer
from smpgnn.data.store import GraphStore
from smpgnn.models import SMP, MultiTaskSMP


@dataclass(frozen=True)
class Workload:
    """A batch, and the network that the paper trains on such batches."""

    name: str
    make: Callable[[], SMP | MultiTaskSMP]
    x: Tensor | None
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    num_graphs: int

    def to(self, device: str) -> Workload:
        def move(value: Tensor | None) -> Tensor | None:
            return None if value is None else value.to(device)

        return Workload(
            self.name,
            self.make,
            move(self.x),
            self.edge_index.to(device),
            move(self.edge_attr),
            self.batch.to(device),
            self.num_graphs,
        )

    def store(self) -> GraphStore:
        """The graphs as a data set, on the CPU."""
        size = torch.bincount(self.batch.cpu(), minlength=self.num_graphs)
        owner = self.batch[self.edge_index[0]].cpu()
        order = torch.argsort(owner, stable=True)
        start = pointer(size)
        edges = self.edge_index.cpu()[:, order] - start[owner[order]]
        count = torch.bincount(owner, minlength=self.num_graphs)
        features = None if self.edge_attr is None else self.edge_attr.cpu()[order]
        x = None if self.x is None else self.x.cpu()
        return GraphStore(start, pointer(count), edges, x, features)


def sparse_graphs(
    sizes: Tensor, average_degree: float, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """Random graphs of these sizes, similar to molecules: edge_index [2, E] and batch [N]."""
    edges, start = [], 0
    for n in sizes.tolist():
        wanted = round(average_degree * n / 2)
        found: set[tuple[int, int]] = set()
        for i in range(1, min(n, wanted + 1)):  # a tree with short branches first
            back = int(torch.randint(1, 4, (1,), generator=generator))
            found.add((max(0, i - back), i))
        while len(found) < min(wanted, n * (n - 1) // 2):
            i, j = sorted(torch.randint(0, n, (2,), generator=generator).tolist())
            if i != j:
                found.add((i, j))
        pairs = torch.tensor(sorted(found)).t() + start
        edges.append(torch.cat([pairs, pairs.flip(0)], dim=1))
        start += n
    batch = torch.arange(len(sizes)).repeat_interleave(sizes)
    return torch.cat(edges, dim=1), batch


def cycles(graphs: int = 16, seed: int = 0) -> Workload:
    """8-cycles, nominally 72 nodes: Fast SMP, 8 layers of width 32."""
    generator = torch.Generator().manual_seed(seed)
    sizes = (62 + 8 * torch.randn(graphs, generator=generator)).round().long().clamp(38, 90)
    edge_index, batch = sparse_graphs(sizes, 1.8, generator)

    def make() -> SMP:
        return SMP(0, 2, 32, 8, "fast", norm="batch", extractor_channels=128)

    return Workload("cycles-72", make, None, edge_index, None, batch, graphs)


def zinc(graphs: int = 128, width: int = 32, seed: int = 0) -> Workload:
    """ZINC: default SMP with edge features, 12 layers, 8 towers."""
    generator = torch.Generator().manual_seed(seed)
    sizes = (23.15 + 4.5 * torch.randn(graphs, generator=generator)).round().long().clamp(9, 37)
    edge_index, batch = sparse_graphs(sizes, 2.15, generator)
    atoms = torch.randint(0, 28, (batch.numel(),), generator=generator)
    bonds = torch.randint(0, 3, (edge_index.size(1),), generator=generator)

    def make() -> SMP:
        return SMP(
            28,
            1,
            width,
            12,
            "default",
            edge_channels=3,
            norm="batch",
            extractor_channels=128,
            shared_extractor=True,
            towers=8,
            message_residual=True,
            update_residual=True,
        )

    one_hot = torch.nn.functional.one_hot
    x, edge_attr = one_hot(atoms, 28).float(), one_hot(bonds, 3).float()
    return Workload("zinc", make, x, edge_index, edge_attr, batch, graphs)


def properties(layer: str = "default", graphs: int = 16, seed: int = 0) -> Workload:
    """Graph properties: 8 layers of width 64, 8 towers, GRU and Set2Set."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(15, 25, (graphs,), generator=generator)
    edge_index, batch = sparse_graphs(sizes, 5.0, generator)
    x = torch.rand(batch.numel(), 2, generator=generator)

    def make() -> MultiTaskSMP:
        return MultiTaskSMP(2, 3, 3, 64, 8, layer, norm="batch", towers=8)

    return Workload(f"properties ({layer})", make, x, edge_index, None, batch, graphs)
