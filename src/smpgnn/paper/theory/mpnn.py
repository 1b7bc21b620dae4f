"""Proposition 1: SMP simulates every MPNN layer by layer, and distinguishes what no MPNN can."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass

import networkx as nx
import torch
from torch import Tensor, nn

from smpgnn.baselines.gin import GIN, GINLayer
from smpgnn.baselines.gine import GINELayer
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError
from smpgnn.layers import SMPLayer
from smpgnn.models import MPNN
from smpgnn.paper.theory.graphs import topology
from smpgnn.paper.theory.ladder import color_refinement
from smpgnn.paper.theory.refinement import classes
from smpgnn.paper.theory.tables import Table, power, print_table

#: The largest difference, in float64, that counts as none.
TOLERANCE = 1e-10


class DiagonalLayer(SMPLayer):
    r"""A layer of an MPNN on the diagonal of the contexts (proof of Proposition 1).

    .. math::
        U_i' = \text{diag}\Bigl(\tilde u\bigl(1 1^\top U_i,\
               \tilde\phi(\{\tilde m(1 1^\top U_i, 1 1^\top U_j, y_{ij})\}_{j \in N_i})\bigr)\Bigr)

    where m̃, φ̃, ũ apply the functions of the given layer to each row, and diag keeps own rows only.
    If U_i holds x_i in its own row and zero elsewhere, 1 1ᵀ U_i holds x_i in every row, so the own
    row becomes what the layer makes of x_i. (The appendix gives ũ the context U_i itself. In the
    own row, the only one that diag keeps, both are x_i.)

    Args:
        layer: any layer whose functions treat each row separately, as one on node features does.

    Shapes: rows [P, in_channels] to [P, out_channels].
    """

    def __init__(self, layer: SMPLayer) -> None:
        super().__init__(layer.aggregation)
        self.layer = layer
        self.edge_channels = layer.edge_channels

    def prepare(self, context: LocalContext, index: ContextIndex) -> LocalContext:
        everywhere = context.with_rows(context.expand(context.sum()))
        return self.layer.prepare(everywhere, index)

    def message(self, u_i: LocalContext, u_j: LocalContext, y_ij: Tensor | None) -> LocalContext:
        return self.layer.message(u_i, u_j, y_ij)

    def aggregate(self, messages: LocalContext, index: ContextIndex) -> LocalContext:
        return self.layer.aggregate(messages, index)

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        return diagonal(self.layer.update(context, messages, index))


class GINRows(SMPLayer):
    r"""The convolution of GIN as message and update, with the weights of a layer of the library.

    .. math:: x_i' = \text{MLP}\Bigl((1 + ε)\, x_i + \sum_{j \in N_i} x_j\Bigr)

    Shapes: rows [P, in_channels] to [P, out_channels].
    """

    def __init__(self, layer: GINLayer | GINELayer) -> None:
        super().__init__("sum")
        if layer.edge_channels:
            raise InputError("layer has edge features: this is the convolution without them.")
        self.mlp: nn.Module = layer.conv.nn
        self.eps = float(layer.conv.eps)

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        return context.with_rows(self.mlp((1 + self.eps) * context.rows + messages.rows))


def diagonal(context: LocalContext) -> LocalContext:
    """diag(U_i)[j, :] = δ_ij U_i[j, :]: own rows as they are, zero elsewhere."""
    zeros = torch.zeros_like(context.rows)
    return context.with_rows(zeros.index_copy(0, context.layout.own, context.own()))


def simulate(network: MPNN) -> MPNN:
    """An SMP with the weights of an MPNN, as many layers, and the same outputs.

    The layers become `DiagonalLayer`s on one-hot contexts. Extractors and head stay, since those of
    an MPNN read own rows only. Use it in eval mode: in training, batch norm would count the zero
    rows too.
    """
    smp = deepcopy(network)
    smp.backbone.identifiers = "onehot"
    smp.backbone.layers = nn.ModuleList(
        DiagonalLayer(_row_by_row(layer)) for layer in smp.backbone.layers
    )
    for norm in smp.backbone.norms:  # a norm of zero need not be zero
        norm.register_forward_hook(lambda norm, arguments, context: diagonal(context))
    return smp


def _row_by_row(layer: nn.Module) -> SMPLayer:
    if isinstance(layer, GINLayer | GINELayer):
        return GINRows(layer)
    if isinstance(layer, SMPLayer):
        kind = type(layer)
        has_parts = kind.message is not SMPLayer.message or kind.update is not SMPLayer.update
        if has_parts or kind.forward is SMPLayer.forward:
            return layer
    raise InputError(
        f"network has layers of type {type(layer).__name__}, which have no message and update of "
        "their own: take MPNN or GIN."
    )


@dataclass(frozen=True)
class Simulation:
    """The largest differences between an MPNN and its simulation, over all layers."""

    network: str
    graphs: int
    layers: int
    own_gap: float
    elsewhere: float
    output_gap: float


def compare(
    name: str, network: MPNN, graphs: list[nx.Graph], x: Tensor | None, edge_attr: Tensor | None
) -> Simulation:
    """Run an MPNN and its simulation on the same graphs."""
    network = network.double().eval()
    smp = simulate(network)
    batch = topology(graphs)
    own_gap = elsewhere = 0.0
    with torch.no_grad():
        before = network.backbone(x, edge_attr, network.backbone.index(batch))
        after = smp.backbone(x, edge_attr, smp.backbone.index(batch))
        for features, context in zip(before, after, strict=True):
            own_gap = max(own_gap, _largest(context.own() - features.rows))
            elsewhere = max(elsewhere, _largest(context.rows - diagonal(context).rows))
        first, second = (net(x, batch.edge_index, edge_attr, batch.batch) for net in (network, smp))
    layers = network.options.num_layers
    return Simulation(name, len(graphs), layers, own_gap, elsewhere, _largest(first - second))


@dataclass(frozen=True)
class Separation:
    """Two regular graphs: tr(A³) by three SMP layers, and what MPNNs make of them."""

    first: str
    second: str
    nodes: int
    degree: int
    first_trace: int
    second_trace: int
    refinement_differs: bool
    mpnn_gap: float


def trace_of_cube(graph: nx.Graph) -> float:
    r"""tr(A³) as an SMP: three layers :math:`U_i' = \sum_{j \in N_i} U_j`, then the trace."""
    index = ContextIndex.build(topology([graph]), "onehot", 3)
    layer = SMPLayer("sum")  # message: the neighbour's context; update: the sum
    context = index.initial(None, torch.float64)
    for _ in range(3):
        context = layer(context, index)
    return float(context.own().sum())


def separate(first: nx.Graph, second: nx.Graph, names: tuple[str, str]) -> Separation:
    """Both graphs through the SMP, through colour refinement, and through five random MPNNs."""
    batch = topology([first, second])
    gaps = []
    for seed in range(5):
        torch.manual_seed(seed)
        mpnn = MPNN(0, 8, 16, 4).double().eval()
        with torch.no_grad():
            out = mpnn(None, batch.edge_index, batch=batch.batch)
        gaps.append(_largest(out[0] - out[1]))
    kinds = classes([first, second], color_refinement)
    return Separation(
        *names,
        len(first),
        first.degree[0],
        round(trace_of_cube(first)),
        round(trace_of_cube(second)),
        kinds[0] != kinds[1],
        max(gaps),
    )


def simulations() -> list[Simulation]:
    """MPNNs of the library with random weights, with and without features, norms and residuals."""
    graphs = [
        nx.petersen_graph(),
        nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 4)),
        nx.barabasi_albert_graph(12, 2, seed=0),
        nx.star_graph(5),
    ]
    batch = topology(graphs)
    torch.manual_seed(0)
    x = torch.randn(batch.num_nodes, 3, dtype=torch.float64)
    y = torch.randn(batch.num_edges, 2, dtype=torch.float64)
    cases = (
        ("MPNN, default layers, edge features", MPNN(3, 4, 16, 4, edge_channels=2), y),
        ("MPNN, default layers, layer norm, residual", MPNN(3, 4, 16, 4, norm="layer",
                                                            residual=True), None),
        ("Fast MPNN", MPNN(3, 4, 16, 4, layer="fast"), None),
        ("GIN", GIN(3, 4, 16, 4), None),
    )  # fmt: skip
    return [compare(name, network, graphs, x, edges) for name, network, edges in cases]


def separations() -> list[Separation]:
    """Two triangles and the ring of six; the prism and K₃,₃."""
    triangles = nx.disjoint_union(nx.cycle_graph(3), nx.cycle_graph(3))
    prism, k33 = nx.circular_ladder_graph(3), nx.complete_bipartite_graph(3, 3)
    return [
        separate(triangles, nx.cycle_graph(6), ("two triangles", "ring of six")),
        separate(prism, k33, ("prism", "K₃,₃")),
    ]


@dataclass(frozen=True)
class Record:
    """What `measure` finds."""

    tolerance: float
    simulations: list[Simulation]
    separations: list[Separation]


def measure() -> Record:
    """Both halves of the proposition on given graphs; raises `AssertionError` if one fails."""
    record = Record(TOLERANCE, simulations(), separations())
    for case in record.simulations:
        assert max(case.own_gap, case.output_gap) <= TOLERANCE, case
        assert case.elsewhere == 0, case
    for pair in record.separations:
        assert pair.first_trace != pair.second_trace, pair
        assert not pair.refinement_differs, pair
        assert pair.mpnn_gap <= TOLERANCE, pair
    return record


def simulation_table(cases: Sequence[Simulation]) -> Table:
    head = ["network", "layers", "graphs", "own rows differ by", "other rows", "outputs differ by"]
    rows = [
        [case.network, case.layers, case.graphs]
        + [power(value) for value in (case.own_gap, case.elsewhere, case.output_gap)]
        for case in cases
    ]
    return [head, *rows]


def separation_table(pairs: Sequence[Separation]) -> Table:
    head = ["graphs", "nodes", "degree", "tr(A³)", "1-WL", "five random MPNNs differ by"]
    rows = [
        [
            f"{pair.first}, {pair.second}",
            pair.nodes,
            pair.degree,
            f"{pair.first_trace}, {pair.second_trace}",
            "different" if pair.refinement_differs else "equal",
            power(pair.mpnn_gap),
        ]
        for pair in pairs
    ]
    return [head, *rows]


def run() -> None:
    record = measure()
    print("MPNNs and their simulations on the diagonal of the contexts, with as many layers:")
    print_table(simulation_table(record.simulations))
    print("\nRegular graphs, tr(A³) by three SMP layers (6 times the number of triangles):")
    print_table(separation_table(record.separations))


def _largest(values: Tensor) -> float:
    return float(values.abs().max()) if values.numel() else 0.0
