"""Layouts of the rows of odd graphs, and where the kernels are tried."""

from __future__ import annotations

import torch
from strategies import ODD, make_case, path

from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.layout import RowLayout

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GRAPHS = [path(18), ODD["empty"], ODD["loops"], ODD["directed cycle"], path(1)]


def make_index(identifiers: str) -> ContextIndex:
    topology = make_case(GRAPHS).topology.to(DEVICE)
    if identifiers == "nodes":
        return ContextIndex.of_nodes(topology)
    return ContextIndex.build(topology, identifiers, 2, 1)


def make_layout(identifiers: str) -> RowLayout:
    return make_index(identifiers).layout
