"""The multi-task graph-properties benchmark of PNA (Corso et al., 2020), generated on demand.

Node targets: distance from the marked source (0 if unreachable), eccentricity within the component,
the Laplacian applied to the node values. Graph targets: connected, diameter (the largest of any
component), spectral radius of the adjacency matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
PUBLISHED_SEED = 1234

_TRAIN = (range(15, 25), 512)
_VAL = (range(15, 20), 128)
_TEST = (range(15, 20), 256)
_LARGER = tuple(range(low, low + 5) for low in range(20, 50, 5))
_LARGER_COUNT = 256
#: Far from the seeds of the benchmark, which grow by a few for each graph.
_OTHER_SEED = 1_000_000_000


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """The benchmark and larger graphs, to test on and to choose by: "20-24", ..., "45-49"."""

    splits: Splits
    larger: dict[str, GraphStore]
    larger_val: dict[str, GraphStore]


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
    return _generate(sizes, graphs_per_size, seed, connected)[0]


def property_splits(*, seed: int = PUBLISHED_SEED, connected: Connected = "published") -> Splits:
    """5120 / 640 / 1280 graphs, targets divided by their maxima over the training graphs.

    The default seed gives the published graphs.
    """
    train, val, test = _generate_all((_TRAIN, _VAL, _TEST), seed, connected)
    return Splits(*(_divided(store, train) for store in (train, val, test)))


def extrapolation_splits(
    *,
    seed: int = PUBLISHED_SEED,
    connected: Connected = "published",
    graphs_per_size: int = _LARGER_COUNT,
) -> Extrapolation:
    """The benchmark with six more test sets, 256 graphs of each size from 20 to 49.

    Their targets, too, are divided by the maxima over the training graphs. As many validation sets
    have a quarter of the graphs, of other seeds.
    """
    larger = [(sizes, graphs_per_size) for sizes in _LARGER]
    raw, *others = _generate_all((_TRAIN, _VAL, _TEST, *larger), seed, connected)
    train, val, test, *stores = (_divided(store, raw) for store in (raw, *others))
    few = [(sizes, max(1, graphs_per_size // 4)) for sizes in _LARGER]
    more = [_divided(one, raw) for one in _generate_all(few, _OTHER_SEED + seed, connected)]
    names = [f"{sizes[0]}-{sizes[-1]}" for sizes in _LARGER]
    tests, vals = (dict(zip(names, found, strict=True)) for found in (stores, more))
    return Extrapolation(Splits(train, val, test), tests, vals)


def _generate_all(
    parts: Sequence[tuple[Sequence[int], int]], seed: int, connected: Connected
) -> list[GraphStore]:
    """Parts of a data set, each drawn with the seeds that follow those of the part before."""
    stores = []
    for sizes, count in parts:
        store, seed = _generate(sizes, count, seed, connected)
        stores.append(store)
    return stores


def _generate(
    sizes: Sequence[int], count: int, seed: int, connected: Connected
) -> tuple[GraphStore, int]:
    """`count` graphs of each size with unscaled targets, and the last seed used."""
    if connected not in CONNECTED:
        raise InputError(f"connected is {connected!r}, but it must be one of {CONNECTED}.")
    if len(sizes) == 0 or min(sizes) < 3:  # no seed gives an Erdős-Rényi graph of two nodes
        raise InputError(f"sizes is {list(sizes)}, but every size must be at least 3.")
    if count < 1:
        raise InputError(f"graphs_per_size is {count}, but it must be at least 1.")
    if not 0 <= seed < 2**31:
        raise InputError(f"seed is {seed}, but it must be from 0 to {2**31 - 1}.")
    parts = []
    for n in sizes:
        graphs, seed = draw_graphs(n, count, seed)
        parts.append(_solve(graphs, connected))
    return GraphStore.concat(parts), seed


def _divided(store: GraphStore, train: GraphStore) -> GraphStore:
    """The graphs with their targets divided by the maxima over the training graphs."""
    assert store.y is not None
    assert store.y_node is not None
    assert train.y is not None
    assert train.y_node is not None
    return replace(store, y=store.y / train.y.amax(0), y_node=store.y_node / train.y_node.amax(0))


def _solve(graphs: RandomGraphs, connected: Connected) -> GraphStore:
    """Inputs and targets of graphs of one size."""
    count, n = graphs.value.shape
    adjacency = graphs.adjacency.astype(np.float64)
    distance = shortest_paths(graphs.adjacency, n - 1)
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
    graph, source, target = graphs.adjacency.nonzero()
    return GraphStore.of_sizes(
        np.full(count, n),
        np.bincount(graph, minlength=count),
        edge_index=torch.from_numpy(np.stack([source, target])),
        x=_float(np.stack([marker, graphs.value], axis=2)).view(-1, 2),
        y_node=_float(y_node).view(-1, 3),
        y=_float(np.stack([label, eccentricity.max(axis=1), radius], axis=1)),
    )


def shortest_paths(adjacency: NDArray[Any], most: int) -> NDArray[np.int64]:
    """Distances between all nodes, [G, n, n]; -1 if there is no path of at most `most` edges."""
    step = adjacency.astype(np.float32)
    frontier = np.broadcast_to(np.eye(adjacency.shape[1], dtype=np.bool_), adjacency.shape)
    distance = np.where(frontier, 0, -1)
    for length in range(1, most + 1):
        frontier = (frontier.astype(np.float32) @ step > 0) & (distance < 0)
        distance[frontier] = length
    return distance


def _bipartite(adjacency: NDArray[np.uint8], distance: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether connected graphs are bipartite, [G]: no edge joins nodes equally far from node 0."""
    level = distance[:, 0]
    within = (level[:, :, None] == level[:, None, :]) & (adjacency > 0)
    return np.asarray(~within.any(axis=(1, 2)))


def _float(array: NDArray[Any]) -> Tensor:
    return torch.from_numpy(array.astype(np.float32))
