"""The memory of a training step, as a sum of the tensors that are alive at its fullest moment.

A step is fullest when the gradient enters the last layer: the index of the batch is complete, all
layers still hold what their gradients need, and the last one makes its own. What follows counts
these tensors from what the operations in `smpgnn.ops` keep; `benchmarks/memory.py` compares it with
measurements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch

from smpgnn.config.catalogue import OWN_LAYERS
from smpgnn.models.registry import NetworkSpec
from smpgnn.ops.backend import has_kernels
from smpgnn.ops.neighbor import CHUNK
from smpgnn.training.row_counts import BatchRows

#: Numbers of an optimiser for each weight.
STATES = {"adamw": 2, "adam": 2, "sgd": 1}
#: For rivals: tensors as wide as a row that a layer keeps, and those of a moment. Rough counts.
_RIVAL_KEPT = {
    "gin": 2.0,
    "gin-degree": 2.0,
    "gin-random": 2.0,
    "rp": 2.0,
    "gat": 3.5,
    "mpnn-jt": 4.5,
    "mpnn-sum": 4.5,
    "pna": 10.0,
    "ring-gnn": 10.0,
    "ppgn": 12.0,
}
_RIVAL_PASSING = 8.0
#: Width of the state of a node in the network for several targets.
_STATE = 16
#: Programs of a kernel on a large GPU, each of which gathers gradients of weights by itself.
_PROGRAMS = 528


@dataclass(frozen=True)
class StepMemory:
    """Bytes of a training step at its fullest.

    Args:
        kept: what the layers and extractors keep for the gradient.
        passing: what lives for a moment beside it.
        index: the graphs of the batch, and which rows belong together.
        weights: parameters, their gradients and what the optimiser remembers.
        rough: whether it is a rough count only (networks other than SMP and its ablation).
    """

    kept: float
    passing: float
    index: float
    weights: float
    rough: bool = False

    @property
    def total(self) -> int:
        return int(self.kept + self.passing + self.index + self.weights)


def step_memory(
    spec: NetworkSpec,
    batch: BatchRows,
    device: torch.device,
    *,
    parameters: int | None = None,
    optimizer: str = "adamw",
    precision: str = "float32",
) -> StepMemory:
    """What a training step of this network on such a batch needs.

    Args:
        spec: the network.
        batch: rows and messages of the batch.
        device: where it runs: the fused operations of a GPU keep other tensors.
        parameters: the number of weights, where it is known.
        optimizer: 'adamw', 'adam' or 'sgd'.
        precision: 'float32', 'tf32' or 'bfloat16'.
    """
    parameters = count_parameters(spec) if parameters is None else parameters
    weights = 4.0 * parameters * (2 + STATES[optimizer])
    fused = device.type == "cuda" and has_kernels()
    number = 2 if precision == "bfloat16" else 4
    own = spec.model in OWN_LAYERS
    step = (_OwnStep if own else _RivalStep)(spec, batch, fused, device.type, number)
    return StepMemory(
        step.kept,
        max(step.passing, step.start - step.kept),
        step.data + step.index,
        weights,
        rough=not own,
    )


def count_parameters(spec: NetworkSpec) -> int:
    """The number of weights of a network, without room for them."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in spec.build().parameters())


@dataclass(frozen=True)
class _Step(ABC):
    """The parts of a step; `number` is the bytes of one."""

    spec: NetworkSpec
    batch: BatchRows
    fused: bool
    device: str
    number: int

    @property
    def rows(self) -> tuple[float, ...]:
        return self.batch.rows

    @property
    def width(self) -> int:
        return self.spec.hidden_channels

    @property
    def first_width(self) -> int:
        return 1 + self.spec.in_channels

    @property
    def data(self) -> float:
        """The batch itself: node and edge features, edges and the graph of each node."""
        spec, batch = self.spec, self.batch
        return batch.nodes * (8 + 4 * spec.in_channels) + batch.edges * (
            16 + 4 * spec.edge_channels
        )

    @property
    def start(self) -> float:
        """U⁽⁰⁾ is filled beside a tensor of zeros; this counts where there are many features."""
        return 2 * self.number * self.rows[0] * self.first_width

    @property
    @abstractmethod
    def kept(self) -> float: ...

    @property
    @abstractmethod
    def passing(self) -> float: ...

    @property
    @abstractmethod
    def index(self) -> float: ...


