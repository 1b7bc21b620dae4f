"""Hypothesis strategies and helpers for graphs, batches and modules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import torch
from hypothesis import strategies as st
from oracle import DenseGraph
from torch import Tensor, nn

from smpgnn import ContextIndex, LocalContext, Topology
from smpgnn.contexts.rows import BallRows, IdentifierRows

#: Schemes that compute what the paper says, and all of them.
EXACT = ["onehot", "coloring", "neighborhood"]
SCHEMES = [*EXACT, "local"]
DTYPE = torch.float64

#: A graph without features: the number of nodes and the edges (sender, receiver).
Structure = tuple[int, tuple[tuple[int, int], ...]]


def undirected(n: int, pairs: Sequence[tuple[int, int]]) -> Structure:
    """Every pair as an edge in both directions."""
    return n, tuple(edge for a, b in pairs for edge in ((a, b), (b, a)))


def path(n: int) -> Structure:
    return undirected(n, [(k, k + 1) for k in range(n - 1)])


def cycle(n: int) -> Structure:
    return undirected(n, [(k, (k + 1) % n) for k in range(n)])


#: Graphs at the edge of what is allowed, by name.
ODD: dict[str, Structure] = {
    "empty": (0, ()),
    "single": (1, ()),
    "single with loop": (1, ((0, 0),)),
    "edgeless": (3, ()),
    "pair": path(2),
    "one-way pair": (2, ((0, 1),)),
    "double edge": (2, ((0, 1), (0, 1), (1, 0))),
    "isolated last": (3, ((0, 1), (1, 0))),
    "two parts": undirected(5, [(0, 1), (2, 3), (3, 4)]),
    "directed cycle": (4, ((0, 1), (1, 2), (2, 3), (3, 0))),
    "loops": (3, ((0, 0), (1, 1), (0, 1), (2, 1), (2, 2), (2, 2))),
    "long path": path(9),
}


@st.composite
def structures(draw: st.DrawFn, min_nodes: int = 0, max_nodes: int = 6) -> Structure:
    """Directed or not, with self loops, repeated edges, isolated nodes, several parts."""
    n = draw(st.integers(min_nodes, max_nodes))
    if n == 0:
        return 0, ()
    node = st.integers(0, n - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=2 * n))
    if draw(st.booleans()):
        edges = edges + [(i, j) for j, i in edges]
    return n, tuple(edges)


@st.composite
def long_structures(draw: st.DrawFn, max_nodes: int = 12) -> Structure:
    """Sparse graphs, mostly trees and their parts, in which most nodes are far apart."""
    n = draw(st.integers(1, max_nodes))
    pairs = []
    for k in range(1, n):
        if draw(st.integers(0, 7)):
            pairs.append((draw(st.integers(max(0, k - 2), k - 1)), k))
    rename = draw(st.permutations(range(n)))
    pairs = [(rename[a], rename[b]) for a, b in pairs]
    if draw(st.integers(0, 3)) == 0:
        return n, tuple(pairs)
    return undirected(n, pairs)


def batches(max_nodes: int = 5, max_graphs: int = 3) -> st.SearchStrategy[list[Structure]]:
    """Lists of graphs; some may be empty."""
    return st.lists(structures(max_nodes=max_nodes), min_size=1, max_size=max_graphs)


def seeds() -> st.SearchStrategy[int]:
    return st.integers(0, 2**16)


@dataclass(frozen=True)
class Case:
    """A batch twice over: as a network takes it, and graph by graph for the oracle.

    `x` and `edge_attr` are leaves that want gradients; those of the graphs are slices of them.
    """

    x: Tensor | None
    edge_index: Tensor
    edge_attr: Tensor | None
    batch: Tensor
    graphs: tuple[DenseGraph, ...]

    @property
    def num_graphs(self) -> int:
        return len(self.graphs)

    @property
    def num_nodes(self) -> int:
        return self.batch.numel()

    @property
    def topology(self) -> Topology:
        return Topology.checked(
            self.edge_index, self.batch, num_nodes=self.num_nodes, num_graphs=self.num_graphs
        )

    def index(self, identifiers: str, num_layers: int = 1) -> ContextIndex:
        """Rows for so many layers; local contexts of as many hops."""
        return ContextIndex.build(self.topology, identifiers, num_layers, num_layers)

    def call(self, module: nn.Module, **options: object) -> object:
        """The network's result on this batch."""
        return module(
            self.x,
            self.edge_index,
            self.edge_attr,
            self.batch,
            batch_size=self.num_graphs,
            **options,
        )

    def leaves(self) -> list[Tensor]:
        return [value for value in (self.x, self.edge_attr) if value is not None]

    def with_identifiers(self, identifier: Tensor) -> Case:
        """The same graphs for the oracle with these identifiers (of all nodes, [N])."""
        found = identifier.split([graph.num_nodes for graph in self.graphs])
        graphs = [
            replace(g, identifier=tuple(f.tolist()))
            for g, f in zip(self.graphs, found, strict=True)
        ]
        return replace(self, graphs=tuple(graphs))

    def of_nodes(self) -> Case:
        """The same graphs for the oracle with one row a node (the MPNN ablation)."""
        return self.with_identifiers(torch.zeros(self.num_nodes, dtype=torch.long))


