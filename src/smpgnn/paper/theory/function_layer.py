"""A layer given by three plain functions of dense contexts, as Theorem 1 states it."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from smpgnn.contexts.context import LocalContext
from smpgnn.contexts.index import ContextIndex
from smpgnn.layers.base import SMPLayer

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
