r"""The three-step layer of Appendix B: contexts of width 2·d_max + c_X + n·c_Y.

The context of node i after l layers holds, row by row, an embedding of A_i⁽ˡ⁾ (orthogonal exactly
on its edges), the node attributes that have reached i, and for each edge attribute a square root of
its matrix. A layer has three steps: every neighbour sends its context; the receiver decodes the
contexts into matrices and takes the entry-wise maximum; it encodes the result.

.. math::
    U_i^{(l)} = \bigl[\,X(A_i^{(l)})\ \big|\ X_i^{(l)}\ \big|\ V(\Lambda + \lambda I)^{1/2}\bigr],
    \qquad E_i^{(l)} = V \Lambda V^\top
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.layers.base import SMPLayer, reduce_rows
from smpgnn.paper.theory.canonical import canonical_order
from smpgnn.paper.theory.embedding import adjacency_of, embedding

#: Decoded edge attributes are rounded to this many decimals: their square roots carry rounding
#: errors, and equal graphs must have equal attributes.
DECIMALS = 9


@dataclass(frozen=True)
class Channels:
    """The channels of a context: 2·d_max for the embedding, c_X, and n for each of c_Y."""

    max_degree: int
    x: int = 0
    y: int = 0

    @property
    def embedding(self) -> int:
        return 2 * max(1, self.max_degree)

    def width(self, n: int) -> int:
        """2·d_max + c_X + n·c_Y."""
        return self.embedding + self.x + n * self.y


@dataclass(frozen=True, eq=False)
class Decoded:
    """What contexts say about a graph. Shapes: a [..., n, n], x [..., n, c_X], y [..., c_Y, n, n].

    The same as rows of matrices is [..., n, n + c_X + n·c_Y].
    """

    a: Tensor
    x: Tensor
    y: Tensor

    @classmethod
    def of_matrices(cls, matrices: Tensor, channels: Channels) -> Decoded:
        """Split rows of matrices, [..., n, n + c_X + n·c_Y]."""
        n = matrices.size(-2)
        a, x, y = torch.split(matrices, [n, channels.x, n * channels.y], dim=-1)
        return cls(a, x, y.reshape(*y.shape[:-1], channels.y, n).movedim(-2, -3))

    @property
    def matrices(self) -> Tensor:
        return torch.cat([self.a, self.x, self.y.movedim(-3, -2).flatten(-2)], dim=-1)

    def at(self, node: int) -> Decoded:
        """What the context of one node contains."""
        return Decoded(self.a[node], self.x[node], self.y[node])

    def equals(self, other: Decoded) -> bool:
        """Whether both are the same graph with the same node numbers and attributes."""
        return torch.equal(self.matrices, other.matrices)


def decode(contexts: Tensor, channels: Channels) -> Decoded:
    """Step 2, for each context: edges where rows are orthogonal; UUᵀ = E + λI off the diagonal.

    Shapes: contexts [..., n, width].
    """
    n = contexts.size(-2)
    vectors, x, roots = torch.split(
        contexts, [channels.embedding, channels.x, n * channels.y], dim=-1
    )
    root = roots.reshape(*roots.shape[:-1], channels.y, n).movedim(-2, -3)
    y = (root @ root.transpose(-1, -2)).round(decimals=DECIMALS)
    off_diagonal = 1 - torch.eye(n, dtype=contexts.dtype)
    return Decoded(adjacency_of(vectors), x, y * off_diagonal + 0.0)  # no negative zeros


def encode(graph: Decoded, channels: Channels) -> Tensor:
    """Step 3, for one context: the embedding of Lemma 1 and the square roots, [n, width].

    Both are computed with the nodes in canonical order and returned in the given order, so that
    isomorphic graphs get the same rows.
    """
    order = canonical_order(_codes(graph))
    parts = [embedding(graph.a[order][:, order], channels.embedding), graph.x[order]]
    parts += [square_root(y[order][:, order]) for y in graph.y]
    rows = torch.cat(parts, dim=1)
    return torch.empty_like(rows).index_copy(0, torch.tensor(order), rows)


def square_root(matrix: Tensor) -> Tensor:
    """V(Λ + λI)^½ with the smallest λ ≥ 0 for which it exists: UUᵀ = E + λI. Shapes: [n, n]."""
    values, vectors = torch.linalg.eigh(matrix)
    shift = (-values.min()).clamp(min=0)
    root: Tensor = vectors * (values + shift).clamp(min=0).sqrt()
    return root


class ThreeStepLayer(SMPLayer):
    """U_i⁽ˡ⁾ to U_i⁽ˡ⁺¹⁾: send, reconstruct by orthogonality and maximum, embed again.

    The message is the neighbour's context. The aggregation decodes the messages and keeps in every
    entry the value with the largest magnitude; the update also decodes the node's own context.

    Args:
        channels: of the contexts. The layer takes one graph at a time.
    """

    def __init__(self, channels: Channels) -> None:
        super().__init__(aggregation="absmax")
        self.channels = channels

    def aggregate(self, messages: LocalContext, index: ContextIndex) -> LocalContext:
        return super().aggregate(messages.with_rows(self._decode(messages.rows, index)), index)

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        both = torch.cat([self._decode(context.rows, index), messages.rows])
        target = torch.arange(index.num_rows).repeat(2)
        return self._encode(reduce_rows(both, target, index.num_rows, "absmax"), index)

    def _decode(self, rows: Tensor, index: ContextIndex) -> Tensor:
        """Rows [·, width] to rows of matrices [·, n + c_X + n·c_Y]."""
        n = index.topology.num_nodes
        contexts = rows.view(-1, n, self.channels.width(n))
        return decode(contexts, self.channels).matrices.flatten(0, 1)

    def _encode(self, rows: Tensor, index: ContextIndex) -> LocalContext:
        """Rows of matrices back to rows [·, width]; nodes that know the same share the work."""
        n = index.topology.num_nodes
        known, nodes = torch.unique(rows.view(n, n, -1), dim=0, return_inverse=True)
        graphs = Decoded.of_matrices(known, self.channels)
        contexts = torch.stack([encode(graphs.at(k), self.channels) for k in range(len(known))])
        return LocalContext(contexts[nodes].flatten(0, 1), index.layout)


class FirstLayer(ThreeStepLayer):
    r"""U_i⁽⁰⁾ = [δ_i, 𝟙_i x_iᵀ] to U_i⁽¹⁾, the embedding of the star of i and its neighbours.

    .. math:: A_i^{(1)} = \delta_i s^\top + s\,\delta_i^\top, \quad s = \sum_{j \in N_i} \delta_j

    The message is [δ_j, 𝟙_j x_jᵀ, δ_j y_ijᵀ]; edge attributes are treated like s.
    """

    def __init__(self, channels: Channels) -> None:
        super().__init__(channels)
        self.edge_channels = channels.y

    def message(self, u_i: LocalContext, u_j: LocalContext, y_ij: Tensor | None) -> LocalContext:
        if y_ij is None:
            return u_j
        sender = u_j.rows[:, :1]
        return u_j.with_rows(torch.cat([u_j.rows, sender * u_j.expand(y_ij)], dim=1))

    def aggregate(self, messages: LocalContext, index: ContextIndex) -> LocalContext:
        return SMPLayer.aggregate(self, messages, index)

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        n, channels = index.topology.num_nodes, self.channels
        own, arrived = context.rows.view(n, n, -1), messages.rows.view(n, n, -1)
        center = own[..., :1].unsqueeze(1)  # δ_i
        s, x, y = torch.split(arrived, [1, channels.x, channels.y], dim=-1)
        spokes = torch.cat([s, y], dim=-1).movedim(-1, 1).unsqueeze(-1)  # [n, 1 + c_Y, n, 1]
        stars = spokes @ center.transpose(-1, -2) + center @ spokes.transpose(-1, -2)
        known = Decoded(stars[:, 0], x + own[..., 1:], stars[:, 1:])
        return self._encode(known.matrices.flatten(0, 1), index)


def _codes(graph: Decoded) -> Tensor:
    """Kinds of nodes and edges as numbers that depend on the attributes only, [n, n]."""
    n = graph.a.size(0)
    codes = graph.a.long()
    if graph.y.size(0):
        codes *= 1 + _kinds(graph.y.flatten(1).T).view(n, n)
    if graph.x.size(1):
        codes += torch.diag(_kinds(graph.x))
    return codes


def _kinds(values: Tensor) -> Tensor:
    """The rank of each row among the different ones: [k, c] to [k]."""
    kinds: Tensor = torch.unique(values, dim=0, return_inverse=True)[1]
    return kinds