def make_case(
    structures: Sequence[Structure],
    node_channels: int = 2,
    edge_channels: int = 0,
    seed: int = 0,
    dtype: torch.dtype = DTYPE,
) -> Case:
    """These graphs with random features (0 channels: none) and one-hot identifiers."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [n for n, _ in structures]
    counts = [len(edges) for _, edges in structures]

    def features(rows: int, channels: int) -> Tensor | None:
        if channels == 0:
            return None
        value = torch.randn(rows, channels, generator=generator, dtype=torch.float64)
        return value.to(dtype).requires_grad_()

    x = features(sum(sizes), node_channels)
    y = features(sum(counts), edge_channels)
    xs = [None] * len(sizes) if x is None else list(x.split(sizes))
    ys = [None] * len(sizes) if y is None else list(y.split(counts))
    columns = [
        (j + sum(sizes[:k]), i + sum(sizes[:k]))
        for k, (_, edges) in enumerate(structures)
        for j, i in edges
    ]
    graphs = tuple(
        DenseGraph(n, edges, xs[k], ys[k], tuple(range(n)))
        for k, (n, edges) in enumerate(structures)
    )
    return Case(
        x=x,
        edge_index=torch.tensor(columns, dtype=torch.long).reshape(-1, 2).t(),
        edge_attr=y,
        batch=torch.tensor([k for k, n in enumerate(sizes) for _ in range(n)], dtype=torch.long),
        graphs=graphs,
    )


Module = TypeVar("Module", bound=nn.Module)


def randomize(module: Module, seed: int = 0, dtype: torch.dtype = DTYPE) -> Module:
    """All parameters random (norms and biases too), so that no term vanishes by accident.

    The weights are large enough that what the first layer says is still heard after the last.
    Batch norms get a large eps: where all rows of a batch are equal, 1/√eps would amplify rounding.
    """
    module = module.to(dtype)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in module.named_parameters():
            noise = torch.randn(value.shape, generator=generator, dtype=torch.float64)
            product = name.endswith(("w4.weight", "w5.weight"))  # grows with the square
            gain = 0.4 if value.dim() == 1 or product else 1.4
            inputs = min(value.shape[-2:]) if value.dim() > 1 else 1
            value.copy_(gain * noise / inputs**0.5)
        for part in module.modules():
            if isinstance(part, nn.BatchNorm1d):
                part.eps = 0.05
        for name, value in module.named_buffers():
            if name.endswith("running_mean"):
                value.copy_(0.3 * torch.randn(value.shape, generator=generator, dtype=DTYPE))
            if name.endswith("running_var"):
                value.copy_(0.5 + torch.rand(value.shape, generator=generator, dtype=DTYPE))
    return module


def to_rows(contexts: Sequence[Tensor]) -> Tensor:
    """Dense contexts [n, R, C] of all graphs as the rows of `IdentifierRows`."""
    return torch.cat([u.reshape(-1, u.size(-1)) for u in contexts])


def to_dense(context: LocalContext, index: ContextIndex) -> list[Tensor]:
    """The contexts of each graph as [n, R, C]; rows of a neighbourhood scheme written out."""
    table, result = index.table, []
    starts, ptr = index.topology.graph_ptr.tolist(), table.ptr.tolist()
    for first, last in pairwise(starts):
        us = []
        for i in range(first, last):
            rows = context.rows[ptr[i] : ptr[i + 1]]
            if isinstance(table, BallRows):
                seen = table.described[ptr[i] : ptr[i + 1]].tolist()
                rows = torch.stack(
                    [rows[seen.index(j) if j in seen else -1] for j in range(first, last)]
                )
            else:
                assert isinstance(table, IdentifierRows)
            us.append(rows)
        result.append(torch.stack(us) if us else context.rows.new_zeros(0, 0, context.num_channels))
    return result


def gradients(outputs: Sequence[Tensor], leaves: Sequence[Tensor], seed: int = 0) -> list[Tensor]:
    """Gradients of a random linear function of the outputs; zeros where nothing arrives."""
    generator = torch.Generator().manual_seed(seed)
    total = sum(
        (out * torch.randn(out.shape, generator=generator, dtype=DTYPE).to(out)).sum()
        for out in outputs
    )
    if not outputs or not total.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad(total, list(leaves), allow_unused=True, retain_graph=True)
    return [
        torch.zeros_like(leaf) if grad is None else grad
        for leaf, grad in zip(leaves, found, strict=True)
    ]


def assert_same(
    actual: Tensor | Sequence[Tensor],
    expected: Tensor | Sequence[Tensor],
    module: nn.Module | None = None,
    inputs: Sequence[Tensor] = (),
    tolerance: float = 1e-10,
) -> None:
    """Equal values and equal gradients of all parameters of the module and of the inputs.

    The tolerance is relative to the largest entry of a tensor, or absolute if that is below 1.
    """
    actual = [actual] if isinstance(actual, Tensor) else list(actual)
    expected = [expected] if isinstance(expected, Tensor) else list(expected)
    for number, (one, other) in enumerate(zip(actual, expected, strict=True)):
        _assert_near(f"output {number}", one, other, tolerance)
    named = [] if module is None else list(module.named_parameters())
    names = [name for name, _ in named] + [f"input {k}" for k in range(len(inputs))]
    leaves = [value for _, value in named] + list(inputs)
    if not leaves:
        return
    for name, one, other in zip(
        names, gradients(actual, leaves), gradients(expected, leaves), strict=True
    ):
        _assert_near(f"gradient of {name}", one, other, tolerance)


def _assert_near(name: str, one: Tensor, other: Tensor, tolerance: float) -> None:
    assert one.shape == other.shape, f"{name}: {list(one.shape)} is not {list(other.shape)}"
    if one.numel() == 0:
        return
    assert one.isfinite().all(), f"{name} is not finite"
    gap, scale = (one - other).abs().max().item(), max(1.0, other.abs().max().item())
    assert gap <= tolerance * scale, f"{name} differs by {gap:.3g}, entries up to {scale:.3g}"
