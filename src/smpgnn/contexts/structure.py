"""Structures of a graph that are computed graph by graph on the CPU: directions, junction trees, ….

A layer names the structure that it needs (`SMPLayer.structure`) and gets it from the topology of
its batch (`Topology.find`). For padded batches it is computed once for all graphs of a data set,
and then cut out for every batch, like the edges.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from torch import Tensor

if TYPE_CHECKING:
    from smpgnn.contexts.topology import Topology

Found = TypeVar("Found")


class GraphStructure(ABC, Generic[Found]):
    """A structure of graphs; equal instances compute the same."""

    @abstractmethod
    def find(self, topology: Topology) -> Found:
        """Compute the structure of the graphs of a batch."""

    @abstractmethod
    def prepare(self, topology: Topology, graphs: int) -> PreparedStructure[Found]:
        """Compute it for all graphs of a data set, for batches of at most `graphs` graphs."""


@dataclass(frozen=True, eq=False)
class Cut:
    """A padded batch, and the indices of its graphs, nodes and edges in the data set.

    The last graph of `topology` is padding. Its indices are one past the last of the data set.

    Shapes: slots [B + 1], node [N], edge [E]: indices of graphs, nodes and edges.
    """

    topology: Topology
    slots: Tensor
    node: Tensor
    edge: Tensor


class PreparedStructure(ABC, Generic[Found]):
    """The structure of all graphs of a data set, on its device."""

    def fits(self, graphs: Tensor) -> bool:
        """Whether a padded batch can contain these graphs; `graphs` on the CPU."""
        return True

    @abstractmethod
    def cut(self, batch: Cut) -> Found:
        """The structure of the graphs of a batch, in tensors of fixed shape."""
