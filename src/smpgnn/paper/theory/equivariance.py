r"""Theorem 1: a layer is equivariant if its message, aggregation and update are.

`check_conditions` tries to break each condition of a layer of yours, and `proof` evaluates both
sides of every equality of the proof (Appendix A) on an example.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from smpgnn.layers.base import SMPLayer
from smpgnn.layers.default import DefaultSMPLayer
from smpgnn.layers.fast import FastSMPLayer
from smpgnn.paper.theory.conditions import CONDITIONS, Counterexample, Verdict, check_conditions
from smpgnn.paper.theory.function_layer import Aggregation, FunctionLayer, Message, Update
from smpgnn.paper.theory.program import Program

__all__ = [
    "PROGRAM",
    "Counterexample",
    "Equality",
    "FunctionLayer",
    "Verdict",
    "check_conditions",
    "initial_contexts",
    "proof",
]


@dataclass(frozen=True)
class Equality:
    """One line of the proof: what it says, why, and the largest difference of its two sides."""

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
        a, x, y: the graph, its node and edge attributes; every node with a neighbour.
        permutation: π, with π_i = permutation[i].

    Shapes: a [n, n], x [n, c_X], y [n, n, c_Y].
    """
    m, phi, u = layer.m, layer.phi, layer.u
    n, pi = len(a), list(permutation)
    matrix = torch.eye(n, dtype=x.dtype)[pi]  # Π, so that (π⁻¹.U)[i] = Π U_{π_i}
    contexts = initial_contexts(x)
    moved = torch.stack([matrix @ contexts[pi[i]] for i in range(n)])  # π⁻¹.U
    nodes = range(n)

    def around(i: int) -> list[int]:
        return [k for k in nodes if a[i, k] > 0]

    def messages(i: int) -> Tensor:
        return torch.stack([m(contexts[i], contexts[k], y[i, k]) for k in around(i)])

    f_of_moved = _layer(m, phi, u, moved, y[pi][:, pi], a[pi][:, pi])
    by_definition = torch.stack(
        [
            u(moved[i], phi(torch.stack([
                m(moved[i], moved[j], y[pi[i], pi[j]]) for j in nodes if a[pi[i], pi[j]] > 0
            ])))
            for i in nodes
        ]
    )  # fmt: skip
    bijective = torch.stack(
        [
            u(moved[i], phi(torch.stack([
                m(matrix @ contexts[pi[i]], matrix @ contexts[k], y[pi[i], k])
                for k in around(pi[i])
            ])))
            for i in nodes
        ]
    )  # fmt: skip
    of_messages = torch.stack([u(moved[i], phi(matrix @ messages(pi[i]))) for i in nodes])
    of_sets = torch.stack([u(moved[i], matrix @ phi(messages(pi[i]))) for i in nodes])
    of_updates = torch.stack([matrix @ u(contexts[pi[i]], phi(messages(pi[i]))) for i in nodes])
    f = _layer(m, phi, u, contexts, y, a)
    by_layer = torch.stack([matrix @ f[pi[i]] for i in nodes])
    lines = [
        ("π⁻¹.U⁽⁰⁾ = U⁽⁰⁾ of the renamed graph", "one-hot", moved, initial_contexts(x[pi])),
        ("f(π⁻¹.(U,Y,A))[i] = u(ΠU_πi, φ{m(ΠU_πi, ΠU_πj, y_πiπj)})", "definition",
         f_of_moved, by_definition),
        ("  = u(ΠU_πi, φ{m(ΠU_πi, ΠU_k, y_πik)})", "π bijective", by_definition, bijective),
        ("  = u(ΠU_πi, φ{Π m(U_πi, U_k, y_πik)})", "m equivariant", bijective, of_messages),
        ("  = u(ΠU_πi, Π φ{m(U_πi, U_k, y_πik)})", "φ equivariant", of_messages, of_sets),
        ("  = Π u(U_πi, φ{m(U_πi, U_k, y_πik)})", "u equivariant", of_sets, of_updates),
        ("  = Π f(U,Y,A)[πi]", "definition", of_updates, by_layer),
        ("  = (π⁻¹.f(U,Y,A))[i]", "definition", by_layer, f[pi][:, pi]),
    ]  # fmt: skip
    return tuple(
        Equality(line, reason, float((left - right).abs().max()))
        for line, reason, left, right in lines
    )


def _layer(m: Message, phi: Aggregation, u: Update, contexts: Tensor, y: Tensor, a: Tensor
           ) -> Tensor:  # fmt: skip
    """f(U, Y, A), [n, n, c']."""
    found = []
    for i in range(len(a)):
        senders = torch.nonzero(a[i] > 0).flatten().tolist()
        sent = torch.stack([m(contexts[i], contexts[j], y[i, j]) for j in senders])
        found.append(u(contexts[i], phi(sent)))
    return torch.stack(found)


