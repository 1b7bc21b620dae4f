"""Neighbours weighted channel by channel with gates (for Gated-GCN)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from smpgnn.ops.backend import fused, opaque, plain_gradients

if TYPE_CHECKING:
    from smpgnn.contexts.incidence import Incidence

#: Added to the sum of the gates, by which the sum of the values is divided.
EPSILON = 1e-6


@opaque
def gated_sum(table: Tensor, term: Tensor, edges: Incidence) -> tuple[Tensor, Tensor]:
    r"""New rows, and what is above 0 of the gates.

    .. math::
        \text{relu}\Bigl(a_i + \frac{\sum_j \sigma(g_{ij}) \odot v_j}
            {\sum_j \sigma(g_{ij}) + ε}\Bigr), \quad g_{ij} = \text{term}_{ij} + d_i + e_j

    `table` has a, d, e and v side by side. By the kernels, gates of padding count as 0.

    Shapes: table [N, 4 C], term [E, C], results [N, C] and [E, C].
    """
    dtype = torch.promote_types(table.dtype, term.dtype)
    table, term = table.to(dtype), term.to(dtype)
    if not fused(table):
        return gated_sum_reference(table, term, edges)
    rows, opened = _GatedSum.apply(table, term, edges)  # type: ignore[no-untyped-call]
    return rows, opened


def gated_sum_reference(table: Tensor, term: Tensor, edges: Incidence) -> tuple[Tensor, Tensor]:
    """The same in plain torch."""
    channels = term.size(1)
    own, receiver, sent = torch.split(table, [channels, channels, 2 * channels], 1)
    sender, value = edges.from_senders(sent).chunk(2, 1)
    gate = term + edges.from_receivers(receiver) + sender  # [E, C]
    weight = gate.sigmoid()
    total, weights = edges.sum(torch.cat([weight * value, weight], 1)).chunk(2, 1)
    return F.relu(own + total / (weights + EPSILON)), F.relu(gate)


class _GatedSum(Function):
    @staticmethod
    def forward(ctx: Any, table: Tensor, term: Tensor, edges: Incidence) -> tuple[Tensor, Tensor]:
        from smpgnn.ops.gates import kernel

        rows, gate, opened = kernel.gated_sum(
            table, term, edges.topology.sender, *edges.arriving_order, EPSILON
        )
        ctx.save_for_backward(table, term, gate, rows)
        ctx.edges = edges
        return rows, opened

    @staticmethod
    def backward(ctx: Any, d_rows: Tensor, d_opened: Tensor) -> Any:
        table, term, gate, rows = ctx.saved_tensors
        edges: Incidence = ctx.edges
        if torch.is_grad_enabled():
            again = plain_gradients(
                lambda table, term: gated_sum_reference(table, term, edges),
                (table, term),
                [d_rows, d_opened],
            )
            return *again, None
        from smpgnn.ops.gates import kernel

        topology = edges.topology
        d_table, d_term = kernel.gated_sum_backward(
            d_rows, d_opened, table, gate, rows, (topology.sender, topology.receiver),
            edges.arriving_order, topology.edges_by_sender, EPSILON,
        )  # fmt: skip
        return d_table, d_term, None
