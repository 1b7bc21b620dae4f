"""MPNN-JT: messages on the graph, on its junction tree, and between both (Fey et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.baselines.carried import CarryingContext, normalize
from smpgnn.baselines.cliques import Cliques, JunctionTrees
from smpgnn.baselines.gated_gcn import follow_one_another
from smpgnn.baselines.gine import GINELayer
from smpgnn.baselines.tree_decomposition import NUM_KINDS
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.errors import InputError
from smpgnn.layers import SMPLayer
from smpgnn.layers.norm import NoNorm, row_norm
from smpgnn.models.smp import MPNN


@dataclass(frozen=True, eq=False)
class CliqueContext(CarryingContext):
    """Atom rows, and the states of the cliques. Shapes: rows [N, C], cliques [T, C]."""

    cliques: Tensor


class JunctionTreeLayer(SMPLayer):
    r"""GINE on the graph, GIN on its junction tree, and messages from one to the other.

    .. math::
        \tilde x_i &= \text{relu}(\text{GINE}(x, y)_i) &
        \tilde t_c &= t_c + \text{relu}(W_t\, \text{mean}_{i \in c}\, \tilde x_i + b_t) \\
        t_c' &= \text{relu}(\text{GIN}(\tilde t)_c) &
        x_i' &= \tilde x_i + \text{relu}(W_x\, \text{mean}_{c \ni i}\, t_c' + b_x)

    The nodes c of the tree are rings and bonds (`tree_decomposition.decompose`), whose initial
    state is an embedding of their kind. Complexity: memory n c (with edge features m c), time
    m c + n c², and the decomposition once per graph.

    Args:
        in_channels: width of the rows.
        out_channels: width of the new rows and of the states of the tree.
        edge_channels: number of edge features; 0: none.
        clique_residual: add the state of a clique to its new state.

    Shapes: rows [N, in_channels] to [N, out_channels]; edge_attr [E, edge_channels].
    """

    capturable = True
    structure = JunctionTrees()

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        edge_channels: int = 0,
        *,
        clique_residual: bool = False,
    ) -> None:
        super().__init__("sum")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.edge_channels, self.clique_residual = edge_channels, clique_residual
        self.clique_encoder: nn.Embedding | None = nn.Embedding(NUM_KINDS, out_channels)
        self.clique_norm: nn.Module = NoNorm()
        self.atom_conv = GINELayer(in_channels, out_channels, edge_channels)
        self.tree_conv = GINELayer(out_channels, out_channels).conv
        self.to_tree = nn.Linear(out_channels, out_channels)
        self.to_atoms = nn.Linear(out_channels, out_channels)

    def follow(self, norm: str | None) -> None:
        """Make this a later layer: it takes the normalised states of the layer before."""
        self.clique_encoder = None
        self.clique_norm = row_norm(norm, self.out_channels)

    def forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> CliqueContext:
        self.check(context, index, edge_attr)
        found = index.topology.find(self.structure)
        trees, before = found.trees.edges, self._before(context, found)
        x = F.relu(self.atom_conv(context, index, edge_attr).rows)
        cliques = normalize(self.clique_norm, before, found.trees.layout)
        cliques = cliques + F.relu(self.to_tree(found.from_atoms(x)))
        total = cliques + trees.sum(trees.from_senders(cliques))
        cliques = F.relu(self.tree_conv.nn(total))
        x = x + F.relu(self.to_atoms(found.to_atoms(cliques)))
        if self.clique_residual:
            cliques = cliques + before
        return CliqueContext(x, context.layout, cliques)

    def _before(self, context: LocalContext, found: Cliques) -> Tensor:
        """The states of the cliques before this layer."""
        if self.clique_encoder is not None:
            states: Tensor = self.clique_encoder(found.kind)
            return states
        if not isinstance(context, CliqueContext):
            raise InputError("context has no states of cliques: this layer must follow another.")
        return context.cliques


class JunctionTreeMPNN(MPNN):
    """MPNN-JT with the extractors and head of `SMP`, whose arguments it takes.

    `norm` and `residual` also apply to the states of the tree. The extractors read the atoms, which
    hear from the tree in every layer; the authors also pool the tree itself. For ZINC, 5 layers
    of width 52 with `extractor_channels=64` and `shared_extractor=True` have about 100,000
    parameters.
    """

    layer_types: ClassVar[dict[str, type[SMPLayer]]] = {"junction-tree": JunctionTreeLayer}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        follow_one_another(self.backbone, "clique_residual")
