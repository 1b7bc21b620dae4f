r"""Theorem 1: a layer is equivariant if its message, aggregation and update are.

`FunctionLayer` is a layer given by these three functions, and `proof` evaluates both sides of every
equality of the proof (Appendix A) for it. `check_conditions` tries to break each condition for any
layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.layers.base import SMPLayer
from smpgnn.layers.default import DefaultSMPLayer
from smpgnn.layers.fast import FastSMPLayer
from smpgnn.paper.theory.conditions import CONDITIONS, Counterexample, check_conditions
from smpgnn.paper.theory.tables import print_table

__all__ = [
    "Counterexample",
    "Equality",
    "FunctionLayer",
    "check_conditions",
    "initial_contexts",
    "proof",
]


#: m(U_i, U_j, y_ij): [n, c], [n, c] and [d] (or None) to [n, c'].
Message = Callable[[Tensor, Tensor, Tensor | None], Tensor]
#: φ of the messages at a node: [number of neighbours, n, c'] to [n, c''].
Aggregation = Callable[[Tensor], Tensor]
#: u(U_i, Ũ_i): [n, c] and [n, c''] to [n, c'''].
Update = Callable[[Tensor, Tensor], Tensor]


class FunctionLayer(SMPLayer):
    r"""Structural message-passing with three functions of dense matrices, on one graph.

    .. math:: U_i' = u\bigl(U_i, \phi(\{m(U_i, U_j, y_{ij})\}_{j \in N_i})\bigr)

    The functions are called once per edge or node: slow, but close to the theorem. A node without
    neighbours receives zero.

    Args:
        m, phi, u: message, aggregation and update.
        edge_channels: the length of y_ij; 0: m is given None.

    Shapes: contexts [n, c] of the n nodes of one graph.
    """

    def __init__(self, m: Message, phi: Aggregation, u: Update, edge_channels: int = 0) -> None:
        super().__init__()
        self.m, self.phi, self.u = m, phi, u
        self.edge_channels = edge_channels

    def message(self, u_i: LocalContext, u_j: LocalContext, y_ij: Tensor | None) -> LocalContext:
        if u_i.layout.own.numel() == 0:
            return u_j
        n = int(u_i.layout.ptr[1])
        ours = u_i.rows.view(-1, n, u_i.num_channels)
        theirs = u_j.rows.view(-1, n, u_j.num_channels)
        attributes = [None] * len(ours) if y_ij is None else list(y_ij)
        sent = [self.m(*of_edge) for of_edge in zip(ours, theirs, attributes, strict=True)]
        return u_j.with_rows(torch.cat(sent))

    def aggregate(self, messages: LocalContext, index: ContextIndex) -> LocalContext:
        n = index.topology.num_nodes
        sent = messages.rows.view(-1, n, messages.num_channels)
        arrived = [sent[index.topology.receiver == i] for i in range(n)]
        found = [self.phi(some) if len(some) else None for some in arrived]
        width = next((one.size(1) for one in found if one is not None), messages.num_channels)
        nothing = sent.new_zeros(n, width)
        rows = torch.cat([nothing if one is None else one for one in found])
        return LocalContext(rows, index.layout)

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        n = index.topology.num_nodes
        pairs = zip(context.rows.view(n, n, -1), messages.rows.view(n, n, -1), strict=True)
        return context.with_rows(torch.cat([self.u(*pair) for pair in pairs]))


@dataclass(frozen=True)
class Equality:
    """One line of the proof: its statement, its reason, and the largest difference of its sides."""

    line: str
    reason: str
    gap: float


def initial_contexts(x: Tensor) -> Tensor:
    """U⁽⁰⁾: zero, except for U_i[i, :] = [1, x_i]. Shapes: x [n, c_X] to [n, n, 1 + c_X]."""
    rows = torch.cat([x.new_ones(len(x), 1), x], dim=1)
    return torch.eye(len(x), dtype=x.dtype).unsqueeze(2) * rows


def proof(
    layer: FunctionLayer, a: Tensor, x: Tensor, y: Tensor, permutation: Sequence[int]
) -> tuple[Equality, ...]:
    """The equalities of the proof of Theorem 1 for one layer on the initial contexts.

    Args:
        layer: message, aggregation and update.
        a, x, y: the graph, its node and edge attributes; every node has a neighbour.
        permutation: π, with π_i = permutation[i].

    Shapes: a [n, n], x [n, c_X], y [n, n, c_Y].
    """
    m, phi, u = layer.m, layer.phi, layer.u
    n, pi = len(a), list(permutation)
    identity = torch.eye(n, dtype=x.dtype)
    renaming = identity[pi]  # Π, so that (π⁻¹.U)[i] = Π U_πi
    contexts = initial_contexts(x)

    def messages(p: int, senders: Sequence[int], matrix: Tensor) -> Tensor:
        sent = [m(matrix @ contexts[p], matrix @ contexts[k], y[p, k]) for k in senders]
        return torch.stack(sent)

    def right_sides(p: int) -> tuple[Tensor, ...]:
        """The lines for u(ΠU_p, …), from the definition to Π u(…), where p = π_i."""
        own = renaming @ contexts[p]
        neighbors = a[p].nonzero().flatten().tolist()
        in_new_order = [k for k in pi if k in neighbors]
        sent = messages(p, neighbors, identity)
        return (
            u(own, phi(messages(p, in_new_order, renaming))),
            u(own, phi(messages(p, neighbors, renaming))),
            u(own, phi(renaming @ sent)),
            u(own, renaming @ phi(sent)),
            renaming @ u(contexts[p], phi(sent)),
        )

    lines = [torch.stack(line) for line in zip(*(right_sides(p) for p in pi), strict=True)]
    moved = contexts[pi][:, pi]  # π⁻¹.U
    f_of_moved = _layer(layer, moved, y[pi][:, pi], a[pi][:, pi])
    f = _layer(layer, contexts, y, a)
    chain = [f_of_moved, *lines, renaming @ f[pi], f[pi][:, pi]]
    statements = [
        ("f(π⁻¹.(U,Y,A))[i] = u(ΠU_πi, φ{m(ΠU_πi, ΠU_πj, y_πiπj)})", "definition"),
        ("  = u(ΠU_πi, φ{m(ΠU_πi, ΠU_k, y_πik)})", "π bijective"),
        ("  = u(ΠU_πi, φ{Π m(U_πi, U_k, y_πik)})", "m equivariant"),
        ("  = u(ΠU_πi, Π φ{m(U_πi, U_k, y_πik)})", "φ equivariant"),
        ("  = Π u(U_πi, φ{m(U_πi, U_k, y_πik)})", "u equivariant"),
        ("  = Π f(U,Y,A)[πi]", "definition"),
        ("  = (π⁻¹.f(U,Y,A))[i]", "definition"),
    ]
    start = ("π⁻¹.U⁽⁰⁾ = U⁽⁰⁾ of the renamed graph", "one-hot")
    gaps = [_gap(moved, initial_contexts(x[pi])), *map(_gap, chain, chain[1:])]
    return tuple(
        Equality(line, reason, gap)
        for (line, reason), gap in zip([start, *statements], gaps, strict=True)
    )


def _layer(layer: FunctionLayer, contexts: Tensor, y: Tensor, a: Tensor) -> Tensor:
    """f(U, Y, A), [n, n, c']."""
    found = []
    for i, own in enumerate(contexts):
        senders = a[i].nonzero().flatten().tolist()
        sent = torch.stack([layer.m(own, contexts[j], y[i, j]) for j in senders])
        found.append(layer.u(own, layer.phi(sent)))
    return torch.stack(found)


def _gap(left: Tensor, right: Tensor) -> float:
    return float((left - right).abs().max())


def example(flaw: str = "") -> FunctionLayer:
    """Networks for sets as message, aggregation and update, possibly with a flaw.

    Args:
        flaw: the function that treats rows by their position ('message', 'aggregation', 'update')
            or messages by their order ('order'). 'unused': a flawed message that the update
            ignores.
    """
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(6, 3, 3, generator=generator, dtype=torch.float64) / 2

    def position(rows: Tensor) -> Tensor:
        return torch.arange(rows.size(-2), dtype=rows.dtype).unsqueeze(1)

    def m(u_i: Tensor, u_j: Tensor, y: Tensor | None) -> Tensor:
        sent = u_i @ w[0] + u_j @ w[1] + u_j.mean(dim=0) @ w[2]
        sent = sent if y is None else sent + y @ w[3][: len(y)]
        return sent.relu() + (0.1 * position(sent) if flaw in ("message", "unused") else 0.0)

    def phi(sent: Tensor) -> Tensor:
        if flaw == "order":
            return sent[0]
        return sent.sum(dim=0) + (0.1 * position(sent) if flaw == "aggregation" else 0.0)

    def u(own: Tensor, arrived: Tensor) -> Tensor:
        if flaw == "unused":
            return own @ w[4]
        return own @ w[4] + (arrived @ w[5]).tanh() + (0.1 * own[0] if flaw == "update" else 0.0)

    return FunctionLayer(m, phi, u, edge_channels=2)


def run() -> None:
    """Check correct and flawed layers, print counterexamples, and follow the proof line by line."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layers: dict[str, tuple[SMPLayer, str | None]] = {
            "Default SMP": (DefaultSMPLayer(3, 4, edge_channels=2).double(), None),
            "Fast SMP": (FastSMPLayer(3, 4).double(), None),
            "networks for sets": (example(), None),
            "m adds row numbers": (example("message"), "message"),
            "φ adds row numbers": (example("aggregation"), "aggregation"),
            "φ takes the first message": (example("order"), "order"),
            "u adds the first row": (example("update"), "update"),
            "m flawed, u ignores it": (example("unused"), "message"),
        }
    table: list[list[object]] = [["layer", *CONDITIONS]]
    counterexamples: dict[str, Counterexample] = {}
    for name, (layer, flaw) in layers.items():
        broken = check_conditions(layer, 3)
        parts = [condition for condition in broken if condition != "layer"]
        assert parts == ([flaw] if flaw else []), f"{name}: {parts} are broken, not {flaw}"
        assert parts or "layer" not in broken, f"{name} contradicts Theorem 1"
        gaps = (f"{broken[c].gap:.1g}" if c in broken else "holds" for c in CONDITIONS)
        table.append([name, *gaps])
        counterexamples = {**broken, **counterexamples}
    print("Conditions of Theorem 1 on all connected graphs with 2 to 4 nodes; gaps where broken.")
    print_table(table)
    print("The last line: the conditions suffice, they are not necessary.\n")
    print("Smallest counterexamples:")
    for condition in CONDITIONS[1:-1]:
        print(f"  {counterexamples[condition]}")
    _show_proof()


def _show_proof() -> None:
    edges = torch.tensor([[0, 1, 2, 3, 3, 4], [1, 2, 3, 0, 4, 2]])  # a house
    n, pi = 5, (2, 0, 4, 1, 3)
    a = torch.zeros(n, n, dtype=torch.float64)
    a[edges[0], edges[1]] = a[edges[1], edges[0]] = 1
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    y = torch.randn(n, n, 2, generator=generator, dtype=torch.float64)
    flaws = {"sound": "", "m": "message", "φ": "aggregation", "u": "update"}
    proofs = [proof(example(flaw), a, x, y, pi) for flaw in flaws.values()]
    table: list[list[object]] = [["functions", "reason", *flaws]]
    for equalities in zip(*proofs, strict=True):
        line, reason = equalities[0].line, equalities[0].reason
        table.append([line, reason, *(f"{one.gap:.0e}" for one in equalities)])
        for one, function in zip(equalities, flaws, strict=True):
            breaks = reason.startswith(function)
            assert (one.gap >= 1e-12) == breaks, f"{function} at the line {line}"
    print(f"\nThe proof on the house graph with π = {pi}: largest difference of the two sides,")
    print("for sound networks for sets, and with a flaw in m, φ or u.")
    print_table(table)