def example(flaw: str = "") -> FunctionLayer:
    """Networks for sets as message, aggregation and update, with a flaw if you like.

    Args:
        flaw: 'message', 'aggregation', 'order' or 'update': what treats rows by their place, or
            messages by their order; 'unused': the message, which the update then leaves out.
    """
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(6, 3, 3, generator=generator, dtype=torch.float64) / 2

    def place(rows: Tensor) -> Tensor:
        return torch.arange(rows.size(-2), dtype=rows.dtype).unsqueeze(1)

    def m(u_i: Tensor, u_j: Tensor, y: Tensor | None) -> Tensor:
        sent = u_i @ w[0] + u_j @ w[1] + u_j.mean(dim=0) @ w[2]
        sent = sent if y is None else sent + y @ w[3][: len(y)]
        return sent.relu() + (0.1 * place(sent) if flaw in ("message", "unused") else 0.0)

    def phi(sent: Tensor) -> Tensor:
        if flaw == "order":
            return sent[0]
        return sent.sum(dim=0) + (0.1 * place(sent) if flaw == "aggregation" else 0.0)

    def u(own: Tensor, arrived: Tensor) -> Tensor:
        if flaw == "unused":
            return own @ w[4]
        return own @ w[4] + (arrived @ w[5]).tanh() + (0.1 * own[0] if flaw == "update" else 0.0)

    return FunctionLayer(m, phi, u, edge_channels=2)


def run() -> None:
    """Check good and broken layers, print counterexamples, and follow the proof line by line."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        sound: dict[str, SMPLayer] = {
            "Default SMP": DefaultSMPLayer(3, 4, edge_channels=2).double(),
            "Fast SMP": FastSMPLayer(3, 4).double(),
            "networks for sets": example(),
        }
    flaws = {
        "m adds row numbers": "message",
        "φ adds row numbers": "aggregation",
        "φ takes the first message": "order",
        "u adds the first row": "update",
        "m broken, u ignores it": "unused",
    }
    print("Conditions of Theorem 1 on all connected graphs of 2 to 4 nodes; gaps where broken.")
    print(f"{'layer':<26}" + "".join(f"{name:>12}" for name in CONDITIONS))
    shown = []
    for name, layer in {**sound, **{n: example(f) for n, f in flaws.items()}}.items():
        verdict = check_conditions(layer, 3)
        gaps = [verdict.of(condition) for condition in CONDITIONS]
        cells = ("holds" if one is None else f"{one.gap:.1g}" for one in gaps)
        print(f"{name:<26}" + "".join(f"{cell:>12}" for cell in cells))
        broken = {one.condition for one in verdict.broken} - {"layer"}
        flaw = flaws.get(name)
        expected = set() if flaw is None else {"message" if flaw == "unused" else flaw}
        assert broken == expected, f"{name}: {broken} are broken, not {expected}"
        equivariant = verdict.of("layer") is None
        assert equivariant or not verdict.theorem_applies, f"{name} contradicts Theorem 1"
        shown += [one for one in verdict.broken if one.condition == flaw]
    print("The last line: the conditions suffice, they are not necessary.\n")
    print("Smallest counterexamples:")
    for one in shown:
        print(f"  {one}")
    _show_proof()


def _show_proof() -> None:
    edges = torch.tensor([[0, 1, 2, 3, 3, 4], [1, 2, 3, 0, 4, 2]])  # a house
    n, pi = 5, (2, 0, 4, 1, 3)
    a = torch.zeros(n, n, dtype=torch.float64)
    a[edges[0], edges[1]] = a[edges[1], edges[0]] = 1
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, 2, generator=generator, dtype=torch.float64)
    y = torch.randn(n, n, 2, generator=generator, dtype=torch.float64)
    print(f"\nThe proof on the house graph with π = {pi}: largest difference of the two sides,")
    print(f"{'for networks for sets, and with a flaw in m, φ or u':<58}{'reason':<14}"
          f"{'sound':>7}{'m':>7}{'φ':>7}{'u':>7}")  # fmt: skip
    columns = [
        proof(example(flaw), a, x, y, pi) for flaw in ("", "message", "aggregation", "update")
    ]
    for equalities in zip(*columns, strict=True):
        first = equalities[0]
        gaps = "".join(f"{one.gap:>7.0e}" for one in equalities)
        print(f"{first.line:<58}{first.reason:<14}{gaps}")
        assert first.gap < 1e-12, f"the proof fails where {first.line}"
        for one, flaw in zip(equalities[1:], "mφu", strict=True):
            holds = one.gap < 1e-12
            assert holds != one.reason.startswith(flaw), f"a flaw in {flaw} at {one.line}"


PROGRAM = Program(
    "equivariance",
    "Theorem 1: a layer is equivariant if its message, aggregation and update are",
    run,
)
