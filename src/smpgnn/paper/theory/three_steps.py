r"""The three-step layer of Appendix B: contexts that hold a graph in 2·d_max + c_X + n·c_Y columns.

The context of node i after l layers holds, row by row, an embedding of A_i⁽ˡ⁾ (orthogonal exactly
on its edges), the node attributes that have reached i, and for each edge attribute a square root of
its matrix. A layer has three steps: every neighbour sends its context; the receiver decodes each
into matrices and takes the entrywise maximum; it encodes the result again.

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

#: Edge attributes are rounded to this many decimals after each decoding: their square roots carry
#: rounding errors, and must be equal in equal graphs.
DECIMALS = 9


@dataclass(frozen=True)
class Channels:
    """The channels of a context: 2·d_max of the embedding, c_X, and n for each of c_Y."""

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
    """What contexts say of a graph. Shapes: a [..., n, n], x [..., n, c_X], y [..., c_Y, n, n]."""

    a: Tensor
    x: Tensor
    y: Tensor

    def at(self, node: int) -> Decoded:
        """What the context of one node says."""
        return Decoded(self.a[node], self.x[node], self.y[node])

    def equals(self, other: Decoded) -> bool:
        """Whether both are the same graph with the same numbers of nodes and attributes."""
        return (
            torch.equal(self.a, other.a)
            and torch.equal(self.x, other.x)
            and torch.equal(self.y, other.y)
        )


def decode(contexts: Tensor, channels: Channels) -> Decoded:
    """Step 2, for each context: edges where rows are orthogonal; UUᵀ = E + λI off the diagonal.

    Shapes: contexts [..., n, width].
    """
    n = contexts.size(-2)
    vectors, x, roots = torch.split(
        contexts, [channels.embedding, channels.x, n * channels.y], dim=-1
    )
    root = roots.reshape(*roots.shape[:-1], channels.y, n).movedim(-2, -3)
    product = (root @ root.transpose(-1, -2)).round(decimals=DECIMALS)
    off = 1 - torch.eye(n, dtype=contexts.dtype)
    return Decoded(adjacency_of(vectors), x, product * off + 0.0)  # no negative zeros


def encode(graph: Decoded, channels: Channels) -> Tensor:
    """Step 3, for one context: the embedding of the lemma and the square roots, [n, width].

    Both are computed with the nodes in canonical order and handed back in the order given, so that
    isomorphic graphs get the same rows.
    """
    order = list(canonical_order(_codes(graph)))
    vectors = embedding(graph.a[order][:, order], channels.embedding)
    parts = [vectors, graph.x[order]]
    parts += [square_root(y[order][:, order]) for y in graph.y]
    rows = torch.cat(parts, dim=1)
    return torch.empty_like(rows).index_copy(0, torch.tensor(order, dtype=torch.long), rows)


def square_root(matrix: Tensor) -> Tensor:
    """V(Λ + λI)^½ with the least λ ≥ 0 for which it exists: UUᵀ = E + λI. Shapes: [n, n]."""
    values, vectors = torch.linalg.eigh(matrix)
    shift = (-values.min()).clamp(min=0)
    root: Tensor = vectors * (values + shift).clamp(min=0).sqrt()
    return root


class ThreeStepLayer(SMPLayer):
    """U_i⁽ˡ⁾ to U_i⁽ˡ⁺¹⁾: send, reconstruct by orthogonality and maximum, embed again.

    The message is the neighbour's context. The aggregation decodes the messages and takes in every
    entry the value that is largest without regard to sign; the update adds what i knew itself.

    Args:
        channels: of the contexts. Graphs are taken one at a time.
    """

    def __init__(self, channels: Channels) -> None:
        super().__init__(aggregation="absmax")
        self.channels = channels

    def aggregate(self, messages: LocalContext, index: ContextIndex) -> LocalContext:
        return super().aggregate(messages.with_rows(self._decode(messages.rows, index)), index)

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        own = self._decode(context.rows, index)
        both = torch.cat([own, messages.rows])
        target = torch.arange(index.num_rows).repeat(2)
        return self._encode(reduce_rows(both, target, index.num_rows, "absmax"), index)

    def _decode(self, rows: Tensor, index: ContextIndex) -> Tensor:
        """Rows [·, width] to rows of matrices [·, n + c_X + n·c_Y]."""
        n = index.topology.num_nodes
        found = decode(rows.view(-1, n, self.channels.width(n)), self.channels)
        y = found.y.movedim(-3, -2).flatten(-2)
        return torch.cat([found.a, found.x, y], dim=-1).flatten(0, 1)

    def _encode(self, rows: Tensor, index: ContextIndex) -> LocalContext:
        """Rows of matrices back to rows [·, width]."""
        n, channels = index.topology.num_nodes, self.channels
        a, x, y = torch.split(rows.view(n, n, -1), [n, channels.x, n * channels.y], dim=-1)
        known = Decoded(a, x, y.reshape(n, n, channels.y, n).movedim(-2, -3))
        return LocalContext(torch.cat(_encode_all(known, channels)), index.layout)


class FirstLayer(ThreeStepLayer):
    r"""U_i⁽⁰⁾ = [δ_i, 𝟙_i x_iᵀ] to U_i⁽¹⁾, the embedding of the star of i and its neighbours.

    .. math:: A_i^{(1)} = \delta_i s^\top + s\,\delta_i^\top, \quad s = \sum_{j \in N_i} \delta_j

    The message is [δ_j, 𝟙_j x_jᵀ, δ_j y_ijᵀ]; edge attributes are treated as s.
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
        receiver = context.rows[:, 0].view(n, n, 1)
        spokes, x, y = torch.split(
            messages.rows.view(n, n, -1), [1, channels.x, channels.y], dim=-1
        )
        stars = torch.cat([spokes, y], dim=-1).movedim(-1, 1).unsqueeze(-1)  # [n, 1 + c_Y, n, 1]
        centre = receiver.unsqueeze(1)
        stars = stars @ centre.transpose(-1, -2) + centre @ stars.transpose(-1, -2)
        x = x + context.rows[:, 1:].view(n, n, -1)
        known = torch.cat([stars[:, 0], x, stars[:, 1:].movedim(1, -2).flatten(-2)], dim=-1)
        return self._encode(known.flatten(0, 1), index)


def _encode_all(known: Decoded, channels: Channels) -> list[Tensor]:
    """The contexts of all nodes; nodes that know the same share the work."""
    done: dict[bytes, Tensor] = {}
    contexts = []
    for i in range(known.a.size(0)):
        graph = known.at(i)
        key = torch.cat([graph.a, graph.x, *graph.y], dim=1).numpy().tobytes()
        if key not in done:
            done[key] = encode(graph, channels)
        contexts.append(done[key])
    return contexts


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
