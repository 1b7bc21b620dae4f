"""Proposition 2: a Fast SMP with k layers is a PPGN with 2k blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import networkx as nx
import torch
from torch import Tensor

from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError, check_counts
from smpgnn.layers import FastSMPLayer, SetLinear
from smpgnn.layers.norm import NoNorm
from smpgnn.models import SMP
from smpgnn.paper.theory.graphs import topology
from smpgnn.paper.theory.tables import Table, power, print_table

#: The largest difference that counts as none, relative to the largest entry, in float64.
TOLERANCE = 1e-10
#: Every block carries three constants in its last channels: A / d_avg, 1 1ᵀ / n and I.
CONSTANTS = 3
ADJACENCY, AVERAGE, IDENTITY = slice(-3, -2), slice(-2, -1), slice(-1, None)
#: Formulas that `ppgn_blocks` takes on request as the appendix prints them.
PRINTED = ("without_residual", "factors_as_printed", "with_own_term")

#: A function of the channels of each pair, [n, n, C] to [n, n, C'].
Pairwise = Callable[[Tensor], Tensor]
Product = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class PPGNBlock:
    r"""A block of PPGN as the appendix defines it.

    .. math:: T' = m_4\bigl(m_3(T) \,\|\, m_1(T) \,@\, m_2(T)\bigr)

    The m_k act on the channels of each pair, @ is a matmul in each channel. (The block of
    `smpgnn.baselines.ppgn` has two-layer MLPs as m_k, the identity as m_3, and divides the matmul
    by √n; here the functions are given.)

    Shapes: [n, n, C] to [n, n, C'].
    """

    m1: Pairwise
    m2: Pairwise
    m3: Pairwise
    m4: Pairwise

    def __call__(self, t: Tensor) -> Tensor:
        matmul = torch.einsum("ikc,kjc->ijc", self.m1(t), self.m2(t))
        return self.m4(torch.cat([self.m3(t), matmul], dim=2))


def relu_product(hidden: int, bound: float) -> Product:
    r"""The product of two numbers by an MLP with one hidden layer of ReLUs.

    .. math:: x y = \tfrac14\bigl(q(x + y) - q(x - y)\bigr), \qquad
              q(s) = \sum_k a_k\, \text{relu}(s - t_k) + b

    where q interpolates s² between equally spaced knots on [−bound, bound]. With h the distance of
    two knots, q differs from s² by at most h²/8 as long as |x| + |y| ≤ bound.

    Args:
        hidden: number of ReLUs for each of the two squares, at least 2.
        bound: the largest |x| + |y|.
    """
    check_counts(hidden=hidden, at_least=2)
    step = 2 * bound / hidden
    knots = torch.arange(hidden, dtype=torch.float64) * step - bound
    slope = torch.full_like(knots, 2 * step)  # the slope grows by the same amount at each knot
    slope[0] = step - 2 * bound

    def square(s: Tensor) -> Tensor:
        out = torch.full_like(s, bound**2)
        for knot, bend in zip(knots.tolist(), slope.tolist(), strict=True):
            out = out + bend * (s - knot).relu()
        return out

    return lambda x, y: (square(x + y) - square(x - y)) / 4


def ppgn_blocks(
    network: SMP, product: Product = torch.mul, printed: str | None = None
) -> list[PPGNBlock]:
    """Two blocks for every layer of a Fast SMP, from its weights alone.

    The blocks do not know the graph: what depends on it is in the channels of `ppgn_input`.

    Args:
        network: a Fast SMP without norms and without residuals around its layers.
        product: multiplies entries, by default exactly.
        printed: one of `PRINTED`, or None for the corrected formulas.
    """
    backbone = network.backbone
    if backbone.options.residual or not all(isinstance(norm, NoNorm) for norm in backbone.norms):
        raise InputError("network must have norm=None and residual=False: the proof has neither.")
    blocks = []
    for layer in backbone.layers:
        if not (isinstance(layer, FastSMPLayer) and isinstance(layer.set_map, SetLinear)):
            raise InputError(f"network has a {type(layer).__name__}: take layer='fast'.")
        blocks += [
            _set_block(layer.set_map, product, printed),
            _message_block(layer, product, printed),
        ]
    return blocks


def ppgn_input(graph: nx.Graph, x: Tensor | None = None) -> Tensor:
    r"""The input T⁽⁰⁾ = [U⁽⁰⁾, A / d_avg, 1 1ᵀ / n, I], with T[i, j, :] = U_i[j, :].

    The appendix has channels A, 1 1ᵀ and I, and divides by d_avg and n in m_1. These two belong to
    the graph and not to the network, so the channels are divided here.

    Shapes: x [n, F] to [n, n, 1 + F + 3].
    """
    batch = topology([graph])
    n = batch.num_nodes
    adjacency = torch.zeros(n, n, dtype=torch.float64)
    adjacency[batch.receiver, batch.sender] = float(batch.inverse_average_degree[0])
    average = torch.full((n, n), 1 / n, dtype=torch.float64)
    identity = torch.eye(n, dtype=torch.float64)
    initial = ContextIndex.build(batch, "onehot", 1).initial(x, torch.float64).rows.view(n, n, -1)
    return torch.cat([initial, torch.stack([adjacency, average, identity], dim=2)], dim=2)


def _set_block(layer: SetLinear, product: Product, printed: str | None) -> PPGNBlock:
    r"""The set map: Û = U W1 + 1 cᵀ + M W2 + I ⊙ (M W3), with M = U @ (1 1ᵀ / n), the row means."""
    w1, w2, w3 = layer.w1.matrix(), layer.w2.matrix(), layer.w3.matrix()
    bias = layer.w2.bias
    assert bias is not None
    kept_width = w1.size(1) + CONSTANTS

    def average(t: Tensor) -> Tensor:
        return t[..., AVERAGE].expand_as(_context(t))

    def m3(t: Tensor) -> Tensor:
        u = _context(t) @ w1 + bias
        if printed == "with_own_term":
            u = u + (t[..., IDENTITY] * _context(t)) @ w3
        return _with_constants(u, t)

    def m4(both: Tensor) -> Tensor:
        kept, mean = both[..., :kept_width], both[..., kept_width:]
        own = product(kept[..., IDENTITY], mean @ w3)
        return _with_constants(_context(kept) + mean @ w2 + own, kept)

    if printed == "factors_as_printed":
        return PPGNBlock(average, _context, m3, m4)
    return PPGNBlock(_context, average, m3, m4)


def _message_block(layer: FastSMPLayer, product: Product, printed: str | None) -> PPGNBlock:
    r"""The messages: U' = Û + S + (Û W4) ⊙ (S W5), with S = (A / d_avg) @ Û.

    The appendix leaves out the first Û, the residual connection of section 4. Here m_3 carries it.
    """
    w4, w5 = layer.w4.matrix(), layer.w5.matrix()
    kept_width = layer.out_channels + CONSTANTS

    def adjacency(t: Tensor) -> Tensor:
        return t[..., ADJACENCY].expand_as(_context(t))

    def m4(both: Tensor) -> Tensor:
        kept, arrived = both[..., :kept_width], both[..., kept_width:]
        u = _context(kept)
        new = arrived + product(u @ w4, arrived @ w5)
        return _with_constants(new if printed == "without_residual" else u + new, kept)

    return PPGNBlock(adjacency, _context, lambda t: t, m4)


def _context(t: Tensor) -> Tensor:
    return t[..., :-CONSTANTS]


def _with_constants(context: Tensor, t: Tensor) -> Tensor:
    return torch.cat([context, t[..., -CONSTANTS:]], dim=2)


@dataclass(frozen=True)
class Equality:
    """A Fast SMP and its PPGN on one graph; differences are relative to the largest entry."""

    graph: str
    nodes: int
    layers: int
    blocks: int
    gap: float
    without_residual: float
    factors_as_printed: float
    with_own_term: float


@dataclass(frozen=True)
class Approximation:
    """The same, with products by MLPs of this many ReLUs."""

    hidden: int
    gap: float


@dataclass(frozen=True)
class Record:
    """What `measure` finds."""

    tolerance: float
    equalities: list[Equality]
    approximations: list[Approximation]


def smp_contexts(network: SMP, graph: nx.Graph, x: Tensor | None = None) -> list[Tensor]:
    """The contexts of a network before the first and after every layer, each [n, n, C]."""
    index = network.backbone.index(topology([graph]))
    n = len(graph)
    with torch.no_grad():
        return [context.rows.view(n, n, -1) for context in network.backbone(x, None, index)]


def ppgn_contexts(blocks: list[PPGNBlock], t: Tensor) -> list[Tensor]:
    """The channels of the contexts before the first and after every second block."""
    found = [_context(t)]
    with torch.no_grad():
        for number, block in enumerate(blocks):
            t = block(t)
            if number % 2:
                found.append(_context(t))
    return found


def fast_smp(layers: int = 4, width: int = 8) -> SMP:
    """A Fast SMP with random weights, in float64."""
    torch.manual_seed(0)
    return SMP(0, 1, width, layers, layer="fast").double().eval()


def compare(
    network: SMP,
    graph: nx.Graph,
    product: Product = torch.mul,
    printed: str | None = None,
    x: Tensor | None = None,
) -> float:
    """The largest difference of a Fast SMP and its blocks, relative to the largest entry.

    The arguments are those of `ppgn_blocks` and `ppgn_input`.
    """
    found = ppgn_contexts(ppgn_blocks(network, product, printed), ppgn_input(graph, x))
    return max(
        float((a - b).abs().max() / a.abs().max().clamp(min=1e-300))
        for a, b in zip(smp_contexts(network, graph, x), found, strict=True)
    )


def largest_factors(graph: nx.Graph, network: SMP) -> float:
    """The largest |x| + |y| of all products x y that the blocks of a Fast SMP compute."""
    seen: list[float] = []

    def noting(x: Tensor, y: Tensor) -> Tensor:
        seen.append(float((x.abs() + y.abs()).max()))
        return x * y

    ppgn_contexts(ppgn_blocks(network, noting), ppgn_input(graph))
    return max(seen)


def measure(hidden: Sequence[int] = (16, 64, 256, 1024, 4096)) -> Record:
    """Equality on several graphs, and how MLPs approach it; raises `AssertionError` if it fails.

    Args:
        hidden: numbers of ReLUs in the MLPs, increasing.
    """
    network = fast_smp()
    graphs = {
        "Petersen graph": nx.petersen_graph(),
        "grid 4×5": nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5)),
        "random tree": nx.random_labeled_tree(16, seed=0),
        "scale-free graph": nx.barabasi_albert_graph(18, 2, seed=0),
        "two parts": nx.disjoint_union(nx.cycle_graph(5), nx.star_graph(4)),
    }
    layers, blocks = network.options.num_layers, len(ppgn_blocks(network))
    equalities = []
    for name, graph in graphs.items():
        gap = compare(network, graph)
        variants = {printed: compare(network, graph, printed=printed) for printed in PRINTED}
        case = Equality(name, len(graph), layers, blocks, gap, **variants)
        assert case.blocks == 2 * case.layers, case
        assert case.gap <= TOLERANCE, case
        equalities.append(case)
    grid = graphs["grid 4×5"]
    bound = 2 * largest_factors(grid, network)  # approximate factors may be slightly larger
    approximations = [
        Approximation(number, compare(network, grid, relu_product(number, bound)))
        for number in hidden
    ]
    gaps = [case.gap for case in approximations]
    assert gaps == sorted(gaps, reverse=True), gaps
    return Record(TOLERANCE, equalities, approximations)


def equality_table(cases: Sequence[Equality]) -> Table:
    head = ["graph", "nodes", "layers", "blocks", "differ by", "(1) no residual",
            "(2) printed factors", "(3) own term"]  # fmt: skip
    rows = []
    for case in cases:
        variants = [getattr(case, name) for name in PRINTED]
        shown = ["0" if gap <= TOLERANCE else f"{gap:.2f}" for gap in variants]
        rows.append([case.graph, case.nodes, case.layers, case.blocks, power(case.gap), *shown])
    return [head, *rows]


def approximation_table(steps: Sequence[Approximation]) -> Table:
    return [
        ["ReLUs per square", *(step.hidden for step in steps)],
        ["differ by", *(power(step.gap) for step in steps)],
    ]


def run(hidden: Sequence[int] = (16, 64, 256, 1024, 4096)) -> None:
    record = measure(hidden)
    print(
        "A Fast SMP and the PPGN with its weights, and with formulas as the appendix prints them;"
    )
    print("differences are relative to the largest entry.")
    print_table(equality_table(record.equalities))
    print("\nWith MLPs in place of the entry-wise product (grid 4×5):")
    print_table(approximation_table(record.approximations))
