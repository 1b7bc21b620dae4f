"""What is found in graphs one by one, on the CPU: directions, junction trees, ….

A layer names what it has to know (`SMPLayer.structure`) and asks the topology of its batch for it.
For batches of fixed size it is found once, in all graphs of a data set, and then cut out for every
batch, as their edges are.
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
    """Something to be found in every graph; equal instances find the same."""

    @abstractmethod
    def find(self, topology: Topology) -> Found:
        """What there is in the graphs of a batch."""

    @abstractmethod
    def prepare(self, topology: Topology, graphs: int) -> PreparedStructure[Found]:
        """Find it in all graphs of a data set, for batches of at most so many."""


@dataclass(frozen=True, eq=False)
class Cut:
    """A batch of fixed size and where its parts lie in the data set.

    Numbers one past the last of the data set stand for what is not there; `topology` has one graph
    more than were asked for, the unused room.

    Shapes: slots [B + 1], node [N], edge [E]: numbers of its graphs, nodes and edges.
    """

    topology: Topology
    slots: Tensor
    node: Tensor
    edge: Tensor


class PreparedStructure(ABC, Generic[Found]):
    """What was found in the graphs of a data set, on its device."""

    def fits(self, graphs: Tensor) -> bool:
        """Whether there is room for what these graphs have; `graphs` on the CPU."""
        return True

    @abstractmethod
    def cut(self, batch: Cut) -> Found:
        """What there is in the graphs of a batch, in tensors of fixed shape."""
