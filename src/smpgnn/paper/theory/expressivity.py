"""Expressive power, measured: which pairs of graphs a network with random weights tells apart.

Two outputs count as different where they differ, relative to their largest entry, by more than
rounding can explain. What rounding does is measured: every graph is also given to the network with
its nodes in other orders, which an invariant network must not notice. The *tolerance* of a network
on a family is `FACTOR` times the largest difference between such copies, and at least `FLOOR`. A
network whose copies differ by more than `LIMIT` is not invariant, and its pairs are not counted.

A count is a lower bound of what the architecture can do (other weights might do better), and the
refinement of its kind an upper bound.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import networkx as nx
import torch
from torch import Tensor, nn

from smpgnn.config.network import READOUTS, NetworkOptions
from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError, check_counts
from smpgnn.files import write_text
from smpgnn.models.registry import NetworkSpec
from smpgnn.paper.theory.families import FAMILIES, Family, family, topology
from smpgnn.paper.theory.program import Program
from smpgnn.paper.theory.refinement import REFINEMENTS, classes
from smpgnn.paper.theory.registry import NETWORK_NAMES, VARIANTS

#: The refinement that bounds each network. None is known for the others: random identifiers and
#: relational pooling are not functions of the graph alone, and junction trees see rings.
BOUND = {
    "smp": "SMP",
    "fast-smp": "SMP",
    "smp-own-terms": "SMP",  # the own row has a colour of its own among those of a context
    "smp-local": "SMP",  # within how many hops j lies of i is part of the colour of row (i, j)
    "smp-local-own-terms": "SMP",
    "mpnn": "1-WL",
    "fast-mpnn": "1-WL",
    "gin": "1-WL",
    "gin-degree": "1-WL",
    "gat": "1-WL",
    "mpnn-sum": "1-WL",
    "pna": "1-WL",
    "gated-gcn": "1-WL",
    "ppgn": "2-FWL",
    "ring-gnn": "2-FWL",
    "dgn": "2-FWL",  # eigenprojections are polynomials of the Laplacian, which 2-FWL computes
}
#: Factor on fresh weights. They are uniform within 1/√fan-in, which a relu halves once more in
#: variance, so that differences would fade by √6 with every map; with it they keep their scale.
GAIN = 6**0.5
#: A pair is told apart if it differs by so many times more than copies of one graph …
FACTOR = 100.0
#: … and by more than this: some hundred times the precision of float64, where copies agree exactly.
FLOOR = 1e-13
#: Copies that differ by more are no matter of rounding: the network is not invariant.
LIMIT = 1e-8
#: Graphs in a batch: 64 graphs of 41 nodes have 10⁵ pairs.
CHUNK = 64


@dataclass(frozen=True)
class Settings:
    """What is measured, and how.

    Args:
        models: names of `registry.NETWORK_NAMES`.
        families: names of `families.FAMILIES`.
        seeds: number of draws of the weights; a pair counts if one of them tells it apart.
        relabelings: copies of every graph with its nodes in another order.
        layers, width, readout: of the networks.
        norm: of the rows, 'layer' or 'none'. Layer norm acts on each row by itself, so that bounds
            hold with it; without, the products of PPGN drown small differences in large numbers.
    """

    models: tuple[str, ...] = NETWORK_NAMES
    families: tuple[str, ...] = tuple(FAMILIES)
    seeds: int = 5
    relabelings: int = 3
    layers: int = 6
    width: int = 16
    norm: str = "layer"
    readout: str = "mean"

    def __post_init__(self) -> None:
        for name in self.models:
            if name not in NETWORK_NAMES:
                raise InputError(f"models must be of {', '.join(NETWORK_NAMES)}, not {name!r}.")
        for name in self.families:
            if name not in FAMILIES:
                raise InputError(f"families must be of {', '.join(FAMILIES)}, not {name!r}.")
        check_counts(
            seeds=self.seeds,
            relabelings=self.relabelings,
            layers=self.layers,
            width=self.width,
            at_least=1,
        )
        if self.norm not in ("layer", "none"):
            raise InputError(f"norm must be 'layer' or 'none', not {self.norm!r}.")
        if self.readout not in READOUTS:
            raise InputError(f"readout must be of {', '.join(READOUTS)}, not {self.readout!r}.")


@dataclass(frozen=True)
class Reference:
    """How many pairs of a family a refinement tells apart."""

    family: str
    refinement: str
    told_apart: int


@dataclass(frozen=True)
class Count:
    """How many pairs of a family a network tells apart.

    Args:
        model, family: names.
        told_apart: number of pairs, or None where the network gives copies of one graph different
            results (it is not invariant, and the number would have no meaning).
        copies_gap: the largest relative difference between copies of one graph.
        tolerance: what a pair must exceed.
        smallest_gap: the smallest among the pairs told apart, None if there are none.
        largest_other: the largest among the other pairs, None if there are none.
    """

    model: str
    family: str
    told_apart: int | None
    copies_gap: float
    tolerance: float
    smallest_gap: float | None
    largest_other: float | None


@dataclass(frozen=True)
class Size:
    """A family: its name, what it is, and its numbers of graphs and pairs."""

    family: str
    text: str
    graphs: int
    pairs: int


@dataclass(frozen=True)
class Report:
    """Everything that `smpgnn paper theory expressivity` finds.

    `networks` has the complete specification of each network, so that a record can be compared with
    the program that made it.
    """

    settings: Settings
    networks: dict[str, dict[str, Any]] = field(default_factory=dict)
    families: list[Size] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)

    def write(self, path: str | Path) -> None:
        """The report as JSON."""
        write_text(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")


def measure(settings: Settings) -> Report:
    """Count the pairs; raises `AssertionError` where a network exceeds what its kind can do."""
    networks = {model: network_spec(model, settings).to_dict() for model in settings.models}
    report = Report(settings, networks)
    for name in settings.families:
        graphs = family(name)
        report.families.append(Size(name, graphs.text, len(graphs.graphs), len(graphs.pairs)))
        told = {kind: reference_pairs(graphs, kind) for kind in REFINEMENTS}
        report.references.extend(Reference(name, kind, len(pairs)) for kind, pairs in told.items())
        batches = copies(graphs, settings.relabelings)
        for model in settings.models:
            gaps = relative_gaps(model, graphs, batches, settings)
            apart = gaps.told_apart()
            report.counts.append(gaps.count(model, name))
            if apart is not None and model in BOUND:
                beyond = apart - told[BOUND[model]]
                assert not beyond, (
                    f"{model} tells apart pairs {sorted(beyond)} of {name}, which "
                    f"{BOUND[model]} takes for equal"
                )
    return report


def reference_pairs(graphs: Family, refinement: str) -> set[tuple[int, int]]:
    """The pairs that a refinement tells apart."""
    kind = classes(graphs.graphs, REFINEMENTS[refinement])
    return {(a, b) for a, b in graphs.pairs if kind[a] != kind[b]}


@dataclass(frozen=True)
class Gaps:
    """The largest relative difference over all seeds: of each pair, and between any copies."""

    pairs: dict[tuple[int, int], float]
    copies: float

    @property
    def tolerance(self) -> float:
        """The difference that a pair must exceed to be told apart."""
        return max(FLOOR, FACTOR * self.copies)

    def told_apart(self) -> set[tuple[int, int]] | None:
        """The pairs that differ by more than the tolerance; None for a network not invariant."""
        if self.copies > LIMIT:
            return None
        return {pair for pair, gap in self.pairs.items() if gap > self.tolerance}

    def count(self, model: str, name: str) -> Count:
        apart = self.told_apart()
        if apart is None:
            return Count(model, name, None, self.copies, self.tolerance, None, None)
        inside = [gap for pair, gap in self.pairs.items() if pair in apart]
        outside = [gap for pair, gap in self.pairs.items() if pair not in apart]
        return Count(
            model,
            name,
            len(apart),
            self.copies,
            self.tolerance,
            min(inside, default=None),
            max(outside, default=None),
        )


def copies(graphs: Family, relabelings: int) -> list[Topology]:
    """The graphs of a family in batches: all as they are, then all in another order, and so on."""
    generator = torch.Generator().manual_seed(0)
    everything = list(graphs.graphs)
    for _ in range(relabelings):
        everything += [_shuffled(graph, generator) for graph in graphs.graphs]
    return [topology(everything[k : k + CHUNK]) for k in range(0, len(everything), CHUNK)]


def relative_gaps(
    model: str, graphs: Family, batches: Sequence[Topology], settings: Settings
) -> Gaps:
    """Run a network with fresh weights for every seed, and compare its outputs."""
    pairs = dict.fromkeys(graphs.pairs, 0.0)
    largest = 0.0
    for seed in range(settings.seeds):
        network = random_network(model, graphs, settings, seed)
        with torch.no_grad():
            parts = [network(None, batch.edge_index, None, batch.batch) for batch in batches]
        out = torch.cat(parts).view(settings.relabelings + 1, len(graphs.graphs), -1)
        if not out.isfinite().all():
            raise InputError(f"{model}: its outputs are not finite; take fewer layers.")
        for copy in out[1:]:
            largest = max(largest, float(_relative(copy, out[0]).max()))
        first, second = (out[0][[pair[side] for pair in graphs.pairs]] for side in (0, 1))
        for pair, gap in zip(graphs.pairs, _relative(first, second).tolist(), strict=True):
            pairs[pair] = max(pairs[pair], gap)
    return Gaps(pairs, largest)


def network_spec(model: str, settings: Settings) -> NetworkSpec:
    """A network for graphs without features."""
    options = NetworkOptions().changed(
        **{"model": model, **VARIANTS.get(model, {})},
        hidden_channels=settings.width,
        num_layers=settings.layers,
        norm=settings.norm,
        readout=settings.readout,
    )
    return NetworkSpec(graph_outputs=settings.width, options=options)


def random_network(model: str, graphs: Family, settings: Settings, seed: int) -> nn.Module:
    """The network with fresh weights for the graphs of a family, in float64 and eval mode."""
    most = max(graph.number_of_nodes() for graph in graphs.graphs)
    spec = replace(network_spec(model, settings), max_nodes=most)
    torch.manual_seed(seed)
    network = spec.build().double().eval()
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.mul_(GAIN)
    return network


def _relative(first: Tensor, second: Tensor) -> Tensor:
    """The largest difference of two outputs relative to their largest entry, [K, C] to [K]."""
    scale = torch.maximum(first.abs().amax(1), second.abs().amax(1)).clamp(min=1e-300)
    return (first - second).abs().amax(1) / scale


def _shuffled(graph: nx.Graph, generator: torch.Generator) -> nx.Graph:
    """The same graph with its nodes renamed and its edges listed in another order."""
    order = torch.randperm(graph.number_of_nodes(), generator=generator).tolist()
    edges = [(order[a], order[b]) for a, b in graph.edges]
    renamed = nx.Graph()
    renamed.add_nodes_from(range(len(order)))
    renamed.add_edges_from(edges[k] for k in torch.randperm(len(edges), generator=generator))
    return renamed


def show(report: Report) -> None:
    """Print the counts as a table."""
    settings = report.settings
    print(
        f"Pairs told apart by networks with random weights ({settings.layers} layers of width "
        f"{settings.width}, float64, {settings.seeds} seeds, {settings.relabelings} relabelled "
        "copies of each graph):"
    )
    lines: list[list[Any]] = [["", *(size.family for size in report.families)]]
    lines.append(["pairs", *(size.pairs for size in report.families)])
    for kind in REFINEMENTS:
        told = [r.told_apart for r in report.references if r.refinement == kind]
        lines.append([f"{kind} refinement", *told])
    for model in settings.models:
        counts = [count for count in report.counts if count.model == model]
        cells = ["not inv." if c.told_apart is None else c.told_apart for c in counts]
        bound = f" (within {BOUND[model]})" if model in BOUND else ""
        lines.append([model + bound, *cells])
    widths = [max(len(str(line[k])) for line in lines) for k in range(len(lines[0]))]
    for line in lines:
        rest = (f"{cell!s:>{width}}" for cell, width in zip(line[1:], widths[1:], strict=True))
        print("  ".join([f"{line[0]!s:<{widths[0]}}", *rest]).rstrip())
    invariant = [count for count in report.counts if count.told_apart is not None]
    if invariant:
        gap = max(count.copies_gap for count in invariant)
        print(f"Relabelled copies of one graph differ by at most {gap:.1e}.")
    apart = [count.smallest_gap for count in invariant if count.smallest_gap is not None]
    if apart:
        print(f"The pairs told apart differ by at least {min(apart):.1e}.")
    if len(invariant) < len(report.counts):
        print("not inv.: relabelled copies of one graph differ, so a count would mean nothing.")


def run() -> None:
    show(measure(Settings(models=("smp", "fast-smp", "mpnn", "gin", "ppgn"), seeds=3)))


PROGRAM = Program(
    name="expressivity",
    claim="Section 3.2, measured: which hard pairs of graphs each network tells apart",
    run=run,
)
