"""The graphs of a batch one by one, as keys of a cache."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from smpgnn.contexts.topology import Topology

#: Graphs whose structure is cached; one takes about a kilobyte.
CACHE_SIZE = 2**18


@dataclass(frozen=True)
class GraphKey:
    """One graph: its number of nodes, and its edges as the bytes of an int32 array [2, E]."""

    num_nodes: int
    edges: bytes

    @property
    def edge_index(self) -> NDArray[np.int32]:
        return np.frombuffer(self.edges, dtype=np.int32).reshape(2, -1)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The undirected edges (a, b), a < b, each once, without self loops."""
        joined = {(min(a, b), max(a, b)) for a, b in self.edge_index.T.tolist() if a != b}
        return sorted(joined)


def split_graphs(topology: Topology) -> tuple[list[GraphKey], NDArray[np.int64]]:
    """The graphs of a batch, and the indices of their edges sorted by graph, [E]."""
    edge_index = topology.edge_index.cpu().numpy()
    graph = topology.batch.cpu().numpy()[edge_index[1]]
    order = np.argsort(graph, kind="stable")
    start = topology.graph_ptr.cpu().numpy()
    local = (edge_index - start[graph])[:, order].astype(np.int32)
    ends = np.cumsum(np.bincount(graph, minlength=topology.num_graphs)).tolist()
    sizes = np.diff(start).tolist()
    keys = [
        GraphKey(size, local[:, a:b].tobytes())
        for size, (a, b) in zip(sizes, pairwise([0, *ends]), strict=True)
    ]
    return keys, order
