"""Counting substructures in random graphs: cycles of 3 to 8 nodes, and cycles with a chord.

The graphs are those of the benchmark of Zhang et al. (2024); the targets are counted here. A count
is that of subgraphs: a chordal k-cycle is a cycle of k nodes with one further edge between two of
them, whatever else is joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from smpgnn.data.base import Splits
from smpgnn.data.folders import benchmark_file
from smpgnn.data.properties import shortest_paths
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError, reason

Counts = NDArray[np.int64]

CYCLES = tuple(f"cycle{k}" for k in range(3, 9))
CHORDAL = ("chordal4", "chordal5")
SUBSTRUCTURES = (*CYCLES, *CHORDAL)
LEVELS = ("graph", "node")
_SOURCE = "the graphs of RPaolino/loopy, datasets/subgraphcount, as plain arrays"
_NODES_AT_A_TIME = 4096  # at which paths start: the memory of their search


def counting_splits(
    substructure: str, *, level: str = "graph", data_dir: str | Path | None = None
) -> Splits:
    """The 1,500 / 1,000 / 2,500 graphs with one count, y [G, 1] or y_node [N, 1], both float32.

    Counts of graphs are divided by their standard deviation over all graphs. With level='node' the
    target is the number of cycles through each node, less its mean and divided by its standard
    deviation over the nodes of training and validation graphs. The data are read from
    `counting/graphs.npz` in `data_dir` or in the folder SMPGNN_DATA.
    """
    if substructure not in SUBSTRUCTURES:
        raise InputError(
            f"substructure is {substructure!r}, but must be one of {', '.join(SUBSTRUCTURES)}."
        )
    if level not in LEVELS:
        raise InputError(f"level is {level!r}, but must be {' or '.join(LEVELS)}.")
    if level == "node" and substructure not in CYCLES:
        raise InputError(f"substructure is {substructure!r}: nodes have counts of cycles only.")
    store, split = read_graphs(benchmark_file("counting", "graphs.npz", _SOURCE, data_dir))
    parts = [torch.from_numpy(np.flatnonzero(split == number)) for number in range(3)]
    count = torch.from_numpy(counts(store, substructure, level)).double()
    mean, scale = 0.0, float(count.std())
    if level == "node":
        graph = torch.arange(len(store)).repeat_interleave(store.num_nodes)
        known = count[torch.isin(graph, torch.cat(parts[:2]))]
        mean, scale = float(known.mean()), float(known.std())
    target = ((count - mean) / (scale or 1.0)).float().view(-1, 1)
    name = "y" if level == "graph" else "y_node"
    store = GraphStore(store.node_ptr, store.edge_ptr, store.edge_index, **{name: target})
    return Splits(*(store.select(part) for part in parts))


def counts(store: GraphStore, substructure: str, level: str = "graph") -> Counts:
    """The exact number in each graph, [G], or through each node, [N], of an undirected store."""
    size, total = int(substructure[-1]), int(store.node_ptr[-1])
    graph = np.repeat(np.arange(len(store)), store.num_nodes.numpy())
    adjacent = _Adjacency(store)
    found = np.zeros(total, dtype=np.int64)
    for cycles in adjacent.cycles(size):
        if substructure in CYCLES:
            found += np.bincount(cycles.ravel(), minlength=total)
        else:  # each chord of a cycle is one substructure
            found += np.bincount(cycles[:, 0], adjacent.chords(cycles), total).astype(np.int64)
    if level == "node":
        return found
    whole = np.bincount(graph, found, len(store)).astype(np.int64)
    return whole // size if substructure in CYCLES else whole


class _Adjacency:
    """The neighbours and distances of the nodes of a store, for paths from many nodes at once."""

    def __init__(self, store: GraphStore) -> None:
        most, graphs = int(store.num_nodes.max()), len(store)
        graph = np.repeat(np.arange(graphs), store.num_edges.numpy())
        sender, receiver = store.edge_index.numpy()
        self.joined = np.zeros((graphs, most, most), dtype=np.bool_)
        self.joined[graph, sender, receiver] = True
        self.ptr = store.node_ptr.numpy()
        self.graph = np.repeat(np.arange(graphs), store.num_nodes.numpy())
        #: Neighbours of each node as nodes of the whole store, sorted, one node after the other.
        at, row, column = np.nonzero(self.joined)
        self.sorted = self.ptr[at] + column
        self.first = np.searchsorted(self.ptr[at] + row, np.arange(int(self.ptr[-1]) + 1))

    def adjacent(self, a: Counts, b: Counts) -> NDArray[np.bool_]:
        """Whether nodes of one graph each are joined."""
        graph = self.graph[a]
        found: NDArray[np.bool_] = self.joined[graph, a - self.ptr[graph], b - self.ptr[graph]]
        return found

    def chords(self, cycles: Counts) -> Counts:
        """The number of edges between nodes of each cycle that are not next to each other."""
        size, found = cycles.shape[1], np.zeros(len(cycles), dtype=np.int64)
        for a in range(size):
            for b in range(a + 2, size - (a == 0)):
                found += self.adjacent(cycles[:, a], cycles[:, b])
        return found

    def cycles(self, size: int) -> Iterator[Counts]:
        """All cycles of `size` nodes, each once, in parts: node indices [K, size].

        A cycle starts at its smallest node and continues to the smaller one of its neighbours.
        Paths grow by one node at a time, and end when too far from their start to return.
        """
        distance = shortest_paths(self.joined, size // 2)
        for start in range(0, int(self.ptr[-1]), _NODES_AT_A_TIME):
            paths = np.arange(start, min(start + _NODES_AT_A_TIME, int(self.ptr[-1])))[:, None]
            for length in range(2, size + 1):
                last = paths[:, -1]
                degree = self.first[last + 1] - self.first[last]
                row = np.repeat(np.arange(len(paths)), degree)
                step = np.arange(len(row)) - np.repeat(np.cumsum(degree) - degree, degree)
                new = self.sorted[self.first[last][row] + step]
                keep = new > paths[row, 0]
                left = size - length + 1  # edges from the new node back to the start
                if left <= size // 2:
                    graph = self.graph[new]
                    shift = self.ptr[graph]
                    back = distance[graph, new - shift, paths[row, 0] - shift]
                    keep &= (back >= 0) & (back <= left)
                row, new = row[keep], new[keep]
                fresh = (paths[row, 1:] != new[:, None]).all(axis=1)
                paths = np.column_stack([paths[row[fresh]], new[fresh]])
            yield paths[paths[:, 1] < paths[:, -1]]


def read_graphs(file: Path) -> tuple[GraphStore, NDArray[np.int64]]:
    """The graphs of a file of NumPy arrays, and the split of each: 0, 1 or 2.

    `nodes` and `edges` have one entry per graph; `edge_list` has each undirected edge once, one
    graph after the other, with node indices local to each graph.
    """
    try:
        with np.load(file, allow_pickle=False) as content:
            nodes, edges, ends, split = (
                content[name].astype(np.int64, casting="same_kind")
                for name in ("nodes", "edges", "edge_list", "split")
            )
        return _store(nodes, edges, ends.reshape(len(ends), -1)), _checked(split, len(nodes))
    except Exception as error:  # a damaged archive can raise anything
        raise InputError(
            f"{file} does not contain the graphs of the counting benchmark "
            f"({reason(error)}): copy it again."
        ) from error


def _store(nodes: Any, edges: Any, ends: Any) -> GraphStore:
    ends = ends if ends.shape[0] == 2 else ends.T
    if ends.shape != (2, edges.sum()) or (nodes < 1).any() or (edges < 0).any():
        raise ValueError(f"edge_list of shape {ends.shape}")
    if not ((ends >= 0) & (ends < np.repeat(nodes, edges)) & (ends != ends[::-1])).all():
        raise ValueError("edge_list with values out of range")
    graph = np.tile(np.repeat(np.arange(len(nodes)), edges), 2)
    both = np.concatenate([ends, ends[::-1]], axis=1)
    order = np.lexsort((both[1], both[0], graph))
    return GraphStore.of_sizes(nodes, 2 * edges, edge_index=torch.from_numpy(both[:, order]))


def _checked(split: NDArray[np.int64], graphs: int) -> NDArray[np.int64]:
    if len(split) != graphs or set(split.tolist()) != {0, 1, 2}:
        raise ValueError("split has other values than 0, 1 and 2 for each graph")
    return split
