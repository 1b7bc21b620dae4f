"""The default layer with more terms: the family on the same rows (docs/concepts/family.md)."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn.config.network import LayerOptions
from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.links import Links
from smpgnn.contexts.rows import IdentifierRows
from smpgnn.errors import InputError
from smpgnn.layers.default import DefaultSMPLayer, LayerWeights
from smpgnn.layers.linear import TowerLinear
from smpgnn.ops import relu_neighbor_sum, row_products

#: The links that each term needs.
_LINKS = {
    "inside": ("inside",),
    "folklore": ("arcs",),
    "mirror": ("mirror", "diagonal"),
    "product": ("triples",),
    "block-product": ("block_triples",),
}


class FamilySMPLayer(DefaultSMPLayer):
    r"""The default layer, whose rows receive more than the messages of SMP (not in the paper).

    'folklore' adds :math:`\hat U_i[k] W_f` to the terms of the message from k to i, inside its
    relu, and :math:`\hat U_k[j] W_g` to those of 'inside'. The other terms are added to the new
    contexts: see `Inside`, `Mirror` and `Product`. All other options are those of
    `DefaultSMPLayer`.

    Args: those of `SetMapLayer`. The contexts must be one-hot or local.

    Shapes: rows [P, in_channels] to [P, out_channels]; edge_attr [E, edge_channels].
    """

    option_names: ClassVar[tuple[str, ...]] = (*DefaultSMPLayer.option_names, "terms")

    def add_maps(self, options: LayerOptions) -> None:
        super().add_maps(options)
        terms, width, towers = options.terms, self.out_channels, options.towers
        if options.divide_update:
            raise InputError("terms and divide_update cannot be combined: leave one of them out.")
        folklore = "folklore" in terms
        self.message_arc = TowerLinear(width, width, towers, bias=False) if folklore else None
        parts: dict[str, nn.Module] = {}
        if "inside" in terms:
            parts["inside"] = Inside(width, self.edge_channels, towers, folklore)
        if "mirror" in terms:
            parts["mirror"] = Mirror(width, towers)
        for name in ("product", "block-product"):
            if name in terms:
                parts[name] = Product(width, towers, blocks=name == "block-product")
        self.parts = nn.ModuleDict(parts)
        self.links = tuple(link for term in terms for link in _LINKS[term])
        if folklore and "inside" in terms:
            self.links += ("back_arcs",)

    def reset_parameters(self) -> None:
        for module in [*self.children(), *self.parts.values()]:
            if not isinstance(module, nn.ModuleDict):
                module.reset_parameters()  # type: ignore[operator]

    def forward(
        self,
        context: LocalContext,
        index: ContextIndex,
        edge_attr: Tensor | None = None,
        norm: nn.Module | None = None,
        weights: LayerWeights | None = None,
    ) -> LocalContext:
        """The new contexts; `norm` normalises the given ones first."""
        self.check(context, index, edge_attr)
        prepared, new = self.core(context, index, edge_attr, norm, weights)
        return LocalContext(self._with_parts(new, prepared.rows, edge_attr, index), index.layout)

    def general_forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> LocalContext:
        self.check(context, index, edge_attr)
        context = self.prepare(context, index)
        edge = self.edge_terms(context.rows, edge_attr, index)
        messages = self.joined_message(*self.ends(context, index), edge)
        new = self.update(context, self.aggregate(messages, index), index)
        return new.with_rows(self._with_parts(new.rows, context.rows, edge_attr, index))

    def edge_terms(
        self, rows: Tensor, edge_attr: Tensor | None, index: ContextIndex
    ) -> Tensor | None:
        terms = super().edge_terms(rows, edge_attr, index)
        if self.message_arc is None:
            return terms
        arcs: Tensor = self.message_arc(index.links.arcs(rows))
        return arcs if terms is None else terms + arcs

    def _with_parts(
        self, new: Tensor, rows: Tensor, edge_attr: Tensor | None, index: ContextIndex
    ) -> Tensor:
        for part in self.parts.values():
            new = new + part(rows, edge_attr, index.links)
        return new


class Term(nn.Module):
    """What a row receives besides the messages of SMP, [P, C] to [P, C]."""

    def reset_parameters(self) -> None:
        for module in self.children():
            module.reset_parameters()  # type: ignore[operator]


class Inside(Term):
    r"""Messages between the rows of one context (subgraph networks: SSWL).

    .. math::
        W_v\, \text{relu}\Bigl(W_u U_i[j] + b_u + W_m \sum_{k \in N_j}
            \text{relu}(W_a U_i[j] + W_b U_i[k] + W_e y_{jk} + b_a [+ W_g U_k[j]])
            / d_\text{avg}\Bigr) + b_v

    If i does not see k, its far row stands for U_i[k]. The far row receives no messages.

    Args:
        channels: width of the rows.
        edge_channels: number of edge features; 0: none.
        towers: independent channel groups of the message.
        folklore: whether the message also sees U_k[j].

    Shapes: rows [P, channels], edge_attr [E, edge_channels], result [P, channels].
    """

    def __init__(self, channels: int, edge_channels: int, towers: int, folklore: bool) -> None:
        super().__init__()
        self.receiver = TowerLinear(channels, channels, towers)
        self.sender = TowerLinear(channels, channels, towers, bias=False)
        self.edge = TowerLinear(edge_channels, channels, bias=False) if edge_channels else None
        self.arc = TowerLinear(channels, channels, towers, bias=False) if folklore else None
        self.own = TowerLinear(channels, channels)
        self.messages = TowerLinear(channels, channels, bias=False)
        self.out = TowerLinear(channels, channels)

    def forward(self, rows: Tensor, edge_attr: Tensor | None, links: Links) -> Tensor:
        edge: Tensor | None = None if self.edge is None else self.edge(edge_attr)
        if self.arc is not None:
            arcs = self.arc(links.back_arcs(rows))
            edge = arcs if edge is None else edge + arcs
        relus = relu_neighbor_sum(self.receiver(rows), self.sender(rows), edge, links.inside)
        out: Tensor = self.out(F.relu(self.own(rows) + self.messages(relus)))
        return out


class Mirror(Term):
    r"""The view of the described node: :math:`U_j[i] W_t + U_j[j] W_d` for row j of context i.

    For a far row both are the far row itself. If j does not see i, its far row stands for U_j[i].

    Shapes: rows [P, channels] to [P, channels].
    """

    def __init__(self, channels: int, towers: int) -> None:
        super().__init__()
        self.transposed = TowerLinear(channels, channels, towers, bias=False)
        self.diagonal = TowerLinear(channels, channels, towers, bias=False)

    def forward(self, rows: Tensor, edge_attr: Tensor | None, links: Links) -> Tensor:
        out: Tensor = self.transposed(links.mirror(rows)) + self.diagonal(links.diagonal(rows))
        return out


class Product(Term):
    r"""Products of rows (2-FWL, PPGN), over all nodes k or those in a common biconnected block.

    .. math::
        \rho\Bigl(\sum_k U_i[k] W_l \odot U_k[j] W_r\Bigr) W_o, \quad \rho(x) = x / \sqrt{1 + |x|}

    The sum has the nodes k for which i sees k and j, and k sees j. A far row receives and gives
    nothing.

    Args:
        channels: width of the rows.
        towers: independent channel groups.
        blocks: whether i, k and j must lie together in a biconnected block.

    Shapes: rows [P, channels] to [P, channels].
    """

    def __init__(self, channels: int, towers: int, blocks: bool) -> None:
        super().__init__()
        self.blocks = blocks
        self.left = TowerLinear(channels, channels, towers, bias=False)
        self.right = TowerLinear(channels, channels, towers, bias=False)
        self.out = TowerLinear(channels, channels, bias=False)

    def forward(self, rows: Tensor, edge_attr: Tensor | None, links: Links) -> Tensor:
        left, right = self.left(rows), self.right(rows)
        if self.blocks:
            sums = row_products(left, right, links.block_triples)
        elif isinstance(links.table, IdentifierRows):
            factors = (links.dense.spread(part).permute(0, 3, 1, 2) for part in (left, right))
            full = (next(factors) @ next(factors)).permute(0, 2, 3, 1)  # [B, n, n, C]
            sums = links.dense.collect(full)
        else:
            sums = row_products(left, right, links.triples)
        out: Tensor = self.out(sums * (1 + sums.abs()).rsqrt())
        return out