class _RivalStep(_Step):
    """Rough: so many tensors a layer."""

    @property
    def kept(self) -> float:
        size = self.number * self.width * (self.rows[1] + self.batch.edges)
        a_layer = _RIVAL_KEPT.get(self.spec.model, 6.0) * size
        layers = 1 if self.spec.checkpoint else self.spec.num_layers
        inputs = self.number * self.width * self.rows[1] * (self.spec.num_layers - layers)
        return layers * a_layer + inputs + self.start / 2

    @property
    def passing(self) -> float:
        return _RIVAL_PASSING * self.number * self.width * (self.rows[1] + self.batch.edges)

    @property
    def index(self) -> float:
        return 8 * (5 * self.batch.messages[0] + 6 * self.rows[1])


class _OwnStep(_Step):
    """SMP and its ablation, tensor by tensor."""

    @property
    def fast(self) -> bool:
        return self.spec.model.startswith("fast-")

    @property
    def contexts(self) -> bool:
        return self.spec.model in ("smp", "fast-smp")

    @property
    def folds(self) -> bool:
        """Whether the set map takes a batch norm with it, so that no normal rows are kept."""
        return self.contexts and self.spec.set_terms

    @property
    def growing(self) -> bool:
        return self.contexts and self.spec.identifiers == "neighborhood"

    @property
    def local(self) -> bool:
        return self.contexts and self.spec.identifiers == "local"

    @property
    def passes(self) -> bool:
        return not self.fast and self.spec.message_residual

    @property
    def several(self) -> bool:
        """Whether it is the network for several targets at once."""
        return bool(self.spec.node_outputs and self.spec.graph_outputs)

    @property
    def by_rows(self) -> bool:
        """Whether features are extracted by a perceptron on every row."""
        return self.contexts and (self.several or self.spec.level == "node")

    @property
    def extractor(self) -> int:
        default = 32 if self.several else 4 * self.spec.hidden_channels
        return self.spec.extractor_channels or default

    def _own_rows(self, layer: int) -> bool:
        """Whether layer 1, 2, … works on rows that it has made wider."""
        return self.growing and layer <= self.batch.indices

    def _output(self, layer: int) -> float:
        """The rows after a layer."""
        return self.number * self.rows[layer] * self.width

    def _inside(self, layer: int) -> float:
        """What a layer keeps besides its input and its output."""
        rows, c = self.rows[layer], self.width
        wide = self.first_width if layer == 1 else c
        numbers = rows * c  # û
        if self.fast:
            numbers += rows * c  # the sum over neighbours
        elif self.fused:
            numbers += rows * c * 4  # a and b, hidden, sums of relus
        else:
            numbers += rows * c * (2 + self.passes)  # hidden, sums
        if self._own_rows(layer):
            numbers += rows * wide
        after = self.spec.norm_place == "after"
        if self.spec.norm == "layer" and (layer > 1 or after):
            numbers += rows * (c + 2)
        if self.spec.norm == "batch" and (after or (layer > 1 and not self.folds)):
            numbers += 2 * rows * c
        if self.spec.edge_channels:
            numbers += self.batch.edges * c
        if self.contexts:  # the means and what the set map makes of them
            numbers += self.batch.nodes * (2 * c + wide + (wide if layer > 1 else 0))
        return self.number * numbers + 4 * self._matrices(wide)

    def _matrices(self, wide: int) -> float:
        """Matrices that are put together from towers, from a norm or from one another."""
        c, towers = self.width, self.spec.towers > 1
        set_maps = (3 if self.contexts else 1) * wide * c
        if towers:
            others = 2 if self.fast else 3
            return set_maps + c * c * (others + (not self.fast) + (self.spec.norm == "batch"))
        return c * c * ((not self.fast) + (self.spec.norm == "batch"))

    def _extracted(self, layer: int) -> float:
        """What is kept of the extractor after a layer (0: before the first)."""
        if self.several and layer == 0:
            return 0.0
        nodes, e = self.batch.nodes, self.extractor
        recurrent = e + 8 * _STATE if self.several else 0
        if not self.by_rows:
            if self.spec.level == "node" or self.several:
                return self.number * nodes * (self.width + e + recurrent)
            return self.number * self.batch.graphs * (2 * self.width + 2 * e)
        if self.spec.checkpoint:
            return self.number * nodes * (e + recurrent)
        copied = self.number * self.rows[layer] * self.width if self._at_once else 0.0
        return self._perceptron(layer) + copied + self.number * nodes * recurrent

    @property
    def _at_once(self) -> bool:
        """Whether the extractor works on copies of the rows of all layers (`extract_all`)."""
        own_way = self.spec.checkpoint or self.growing
        return self.fused and self.several and self.by_rows and not own_way

    def _perceptron(self, layer: int) -> float:
        """What an extractor that works on every row keeps: hidden and final values, pooled ones."""
        e = self.extractor
        return self.number * (2 * self.rows[layer] * e + 4 * self.batch.nodes * e)

    @property
    def _first(self) -> float:
        """U⁽⁰⁾, where a layer or an extractor keeps it."""
        kept = not self._own_rows(1) or (self.by_rows and not self.several)
        return self.number * self.rows[0] * self.first_width if kept else 0.0

    @property
    def kept(self) -> float:
        count = self.spec.num_layers
        layers = range(1, count + 1)
        total = self._first + sum(self._extracted(layer) for layer in range(count + 1))
        if self.spec.checkpoint:
            inputs = sum(self._output(layer) for layer in layers[:-1])
            last = self._output(count) if self.by_rows else 0.0
            moments = 2 * self.number * count * self.batch.nodes * self.width
            return total + inputs + last + moments
        return total + sum(self._inside(layer) + self._output(layer) for layer in layers)

    @property
    def passing(self) -> float:
        last = self.spec.num_layers
        freed = self._extracted(last)  # when the gradient has passed the extractor and the output
        if self._at_once:  # all has been freed, but gradients lie in place of the copies
            freed = last * (freed - self.number * self.rows[last] * self.width)
        if self.by_rows or not self.spec.checkpoint:
            freed += self._output(last)
        again = self._inside(last) if self.spec.checkpoint else 0.0
        in_layer = again + self._layer_passing() - freed
        return max(in_layer, self._extractor_passing() - self._way_back, 0.0)

    def _layer_passing(self) -> float:
        """Gradients alive at once in the last layer."""
        last, c = self.spec.num_layers, self.width
        whole = self.number * self.rows[last] * c
        if self.fused:
            programs = min(self.rows[last] / 64, _PROGRAMS)
            slopes = 4 * programs * c * c
            if self.fast:
                return max(3 * whole + 2 * slopes, 4 * whole)
            return (6 + self.passes) * whole + (3 + self.passes) * slopes
        if self.fast:
            return 6 * whole
        most = CHUNK["cuda" if self.device == "cuda" else "cpu"]
        piece = min(self.batch.messages[-1] * c, most)
        terms, places = self.number * piece, 24 / c * piece
        edges = 2 * self.number * self.batch.edges * c if self.spec.edge_channels else 0.0
        if piece == most:  # the gradients of rows lie there from the first piece on
            return 8 * whole + 2 * terms + places + edges
        return max(6 * whole + 2 * terms, 8 * whole + terms) + places + edges

    def _extractor_passing(self) -> float:
        if not self.by_rows:
            return 0.0
        again = self._perceptron(self.spec.num_layers) if self.spec.checkpoint else 0.0
        gradients = (2 if self.fused else 3.25) * self.number * self.rows[-1] * self.extractor
        return again + gradients * (self.spec.num_layers if self._at_once else 1)

    @property
    def index(self) -> float:
        last = self.batch.indices if self.growing else 1
        rows = sum(self._index(layer) for layer in range(1, last + 1))
        return rows + self._way_back + 8 * (8 * self.batch.nodes + 6 * self.batch.edges)

    def _index(self, layer: int) -> float:
        """Bytes of the index of a layer; places of rows, messages and edges take 8 each."""
        rows, messages = self.rows[layer], self.batch.messages[layer - 1]
        if self.fused and not (self.growing or self.local):
            return (8 + 4 + 8) * rows  # owner, twice, and places
        per_row = 8 + 8 + 16 + 16  # owner, graph, ptr and scale of the lift, two lists of places
        per_message = 24  # source, target, edge
        grown = 0.0
        if self.local:
            per_row += 8 + 8  # the node that a row describes, and the key by which it is found
        if self.growing:
            per_row += 8 + 4 + 24  # multiplicity (twice), the way from the layer before
            grown = 8 * self.rows[layer - 1]
        if self.fused:  # the way back, and all places once more as the kernels read them
            return (per_row + 8 + 12) * rows + (per_message + 8 + 12) * messages + grown
        if self.fast or self.passes:
            per_message += 12  # weights
        if not self.fast:
            per_message += 24 if self.spec.edge_channels else 16  # the parts of each term
        return per_row * rows + per_message * messages + grown

    @property
    def _way_back(self) -> float:
        """The transposed sum over neighbours, made when the gradient comes to the last layer."""
        if self.fused or not (self.fast or self.passes):
            return 0.0
        return 8 * self.rows[-1] + 28 * self.batch.messages[-1]
