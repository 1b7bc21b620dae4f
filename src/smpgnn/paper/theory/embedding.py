r"""Lemma 1 (Maehara and Rödl, 1990): a graph as unit vectors that are orthogonal on its edges.

.. math:: X \in \mathbb{R}^{n \times 2 d_\max}, \quad \|X_i\| = 1, \qquad
          (v_i, v_j) \in E \iff \langle X_i, X_j\rangle = 0

The paper cites the lemma; this is a construction (Lovász, Saks and Schrijver, 1989). Each node in
turn gets a random vector orthogonal to the vectors of its earlier neighbours, which is possible in
d_max + 1 dimensions. The other pairs must *not* become orthogonal, so no vector may lie in a span
that forces it. With probability 1, any c of the vectors are independent in c dimensions unless the
graph contains a complete bipartite graph on c + 1 nodes. With c = 2·d_max, one side of that graph
would have a node of degree above d_max.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.errors import InputError, check_counts

#: Vectors with a smaller inner product count as orthogonal.
TOLERANCE = 1e-9
#: Vectors are drawn again until the inner products of all pairs without an edge exceed this.
MARGIN = 1e-4
_ATTEMPTS = 200

Matrix = NDArray[np.float64]


def width_of(adjacency: Tensor) -> int:
    """2·d_max, the width that the lemma promises; 2 for a graph without edges.

    Shapes: adjacency [n, n].
    """
    return 2 * max(1, int(adjacency.sum(dim=1).max()))


def embedding(adjacency: Tensor, width: int | None = None, seed: int = 0) -> Tensor:
    """Unit vectors, orthogonal exactly on the edges; the same for the same matrix and seed.

    Args:
        adjacency: of an undirected graph without self loops.
        width: the dimension of the vectors, by default 2·d_max. Some graphs need fewer;
            `InputError` if no embedding is found.
        seed: of the random vectors.

    Shapes: adjacency [n, n], returns [n, width] float64.
    """
    if adjacency.dim() != 2 or not torch.equal(adjacency, adjacency.T) or adjacency.trace():
        raise InputError("adjacency must be a symmetric matrix with zero diagonal.")
    enough = width_of(adjacency)
    width = enough if width is None else width
    check_counts(width=width, at_least=1)
    a = adjacency.numpy() > 0
    vectors = _embedding(a.tobytes(), len(a), width, seed)
    if vectors is None:
        raise InputError(
            f"width {width} gave no embedding of this graph of {len(a)} nodes: "
            + (f"take 2·d_max = {enough}." if width < enough else "take a smaller graph.")
        )
    return torch.from_numpy(vectors.copy())


def adjacency_of(vectors: Tensor) -> Tensor:
    """The graph of unit vectors: A[i, j] = 1 if X_i ⟂ X_j.

    Shapes: vectors [..., n, c] to [..., n, n].
    """
    gram = vectors @ vectors.transpose(-1, -2)
    return (gram.abs() < TOLERANCE).to(vectors.dtype)


def margins(vectors: Tensor, adjacency: Tensor) -> tuple[float, float]:
    """The largest inner product on an edge, and the smallest off edges; 0 and 1 if there is none.

    Shapes: vectors [n, c], adjacency [n, n].
    """
    gram = (vectors @ vectors.T).abs()
    on, off = gram[adjacency > 0], gram[adjacency == 0]
    return (float(on.max()) if on.numel() else 0.0, float(off.min()) if off.numel() else 1.0)


@lru_cache(maxsize=4096)
def _embedding(adjacency: bytes, n: int, width: int, seed: int) -> Matrix | None:
    a = np.frombuffer(adjacency, dtype=np.bool_).reshape(n, n)
    generator = np.random.default_rng(seed)
    for _ in range(_ATTEMPTS):
        vectors = _draw(a, generator.standard_normal((n, width)))
        gram = np.abs(vectors @ vectors.T)
        if (gram[a] < TOLERANCE).all() and (gram[~a] > MARGIN).all():
            return vectors
    return None


def _draw(a: NDArray[np.bool_], vectors: Matrix) -> Matrix:
    """Project random vectors, one after the other; zero if the earlier ones leave no room."""
    for node, vector in enumerate(vectors):
        earlier = vectors[:node][a[node, :node]]
        for _ in range(2 if len(earlier) else 0):  # the second pass removes what rounding left
            along = np.linalg.lstsq(earlier.T, vector, rcond=TOLERANCE)[0]
            vector = vector - along @ earlier
        length = np.linalg.norm(vector)
        vectors[node] = vector / length if length > MARGIN else 0.0
    return vectors
