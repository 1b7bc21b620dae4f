"""The multi-task graph-properties benchmark of PNA (Corso et al., 2020), generated on demand.

Node targets: distance from the marked source (0 if unreachable), eccentricity within the component,
the Laplacian applied to the node values. Graph targets: connected, diameter (the largest of any
component), spectral radius of the adjacency matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.data.base import Splits
from smpgnn.data.properties_random import RandomGraphs, draw_graphs
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError

Connected = Literal["published", "correct"]

CONNECTED: tuple[Connected, ...] = ("published", "correct")
NODE_TARGETS = ("distance", "eccentricity", "laplacian")
GRAPH_TARGETS = ("connected", "diameter", "spectral radius")
PUBLISHED_SEED = 1234

_TRAIN = (range(15, 25), 512)
_VAL = (range(15, 20), 128)
_TEST = (range(15, 20), 256)
_LARGER = tuple(range(low, low + 5) for low in range(20, 50, 5))
_LARGER_COUNT = 256


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """The benchmark and larger test graphs, with the keys "20-24", ..., "45-49"."""

    splits: Splits
    larger: dict[str, GraphStore]


def property_graphs(
    sizes: Sequence[int],
    graphs_per_size: int,
    *,
    seed: int = PUBLISHED_SEED,
    connected: Connected = "published",
) -> GraphStore:
    """Graphs of each given size, with unscaled targets.

    Shapes: x [N, 2] source marker and value, y_node [N, 3], y [G, 3], all float32.

    Args:
        connected: "published" is true for graphs that are connected and not bipartite, as in the
            published data, which use an even power of the adjacency matrix; "correct" is true for
            all connected graphs.
    """
    return _generate(sizes, graphs_per_size, seed, connected)[0].store()


def property_splits(*, seed: int = PUBLISHED_SEED, connected: Connected = "published") -> Splits:
    """5120 / 640 / 1280 graphs, targets divided by their maxima over the training graphs.

    The default seed gives the published graphs.
    """
    return _Benchmark.drawn(seed, connected).splits()


def extrapolation_splits(
    *,
    seed: int = PUBLISHED_SEED,
    connected: Connected = "published",
    graphs_per_size: int = _LARGER_COUNT,
) -> Extrapolation:
    """The benchmark with six more test sets, 256 graphs of each size from 20 to 49.

    Their targets, too, are divided by the maxima over the training graphs.
    """
    benchmark = _Benchmark.drawn(seed, connected)
    seed, larger = benchmark.seed, {}
    for sizes in _LARGER:
        graphs, seed = _generate(sizes, graphs_per_size, seed, connected)
        larger[f"{sizes[0]}-{sizes[-1]}"] = benchmark.divided(graphs)
    return Extrapolation(benchmark.splits(), larger)


def log_mse_by_size(prediction: Tensor, target: Tensor, size: Tensor) -> Tensor:
    """The metric of the benchmark, [T]: log10 of the squared error, averaged over graph sizes.

    Shapes: prediction, target [R, T]; size [R], the number of nodes of each row's graph (a row
    is a graph or a node, depending on the targets).
    """
    if prediction.shape != target.shape or size.shape != target.shape[:1]:
        raise InputError(
            f"log_mse_by_size: prediction {list(prediction.shape)}, target {list(target.shape)} "
            f"and size {list(size.shape)} must be [R, T], [R, T] and [R]."
        )
    count = torch.bincount(size)
    error = (prediction.double() - target.double()).square()
    total = error.new_zeros(count.numel(), error.size(1)).index_add_(0, size, error)
    present = count > 0
    return (total[present] / count[present, None]).mean(0).log10()


# --- generation ---


@dataclass(frozen=True, eq=False)
class _Solved:
    """Graphs with inputs and unscaled targets; sizes [G], ends of the edges [E, 2]."""

    num_nodes: Tensor
    num_edges: Tensor
    ends: Tensor
    x: Tensor
    y_node: Tensor
    y: Tensor

    @classmethod
    def joined(cls, parts: Sequence[_Solved]) -> _Solved:
        return cls(*(torch.cat([getattr(part, f.name) for part in parts]) for f in fields(cls)))

    def store(
        self, node_scale: Tensor | float = 1.0, graph_scale: Tensor | float = 1.0
    ) -> GraphStore:
        """The graphs with their targets divided by the scales, [3] each."""
        return GraphStore(
            node_ptr=_pointer(self.num_nodes),
            edge_ptr=_pointer(self.num_edges),
            edge_index=self.ends.T.contiguous(),
            x=self.x,
            y_node=self.y_node / node_scale,
            y=self.y / graph_scale,
        )


@dataclass(frozen=True, eq=False)
class _Benchmark:
    """The three splits with unscaled targets, and the last seed used for them."""

    train: _Solved
    val: _Solved
    test: _Solved
    seed: int

    @classmethod
    def drawn(cls, seed: int, connected: Connected) -> _Benchmark:
        train, seed = _generate(*_TRAIN, seed, connected)
        val, seed = _generate(*_VAL, seed, connected)
        test, seed = _generate(*_TEST, seed, connected)
        return cls(train, val, test, seed)

    def divided(self, graphs: _Solved) -> GraphStore:
        """These graphs with their targets divided by the maxima over the training graphs."""
        return graphs.store(self.train.y_node.amax(0), self.train.y.amax(0))

    def splits(self) -> Splits:
        return Splits(self.divided(self.train), self.divided(self.val), self.divided(self.test))


def _generate(
    sizes: Sequence[int], count: int, seed: int, connected: Connected
) -> tuple[_Solved, int]:
    """Graphs of each of these sizes, and the last seed used."""
    if connected not in CONNECTED:
        raise InputError(f"connected is {connected!r}, but it must be one of {CONNECTED}.")
    if len(sizes) == 0 or min(sizes) < 2:
        raise InputError(f"sizes is {list(sizes)}, but every size must be at least 2.")
    if count < 1:
        raise InputError(f"graphs_per_size is {count}, but it must be at least 1.")
    if not 0 <= seed < 2**31:
        raise InputError(f"seed is {seed}, but it must be from 0 to {2**31 - 1}.")
    parts = []
    for n in sizes:
        graphs, seed = draw_graphs(n, count, seed)
        parts.append(_solve(graphs, connected))
    return _Solved.joined(parts), seed


def _solve(graphs: RandomGraphs, connected: Connected) -> _Solved:
    """Inputs and targets of graphs of one size."""
    count, n = graphs.value.shape
    adjacency = graphs.adjacency.astype(np.float64)
    distance = _shortest_paths(graphs.adjacency)
    label = (distance >= 0).all(axis=(1, 2))
    if connected == "published":
        label &= ~_bipartite(graphs.adjacency, distance)
    distance = np.maximum(distance, 0)
    eccentricity = distance.max(axis=2)
    neighbour_sum = (adjacency @ graphs.value[:, :, None])[:, :, 0]
    laplacian = adjacency.sum(axis=2) * graphs.value - neighbour_sum
    radius = np.abs(np.linalg.eigvalsh(adjacency)).max(axis=1)
    each = np.arange(count)
    marker = np.zeros((count, n))
    marker[each, graphs.source] = 1
    y_node = np.stack([distance[each, graphs.source], eccentricity, laplacian], axis=2)
    y = np.stack([label, eccentricity.max(axis=1), radius], axis=1)
    return _Solved(
        num_nodes=torch.full((count,), n),
        num_edges=torch.from_numpy(graphs.adjacency.sum(axis=(1, 2), dtype=np.int64)),
        ends=torch.from_numpy(np.argwhere(graphs.adjacency)[:, 1:].astype(np.int64)),
        x=_float(np.stack([marker, graphs.value], axis=2)).view(-1, 2),
        y_node=_float(y_node).view(-1, 3),
        y=_float(y),
    )


def _shortest_paths(adjacency: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Distances between all nodes, [G, n, n]; -1 if there is no path."""
    step = adjacency.astype(np.float32)
    n = adjacency.shape[1]
    frontier = np.broadcast_to(np.eye(n, dtype=np.bool_), adjacency.shape)
    distance = np.where(frontier, 0, -1)
    for length in range(1, n):
        frontier = (frontier.astype(np.float32) @ step > 0) & (distance < 0)
        distance[frontier] = length
    return distance


def _bipartite(adjacency: NDArray[np.uint8], distance: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether connected graphs are bipartite, [G]: no edge joins nodes equally far from node 0."""
    level = distance[:, 0]
    within = (level[:, :, None] == level[:, None, :]) & (adjacency > 0)
    return np.asarray(~within.any(axis=(1, 2)))


def _pointer(sizes: Tensor) -> Tensor:
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def _float(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(array.astype(np.float32))
