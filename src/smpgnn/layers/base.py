"""The base class of layers (section 3.1): any equivariant message, aggregation and update."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.structure import GraphStructure
from smpgnn.errors import InputError, check_tensor

AGGREGATIONS = ("sum", "mean", "max", "absmax")


class SMPLayer(nn.Module):
    r"""Structural message-passing with your own message, aggregation and update.

    .. math::
        U_i' = u\bigl(\hat U_i, \phi(\{m(\hat U_i, \hat U_j, y_{ij})\}_{j \in N_i})\bigr),
        \quad \hat U = \text{prepare}(U)

    Override `message` and `update`, and if necessary `prepare` and `aggregate`. The layer is
    equivariant (Theorem 1) if each of them treats all rows of a context alike, as the methods of
    `LocalContext` do; check it with `smpgnn.testing.assert_equivariant`. `message` gets one context
    per edge, and both contexts have the rows of the receiver. So `u_j.rows - u_i.rows` compares
    what two neighbours know of the same node, and `u_j.mean()` is the mean of a message.

    Args:
        aggregation: 'sum', 'mean', 'max', or 'absmax', the entry of largest absolute value over
            the neighbours (the argmax rule of Appendix B.3; the own context is added in `update`;
            +v wins over −v). A node without neighbours receives zero.
    """

    #: Fields of `LayerOptions` that the layer has; if there are any, its constructor takes
    #: `options`.
    option_names: ClassVar[tuple[str, ...]] = ()
    #: Channels of edge features that the layer takes; 0: none.
    edge_channels: int = 0
    #: Whether `forward` also takes `norm`, the norm of its input, which it merges with its first
    #: map, and `weights`, the result of `assemble_weights`.
    merges_norm: bool = False
    #: Whether the layer never synchronises with the CPU, so that CUDA graphs can capture it.
    capturable: bool = False
    #: The structure that the layer needs from `Topology.find`; None: none.
    structure: GraphStructure[Any] | None = None
    #: The links between rows (`smpgnn.contexts.links.Links`) that the layer needs.
    links: tuple[str, ...] = ()
    #: Whether padding rows stay finite from layer to layer without masking.
    contained: bool = False

    def __init__(self, aggregation: str = "sum") -> None:
        super().__init__()
        if aggregation not in AGGREGATIONS:
            raise InputError(
                f"aggregation must be one of {', '.join(AGGREGATIONS)}, not {aggregation!r}."
            )
        self.aggregation = aggregation

    @classmethod
    def assemble_weights(cls, layers: Sequence[Any]) -> list[Any]:
        """Compute what each layer needs from its weights alone, for all layers in one batch.

        `forward` takes the result as `weights`; None: nothing to compute.
        """
        return [None] * len(layers)

    def prepare(self, context: LocalContext, index: ContextIndex) -> LocalContext:
        """Û_i from U_i; by default U_i."""
        return context

    def message(self, u_i: LocalContext, u_j: LocalContext, y_ij: Tensor | None) -> LocalContext:
        """m(Û_i, Û_j, y_ij) for all edges at once, y_ij [E, D]; by default Û_j."""
        return u_j

    def aggregate(self, messages: LocalContext, index: ContextIndex) -> LocalContext:
        """Aggregate the messages that arrive at each node (φ)."""
        _, target, _ = index.by_edge
        rows = reduce_rows(messages.rows, target, index.num_rows, self.aggregation)
        return LocalContext(rows, index.layout)

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        """u(Û_i, Ũ_i); by default the aggregated messages Ũ_i."""
        return messages

    def forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> LocalContext:
        return self.general_forward(context, index, edge_attr)

    def general_forward(
        self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None = None
    ) -> LocalContext:
        """The layer as the equation defines it, edge by edge; `forward` may be faster."""
        self.check(context, index, edge_attr)
        context = self.prepare(context, index)
        messages = self.message(*self.ends(context, index), edge_attr)
        return self.update(context, self.aggregate(messages, index), index)

    def ends(self, context: LocalContext, index: ContextIndex) -> tuple[LocalContext, LocalContext]:
        """The contexts of the receiver and of the sender of each edge, with the receiver's rows."""
        layout, *rows = index.by_edge
        u_i, u_j = (LocalContext(context.rows.index_select(0, r), layout) for r in rows)
        return u_i, u_j

    def check(self, context: LocalContext, index: ContextIndex, edge_attr: Tensor | None) -> None:
        """Raise an error if the contexts or edge features do not belong to the index."""
        if context.layout is not index.layout:
            raise InputError("context does not belong to index: build both from the same graphs.")
        check_edge_attr(edge_attr, self.edge_channels, index.topology.num_edges)


def check_edge_attr(edge_attr: Tensor | None, channels: int, num_edges: int) -> None:
    """Raise an error if edge features are missing, unexpected or of the wrong shape."""
    if edge_attr is None:
        if channels:
            raise InputError(f"edge_attr is missing: edge_channels is {channels}.")
        return
    if channels == 0:
        raise InputError(
            "edge_attr was given, but edge_channels is 0: leave it out, or use the default layer "
            "with edge_channels set (Fast SMP takes no edge features)."
        )
    check_tensor("edge_attr", edge_attr)
    if list(edge_attr.shape) != [num_edges, channels]:
        raise InputError(
            f"edge_attr must have shape [{num_edges}, {channels}], not {list(edge_attr.shape)}."
        )
    if not edge_attr.is_floating_point():
        raise InputError(
            f"edge_attr must be floating point, not {edge_attr.dtype}: call edge_attr.float()."
        )


def reduce_rows(rows: Tensor, target: Tensor, size: int, reduction: str) -> Tensor:
    """Reduce rows with the same target, [M, C] to [size, C]; a target without rows gets zero."""
    if reduction == "absmax":
        high = reduce_rows(rows, target, size, "max")
        low = -reduce_rows(-rows, target, size, "max")
        return torch.where(high.abs() >= low.abs(), high, low)
    out = rows.new_zeros(size, rows.size(1))
    if reduction == "max":
        where = target.unsqueeze(1).expand_as(rows)
        return out.scatter_reduce(0, where, rows, "amax", include_self=False)
    out = out.index_add(0, target, rows)
    if reduction == "mean":
        arrived = torch.bincount(target, minlength=size).clamp(min=1)
        out = out / arrived.to(out.dtype).unsqueeze(1)
    return out
