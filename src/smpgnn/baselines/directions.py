"""Directional fields: differences of Laplacian eigenvectors along the edges (for DGN)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from smpgnn.baselines.per_graph import CACHE_SIZE, GraphKey, split_graphs
from smpgnn.contexts.structure import Cut, GraphStructure, PreparedStructure
from smpgnn.contexts.topology import Topology

#: Added to the norm of a field, as in the authors' code.
EPSILON = 1e-5
#: Eigenvalues nearer than this count as equal.
GAP = 1e-6


@dataclass(frozen=True)
class DirectionalFields(GraphStructure[Tensor]):
    """The first `count` directional fields of each graph, [E, count] (see `directional_fields`)."""

    count: int

    def find(self, topology: Topology) -> Tensor:
        return directional_fields(topology, self.count)

    def prepare(self, topology: Topology, graphs: int) -> PreparedFields:
        return PreparedFields(self.find(topology))


class PreparedFields(PreparedStructure[Tensor]):
    """The fields on all edges of a data set, and zero on padding."""

    def __init__(self, fields: Tensor) -> None:
        self._fields = torch.cat([fields, fields.new_zeros(1, fields.size(1))])

    def cut(self, batch: Cut) -> Tensor:
        return self._fields.index_select(0, batch.edge)


def directional_fields(topology: Topology, count: int) -> Tensor:
    r"""The first `count` directional fields of each graph, normalised at every receiver.

    .. math:: \hat F^k_{ij} = \frac{\varphi^k_j - \varphi^k_i}
              {\sum_{l \in N_i} |\varphi^k_l - \varphi^k_i| + 10^{-5}}

    where :math:`\varphi^k` is the eigenvector of L = D − A with the k-th smallest eigenvalue above
    zero, of norm 1 and arbitrary sign, and j sends to i. L is the Laplacian of the connected
    component of a node, with edges undirected and without repetitions.

    If an eigenvalue has several eigenvectors (rings, stars, …), their choice depends on the order
    of the nodes; the field is zero then. It is also zero if the component has too few nodes. (The
    authors take what their solver returns.)

    Cost: n³ per component (about a millisecond per molecule on the CPU), once per graph and
    process: results are cached by the edges of the graph (see `per_graph.CACHE_SIZE`).

    Returns: [E, count], float64, without gradient.
    """
    keys, order = split_graphs(topology)
    found = [_fields(key, count) for key in keys]
    values = np.empty((topology.num_edges, count))
    values[order] = np.concatenate(found) if found else np.empty((0, count))
    return torch.from_numpy(values).to(topology.device)


@lru_cache(maxsize=CACHE_SIZE)
def _fields(key: GraphKey, count: int) -> NDArray[np.float64]:
    """The fields of one graph, [E, count]."""
    sender, receiver = key.edge_index
    vectors = eigenvectors(key.num_nodes, key.pairs, count)
    field = vectors[sender] - vectors[receiver]
    norm = np.zeros((key.num_nodes, count))
    np.add.at(norm, receiver, np.abs(field))
    scaled: NDArray[np.float64] = field / (norm[receiver] + EPSILON)
    return scaled


def eigenvectors(num_nodes: int, pairs: list[tuple[int, int]], count: int) -> NDArray[np.float64]:
    """The lowest nonconstant eigenvectors of each component; zero if not unique."""
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    adjacency = np.zeros((num_nodes, num_nodes))
    adjacency[ends[:, 0], ends[:, 1]] = adjacency[ends[:, 1], ends[:, 0]] = 1.0
    laplacian = np.diag(adjacency.sum(0)) - adjacency
    vectors = np.zeros((num_nodes, count))
    if num_nodes == 0:
        return vectors
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (num_nodes, num_nodes))
    parts, part = connected_components(graph, directed=False)
    for number in range(parts):
        nodes = np.flatnonzero(part == number)
        part_laplacian = torch.from_numpy(laplacian[np.ix_(nodes, nodes)])
        # NumPy's solver is ten times slower on such small matrices, for its many threads.
        values, basis = (found.numpy() for found in torch.linalg.eigh(part_laplacian))
        near = np.diff(values, append=np.inf) < GAP  # to the next one above
        for k in range(1, min(count + 1, len(nodes))):
            if not (near[k - 1] or near[k]):
                vectors[nodes, k - 1] = basis[:, k]
    return vectors
