r"""The embedding lemma (Maehara and Rödl, 1990): a graph as unit vectors orthogonal on its edges.

.. math:: X \in \mathbb{R}^{n \times 2 d_\max}, \quad \|X_i\| = 1, \qquad
          (v_i, v_j) \in E \iff \langle X_i, X_j\rangle = 0

The paper cites the lemma; this is a construction. Nodes are taken one after the other, and each
gets a random vector made orthogonal to the vectors of those of its neighbours that have one
(Lovász, Saks and Schrijver, 1989). That is possible in d_max + 1 dimensions. What it takes to make
the other pairs *not* orthogonal is that no vector lies in the span of others that could force it:
with probability 1, any c of the vectors are independent in c dimensions unless the graph contains a
complete bipartite graph on c + 1 nodes, and with c = 2·d_max one side of it would have a node of
degree above d_max.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from smpgnn.errors import InputError, check_counts

#: Vectors whose inner product is below this count as orthogonal.
TOLERANCE = 1e-9
#: Vectors are drawn anew until all pairs without an edge have a larger inner product than this.
MARGIN = 1e-4
_TRIES = 200

Vectors = NDArray[np.float64]


def width_of(adjacency: Tensor) -> int:
    """2·d_max, the width that the lemma promises; 2 for a graph without edges, where it is silent.

    Shapes: adjacency [n, n].
    """
    return 2 * max(1, int(adjacency.sum(dim=1).max()))


def embedding(adjacency: Tensor, width: int | None = None, seed: int = 0) -> Tensor:
    """Unit vectors, orthogonal exactly on the edges; the same for the same matrix and seed.

    Args:
        adjacency: of an undirected graph without self loops.
        width: the dimension of the vectors; 2·d_max where not given. Smaller ones may do for a
            graph; `InputError` where none is found.
        seed: of the random vectors.

    Shapes: adjacency [n, n], returns [n, width] float64.
    """
    a = adjacency.numpy().astype(np.bool_)
    if a.ndim != 2 or (a != a.T).any() or a.diagonal().any():
        raise InputError("adjacency must be a symmetric matrix with zero diagonal.")
    if width is None:
        width = width_of(adjacency)
    check_counts(width=width, at_least=1)
    return torch.from_numpy(_embedding(a.tobytes(), len(a), width, seed).copy())


def adjacency_of(vectors: Tensor) -> Tensor:
    """The graph of unit vectors: A[i, j] = 1 where X_i ⟂ X_j.

    Shapes: vectors [..., n, c] to [..., n, n].
    """
    gram = vectors @ vectors.transpose(-1, -2)
    return (gram.abs() < TOLERANCE).to(vectors.dtype)


def margins(vectors: Tensor, adjacency: Tensor) -> tuple[float, float]:
    """The largest inner product on an edge and the smallest off edges; 0 and 1 where none is.

    Shapes: vectors [n, c], adjacency [n, n].
    """
    product = (vectors @ vectors.T).abs()
    on, off = product[adjacency > 0], product[adjacency == 0]
    return (float(on.max()) if on.numel() else 0.0, float(off.min()) if off.numel() else 1.0)


@lru_cache(maxsize=4096)
def _embedding(adjacency: bytes, n: int, width: int, seed: int) -> Vectors:
    a = np.frombuffer(adjacency, dtype=np.bool_).reshape(n, n)
    generator = np.random.default_rng(seed)
    for _ in range(_TRIES):
        vectors = _draw(a, width, generator)
        if vectors is None:
            continue
        product = np.abs(vectors @ vectors.T)
        if (product[a] < TOLERANCE).all() and (product[~a] > MARGIN).all():
            return vectors
    enough = 2 * max(1, int(a.sum(axis=1).max(initial=0)))
    raise InputError(
        f"width {width} gave no embedding of this graph of {n} nodes: "
        + (f"take 2·d_max = {enough}." if width < enough else "take a smaller graph.")
    )


def _draw(a: NDArray[np.bool_], width: int, generator: np.random.Generator) -> Vectors | None:
    """One random vector after the other, orthogonal to those of earlier neighbours."""
    vectors = np.zeros((len(a), width))
    for node, noise in enumerate(generator.standard_normal((len(a), width))):
        earlier = vectors[:node][a[node, :node]]
        if len(earlier):
            _, size, basis = np.linalg.svd(earlier, full_matrices=False)
            basis = basis[size > TOLERANCE]
            for _ in range(2):  # the second pass removes what rounding left
                noise = noise - basis.T @ (basis @ noise)
        length = float(np.linalg.norm(noise))
        if length < MARGIN:
            return None
        vectors[node] = noise / length
    return vectors
