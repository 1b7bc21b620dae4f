"""Proposition 2: a Fast SMP with k layers is a PPGN with 2k blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import networkx as nx
import torch
from torch import Tensor, nn

from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError, check_counts
from smpgnn.layers import FastSMPLayer, SetLinear
from smpgnn.layers.norm import NoNorm
from smpgnn.models import SMP
from smpgnn.paper.theory.families import topology
from smpgnn.paper.theory.program import Program

#: Largest difference that counts as none, relative to the largest entry, in float64.
TOLERANCE = 1e-10
#: Channels that every block carries on: A / d_avg, 1 1ᵀ / n and the identity.
CONSTANTS = 3

#: A function of the channels of each pair, [n, n, C] to [n, n, C'].
Pairwise = Callable[[Tensor], Tensor]
Product = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class PPGNBlock:
    r"""A block of PPGN as the appendix defines it.

    .. math:: T' = m_4\bigl(m_3(T) \,\|\, m_1(T) \,@\, m_2(T)\bigr)

    m_k act on the channels of each pair, @ is the matrix product in each channel. (The block of
    `smpgnn.baselines.ppgn` has two-layer perceptrons as m_k, the identity as m_3 and divides the
    product by √n; here the functions are given.)

    Shapes: [n, n, C] to [n, n, C'].
    """

    m1: Pairwise
    m2: Pairwise
    m3: Pairwise
    m4: Pairwise

    def __call__(self, t: Tensor) -> Tensor:
        product = torch.einsum("ikc,kjc->ijc", self.m1(t), self.m2(t))
        return self.m4(torch.cat([self.m3(t), product], dim=2))


@dataclass(frozen=True)
class ReluProduct:
    r"""The product of two numbers by a perceptron with one hidden layer of relus.

    .. math:: x y = \tfrac14\bigl(q(x + y) - q(x - y)\bigr), \qquad
              q(s) = \sum_k a_k\, \text{relu}(s - t_k) + b

    where q interpolates s² between equally spaced knots on [−bound, bound], so that the error is
    at most h²/8 with h the distance of two knots, as long as |x| + |y| ≤ bound.

    Args:
        hidden: number of relus, at least 2, for each of the two squares.
        bound: largest |x| + |y| there is.
    """

    hidden: int
    bound: float

    def __post_init__(self) -> None:
        check_counts(hidden=self.hidden, at_least=2)

    def __call__(self, x: Tensor, y: Tensor) -> Tensor:
        return (self._square(x + y) - self._square(x - y)) / 4

    def _square(self, s: Tensor) -> Tensor:
        step = 2 * self.bound / self.hidden
        knots = torch.arange(self.hidden, dtype=s.dtype) * step - self.bound
        slope = torch.full_like(knots, 2 * step)  # each knot bends the line by the same amount
        slope[0] = step - 2 * self.bound
        out = torch.full_like(s, self.bound**2)
        for knot, bend in zip(knots.tolist(), slope.tolist(), strict=True):
            out = out + bend * (s - knot).relu()
        return out


def multiply(x: Tensor, y: Tensor) -> Tensor:
    """The entry-wise product, which the appendix lets a network compute."""
    return x * y


def ppgn_blocks(network: SMP, product: Product = multiply) -> list[PPGNBlock]:
    """Two blocks for every layer of a Fast SMP, from its weights and nothing else.

    The blocks do not know the graph: what depends on it is in the channels of `ppgn_input`.

    Args:
        network: a Fast SMP without norms and without residuals around its layers.
        product: how entries are multiplied; exactly where not given.
    """
    backbone = network.backbone
    if backbone.options.residual or not all(isinstance(norm, NoNorm) for norm in backbone.norms):
        raise InputError("network must have norm=None and residual=False: the proof has neither.")
    blocks = []
    for layer in backbone.layers:
        if not (isinstance(layer, FastSMPLayer) and isinstance(layer.set_map, SetLinear)):
            raise InputError(f"network has a {type(layer).__name__}: take layer='fast'.")
        blocks += [_set_block(layer.set_map, product), _message_block(layer, product)]
    return blocks


def ppgn_input(graph: nx.Graph, x: Tensor | None = None) -> Tensor:
    r"""The input T⁽⁰⁾ = [U⁽⁰⁾, A / d_avg, 1 1ᵀ / n, I], with T[i, j, :] = U_i[j, :].

    The appendix asks for channels A, 1 1ᵀ and I, and divides by d_avg and n in the functions m_1;
    these are of the graph and not of the network, so they are divided here.

    Shapes: x [n, F] to [n, n, 1 + F + 3].
    """
    batch = topology([graph])
    n = batch.num_nodes
    adjacency = torch.zeros(n, n, dtype=torch.float64)
    adjacency[batch.receiver, batch.sender] = 1.0
    initial = ContextIndex.build(batch, "onehot", 1).initial(x, torch.float64)
    constants = torch.stack(
        [
            adjacency * float(batch.inverse_average_degree[0]),
            torch.full((n, n), 1 / n, dtype=torch.float64),
            torch.eye(n, dtype=torch.float64),
        ],
        dim=2,
    )
    return torch.cat([initial.rows.view(n, n, -1), constants], dim=2)


def _set_block(layer: SetLinear, product: Product) -> PPGNBlock:
    r"""The set map: Û = U W1 + 1 cᵀ + M W2 + I ⊙ (M W3), with M = U @ (1 1ᵀ / n), the row means."""
    w1, w2, w3 = layer.w1.matrix(), layer.w2.matrix(), layer.w3.matrix()
    bias = layer.w2.bias
    assert bias is not None
    width = w1.size(1)

    def m2(t: Tensor) -> Tensor:
        return _mean_matrix(t).expand_as(_context(t))

    def m3(t: Tensor) -> Tensor:
        return torch.cat([_context(t) @ w1 + bias, _constants(t)], dim=2)

    def m4(both: Tensor) -> Tensor:
        kept, mean = both[..., : width + CONSTANTS], both[..., width + CONSTANTS :]
        own = product(_identity(kept).expand_as(kept[..., :width]), mean @ w3)
        return torch.cat([_context(kept) + mean @ w2 + own, _constants(kept)], dim=2)

    return PPGNBlock(_context, m2, m3, m4)


def _message_block(layer: FastSMPLayer, product: Product) -> PPGNBlock:
    r"""The messages: U' = Û + S + (Û W4) ⊙ (S W5), with S = (A / d_avg) @ Û.

    The appendix leaves out the first Û, the residual connection of section 4; m_3 carries it here.
    """
    w4, w5 = layer.w4.matrix(), layer.w5.matrix()
    width = layer.out_channels

    def m1(t: Tensor) -> Tensor:
        return _adjacency(t).expand_as(_context(t))

    def m4(both: Tensor) -> Tensor:
        kept, arrived = both[..., : width + CONSTANTS], both[..., width + CONSTANTS :]
        u = _context(kept)
        new = u + arrived + product(u @ w4, arrived @ w5)
        return torch.cat([new, _constants(kept)], dim=2)

    return PPGNBlock(m1, _context, lambda t: t, m4)


def _context(t: Tensor) -> Tensor:
    return t[..., :-CONSTANTS]


def _constants(t: Tensor) -> Tensor:
    return t[..., -CONSTANTS:]


def _adjacency(t: Tensor) -> Tensor:
    return t[..., -3:-2]


def _mean_matrix(t: Tensor) -> Tensor:
    return t[..., -2:-1]


def _identity(t: Tensor) -> Tensor:
    return t[..., -1:]


@dataclass(frozen=True)
class Equality:
    """A Fast SMP and its PPGN on one graph; gaps are relative to the largest entry."""

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
    """The same with products by perceptrons of this many relus."""

    hidden: int
    gap: float


@dataclass(frozen=True)
class Record:
    """What the program found."""

    tolerance: float
    equalities: list[Equality]
    approximations: list[Approximation]


def smp_contexts(network: SMP, graph: nx.Graph, x: Tensor | None = None) -> list[Tensor]:
    """The contexts of a network before the first and after every layer, each [n, n, C]."""
    index = network.backbone.index(topology([graph]))
    n = graph.number_of_nodes()
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


def relative_gap(first: list[Tensor], second: list[Tensor]) -> float:
    """The largest difference of two lists of contexts, relative to the largest entry of each."""
    gaps = [
        float((a - b).abs().max() / a.abs().max().clamp(min=1e-300))
        for a, b in zip(first, second, strict=True)
    ]
    return max(gaps)


def as_printed(blocks: list[PPGNBlock]) -> list[PPGNBlock]:
    """The set blocks with their factors in the order of the appendix, (1 1ᵀ / n) @ U."""
    return [
        block if number % 2 else PPGNBlock(block.m2, block.m1, block.m3, block.m4)
        for number, block in enumerate(blocks)
    ]


def without_residual(blocks: list[PPGNBlock]) -> list[PPGNBlock]:
    """The message blocks without Û, as the appendix has them."""

    def less(block: PPGNBlock) -> PPGNBlock:
        def m4(both: Tensor) -> Tensor:
            new = block.m4(both)
            width = new.size(2) - CONSTANTS
            return torch.cat([_context(new) - both[..., :width], _constants(new)], dim=2)

        return PPGNBlock(block.m1, block.m2, block.m3, m4)

    return [less(block) if number % 2 else block for number, block in enumerate(blocks)]


def with_own_term(blocks: list[PPGNBlock], network: SMP) -> list[PPGNBlock]:
    """The set blocks with (I ⊙ U) W3 in m_3, a term of the appendix that Û does not have."""

    def more(block: PPGNBlock, layer: nn.Module) -> PPGNBlock:
        assert isinstance(layer, FastSMPLayer)
        assert isinstance(layer.set_map, SetLinear)
        w3 = layer.set_map.w3.matrix()

        def m3(t: Tensor) -> Tensor:
            new = block.m3(t)
            own = (_identity(t) * _context(t)) @ w3
            return torch.cat([_context(new) + own, _constants(new)], dim=2)

        return PPGNBlock(block.m1, block.m2, m3, block.m4)

    layers = network.backbone.layers
    return [
        block if number % 2 else more(block, layers[number // 2])
        for number, block in enumerate(blocks)
    ]


def fast_smp(layers: int = 4, width: int = 8) -> SMP:
    """A Fast SMP with random weights, in float64."""
    torch.manual_seed(0)
    return SMP(0, 1, width, layers, layer="fast").double().eval()


def equality(name: str, graph: nx.Graph, network: SMP) -> Equality:
    """Compare a Fast SMP with its blocks, and with what the appendix prints."""
    blocks, t = ppgn_blocks(network), ppgn_input(graph)
    expected = smp_contexts(network, graph)
    return Equality(
        name,
        graph.number_of_nodes(),
        network.options.num_layers,
        len(blocks),
        relative_gap(expected, ppgn_contexts(blocks, t)),
        relative_gap(expected, ppgn_contexts(without_residual(blocks), t)),
        relative_gap(expected, ppgn_contexts(as_printed(blocks), t)),
        relative_gap(expected, ppgn_contexts(with_own_term(blocks, network), t)),
    )


def approximation(graph: nx.Graph, network: SMP, hidden: int, bound: float) -> Approximation:
    """Compare a Fast SMP with blocks that multiply by perceptrons."""
    blocks = ppgn_blocks(network, ReluProduct(hidden, bound))
    found = ppgn_contexts(blocks, ppgn_input(graph))
    return Approximation(hidden, relative_gap(smp_contexts(network, graph), found))


def largest_factors(graph: nx.Graph, network: SMP) -> float:
    """The largest |x| + |y| of all products x y that the blocks of a Fast SMP compute."""
    seen: list[float] = []

    def noting(x: Tensor, y: Tensor) -> Tensor:
        seen.append(float((x.abs() + y.abs()).max()))
        return x * y

    ppgn_contexts(ppgn_blocks(network, noting), ppgn_input(graph))
    return max(seen)


def measure() -> Record:
    """Equality on several graphs, and the way to it with perceptrons only."""
    network = fast_smp()
    graphs = {
        "Petersen graph": nx.petersen_graph(),
        "grid 4×5": nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5)),
        "random tree": nx.random_labeled_tree(16, seed=0),
        "scale-free graph": nx.barabasi_albert_graph(18, 2, seed=0),
        "two parts": nx.disjoint_union(nx.cycle_graph(5), nx.star_graph(4)),
    }
    equalities = [equality(name, graph, network) for name, graph in graphs.items()]
    for case in equalities:
        assert case.blocks == 2 * case.layers, case
        assert case.gap <= TOLERANCE, case
    graph = graphs["grid 4×5"]
    bound = 2 * largest_factors(graph, network)  # approximate factors may be somewhat larger
    approximations = [
        approximation(graph, network, hidden, bound) for hidden in (16, 64, 256, 1024, 4096)
    ]
    gaps = [case.gap for case in approximations]
    assert gaps == sorted(gaps, reverse=True), gaps
    return Record(TOLERANCE, equalities, approximations)


def run() -> None:
    record = measure()
    print("A Fast SMP and the PPGN made of its weights, differences relative to the largest entry:")
    for case in record.equalities:
        print(
            f"  {case.graph} ({case.nodes} nodes): {case.layers} layers, {case.blocks} blocks, "
            f"differ by {case.gap:.1e}; without the residual by {case.without_residual:.1e}, with "
            f"the factors of the set block as printed by {case.factors_as_printed:.1e}, with the "
            f"printed own term by {case.with_own_term:.1e}"
        )
    print("With perceptrons of so many relus in place of the entry-wise product (grid 4×5):")
    for step in record.approximations:
        print(f"  {step.hidden:>5}: differ by {step.gap:.1e}")


PROGRAM = Program(
    name="ppgn",
    claim="Proposition 2: a Fast SMP with k layers is a PPGN with 2k blocks",
    run=run,
)
