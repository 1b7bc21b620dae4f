"""Expressive power, measured: which pairs of graphs a network with random weights distinguishes.

Two outputs count as different if they differ, relative to their largest entry, by more than
rounding can explain. Rounding is measured: the network also gets copies of every graph with
relabelled nodes, which an invariant network must not notice. The *tolerance* of a network on a
family is `FACTOR` times the largest difference between copies, and at least `FLOOR`. If copies
differ by more than `LIMIT`, the network is not invariant and its pairs are not counted.

A count is a lower bound of what the architecture can do (other weights might do better); the
refinement of its class is an upper bound.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from textwrap import fill
from typing import Any

import networkx as nx
import torch
from torch import Tensor, nn

from smpgnn.config.network import NetworkOptions
from smpgnn.contexts.topology import Topology
from smpgnn.errors import InputError
from smpgnn.files import write_text
from smpgnn.models.registry import NetworkSpec
from smpgnn.paper.json_data import built
from smpgnn.paper.theory.families import FAMILIES, Family
from smpgnn.paper.theory.given import OwnNetwork, given_families
from smpgnn.paper.theory.graphs import topology
from smpgnn.paper.theory.ladder import REFINEMENTS
from smpgnn.paper.theory.programs import VARIANTS, Settings
from smpgnn.paper.theory.refinement import told_apart
from smpgnn.paper.theory.scale import rescaled
from smpgnn.paper.theory.tables import Table, power, print_table
from smpgnn.training.loader import plan_batches

#: The refinement that bounds each network. None is known for the others: random identifiers and
#: relational pooling are not functions of the graph alone, and junction trees see rings.
BOUND = {
    **dict.fromkeys(("smp", "fast-smp"), "SMP"),
    "smp-own-terms": "SMP",  # the own row has a colour of its own among those of a context
    # the colour of row (i, j) includes how many hops j is away from i
    **dict.fromkeys(("smp-local", "smp-local-own-terms"), "SMP"),
    "smp-distance": "SMP",  # stable colours of contexts tell distances apart
    "smp-inside": "SSWL",
    "smp-inside-folklore": "local 2-FWL",
    # (j, i) and (j, j), and the blocks of a graph, are known to the folklore refinement
    **dict.fromkeys(("smp-mirror", "smp-product", "smp-block-product"), "2-FWL"),
    **{f"smp-marks-{hops}": f"two marks ≤ {hops}" for hops in (1, 2, 3)},
    **dict.fromkeys(("mpnn", "fast-mpnn", "mpnn-sum", "gin", "gin-degree", "gat", "pna"), "1-WL"),
    "gated-gcn": "1-WL",
    **dict.fromkeys(("ppgn", "ring-gnn"), "2-FWL"),
    "dgn": "2-FWL",  # eigenprojections are polynomials of the Laplacian, which 2-FWL computes
}
#: A pair is distinguished if it differs this many times more than copies of one graph …
FACTOR = 100.0
#: … and more than this: several hundred times the precision of float64, for exact copies.
FLOOR = 1e-13
#: If copies differ by more, rounding is not the reason: the network is not invariant.
LIMIT = 1e-8
#: Pairs of nodes per batch: those of 12 graphs of 41 nodes.
CHUNK = 20_000


@dataclass(frozen=True)
class Reference:
    """How many pairs of a family a refinement distinguishes."""

    family: str
    refinement: str
    told_apart: int


@dataclass(frozen=True)
class Count:
    """How many pairs of a family a network distinguishes; gaps are relative differences."""

    model: str
    family: str
    told_apart: int | None  # None: the network is not invariant
    copies_gap: float  # the largest between copies of one graph
    tolerance: float  # what the gap of a pair must exceed
    smallest_gap: float | None  # of the pairs distinguished, None if there are none
    largest_other: float | None  # of the other pairs, None if there are none


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
    the program that made it. `bounds` has its class, if it is known. The bound of a user's own
    network is the first refinement that distinguishes all pairs that the network does.
    """

    settings: Settings
    networks: dict[str, dict[str, Any]] = field(default_factory=dict)
    bounds: dict[str, str] = field(default_factory=dict)
    families: list[Size] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)

    @classmethod
    def read(cls, path: str | Path) -> Report:
        """A report from its JSON file."""
        report: Report = built(cls, json.loads(Path(path).read_text(encoding="utf-8")))
        return report

    def write(self, path: str | Path) -> None:
        """The report as JSON."""
        write_text(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")


def measure(settings: Settings) -> Report:
    """Count the pairs; raises `AssertionError` if a network exceeds the bound of its class."""
    networks = {
        model: {"function": model} if ":" in model else network_spec(model, settings).to_dict()
        for model in settings.models
    }
    report = Report(settings, networks, {m: BOUND[m] for m in settings.models if m in BOUND})
    possible = {model: list(REFINEMENTS) for model in settings.models if ":" in model}
    families = {name: FAMILIES[name]() for name in settings.families}
    for name, graphs in {**families, **given_families(settings.pairs)}.items():
        report.families.append(Size(name, graphs.text, len(graphs.graphs), len(graphs.pairs)))
        told = {kind: reference_pairs(graphs, kind) for kind in REFINEMENTS}
        report.references.extend(Reference(name, kind, len(pairs)) for kind, pairs in told.items())
        batches = copies(graphs, settings.relabelings)
        for model in settings.models:
            gaps = relative_gaps(model, graphs, batches, settings)
            apart = gaps.told_apart()
            report.counts.append(gaps.count(model, name))
            if model in possible:
                fits = [k for k in possible[model] if apart is not None and apart <= told[k]]
                possible[model] = fits
            elif apart is not None and model in BOUND:
                beyond = apart - told[BOUND[model]]
                assert not beyond, (
                    f"{model} distinguishes pairs {sorted(beyond)} of {name}, which "
                    f"{BOUND[model]} cannot"
                )
    report.bounds.update({model: kinds[0] for model, kinds in possible.items() if kinds})
    return report


def reference_pairs(graphs: Family, refinement: str) -> set[tuple[int, int]]:
    """The pairs that a refinement distinguishes."""
    rows = REFINEMENTS[refinement]
    return {(a, b) for a, b in graphs.pairs if told_apart(graphs.graphs[a], graphs.graphs[b], rows)}


@dataclass(frozen=True)
class Gaps:
    """The largest relative difference over all seeds: of each pair, and between any copies."""

    pairs: dict[tuple[int, int], float]
    copies: float

    @property
    def tolerance(self) -> float:
        """What the difference of a pair must exceed to be distinguished."""
        return max(FLOOR, FACTOR * self.copies)

    def told_apart(self) -> set[tuple[int, int]] | None:
        """The pairs that differ by more than the tolerance; None if it is not invariant."""
        if self.copies > LIMIT:
            return None
        return {pair for pair, gap in self.pairs.items() if gap > self.tolerance}

    def count(self, model: str, name: str) -> Count:
        apart = self.told_apart()
        if apart is None:
            return Count(model, name, None, self.copies, self.tolerance, None, None)
        smallest = min((self.pairs[pair] for pair in apart), default=None)
        other = max((self.pairs[pair] for pair in self.pairs.keys() - apart), default=None)
        return Count(model, name, len(apart), self.copies, self.tolerance, smallest, other)


def copies(graphs: Family, relabelings: int) -> list[Topology]:
    """The graphs of a family in batches: first as they are, then all relabelled, and so on."""
    generator = torch.Generator().manual_seed(0)
    everything = list(graphs.graphs)
    for _ in range(relabelings):
        everything += [_shuffled(graph, generator) for graph in graphs.graphs]
    pairs = torch.tensor([len(graph) ** 2 for graph in everything])
    parts = plan_batches(torch.arange(len(everything)), pairs, len(everything), CHUNK)
    return [topology([everything[k] for k in part.tolist()]) for part in parts]


def relative_gaps(
    model: str, graphs: Family, batches: Sequence[Topology], settings: Settings
) -> Gaps:
    """Run a network with fresh weights for every seed, and compare its outputs."""
    pairs = dict.fromkeys(graphs.pairs, 0.0)
    largest = 0.0
    for seed in range(settings.seeds):
        network = _called(model, graphs, settings, seed)
        with torch.no_grad():
            parts = [network(batch) for batch in batches]
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


def _called(
    model: str, graphs: Family, settings: Settings, seed: int
) -> Callable[[Topology], Tensor]:
    """What gives one row per graph, with fresh weights."""
    if ":" in model:
        torch.manual_seed(seed)
        return OwnNetwork(model)
    network = random_network(model, graphs, settings, seed)
    return lambda batch: network(None, batch.edge_index, None, batch.batch)


def random_network(model: str, graphs: Family, settings: Settings, seed: int) -> nn.Module:
    """The network with fresh weights for the graphs of a family, in float64 and eval mode."""
    most = max(len(graph) for graph in graphs.graphs)
    spec = replace(network_spec(model, settings), max_nodes=most)
    torch.manual_seed(seed)
    return rescaled(spec.build().double().eval())


def _relative(first: Tensor, second: Tensor) -> Tensor:
    """The largest difference of two outputs relative to their largest entry, [K, C] to [K]."""
    scale = torch.maximum(first.abs().amax(1), second.abs().amax(1)).clamp(min=1e-300)
    return (first - second).abs().amax(1) / scale


def _shuffled(graph: nx.Graph, generator: torch.Generator) -> nx.Graph:
    """The same graph with its nodes renamed and its edges listed in another order."""
    names = torch.randperm(len(graph), generator=generator).tolist()
    edges = [(names[a], names[b]) for a, b in graph.edges]
    shuffled = nx.empty_graph(len(graph))
    shuffled.add_edges_from(edges[k] for k in torch.randperm(len(edges), generator=generator))
    return shuffled


def size_table(report: Report) -> Table:
    rows = [[size.family, size.graphs, size.pairs, size.text] for size in report.families]
    return [["family", "graphs", "pairs", "what they are"], *rows]


def count_table(report: Report, *, refinements: bool = True) -> Table:
    """Pairs distinguished by every refinement and network, with the bound of the network."""
    families = [size.family for size in report.families]
    rows: list[list[object]] = [["pairs", "", *(size.pairs for size in report.families)]]
    for kind in REFINEMENTS if refinements else ():
        told = [one.told_apart for one in report.references if one.refinement == kind]
        rows.append([f"{kind} refinement", "", *told])
    for model in report.settings.models:
        counts = [count.told_apart for count in report.counts if count.model == model]
        cells = ["not invariant" if count is None else count for count in counts]
        rows.append([model, report.bounds.get(model, "–"), *cells])
    return [["", "bound", *families], *rows]


def summary(report: Report) -> str:
    """How it was measured, and how clearly differences stand out from rounding."""
    settings = report.settings
    sentences = [
        f"{settings.layers} layers of width {settings.width}, {settings.seeds} seeds, "
        f"{settings.relabelings} relabelled copies of each graph.",
        f"The tolerance is {FACTOR:g} times the largest difference between copies of one graph, "
        f"and at least {power(FLOOR)}.",
    ]
    invariant = [count for count in report.counts if count.told_apart is not None]
    if invariant:
        noise = max(count.copies_gap for count in invariant)
        sentences.append(f"Copies differ by at most {power(noise)} in networks that are invariant.")
    wild = [count.copies_gap for count in report.counts if count.told_apart is None]
    if wild:
        sentences.append(
            f"A network whose copies differ by more than {power(LIMIT)} is not invariant, and a "
            f"count would mean nothing; here they differ by at least {power(min(wild))}."
        )
    gaps = [(c.smallest_gap, c.tolerance) for c in invariant if c.smallest_gap is not None]
    if gaps:
        sentences.append(
            f"Distinguished pairs differ by at least {power(min(gap for gap, _ in gaps))}, and by "
            f"at least {min(gap / most for gap, most in gaps):.2g} times the tolerance of their "
            "network and family."
        )
    return " ".join(sentences)


#: What `run` measures unless told otherwise.
QUICK = Settings(models=("smp", "fast-smp", "mpnn", "gin", "ppgn"), seeds=3)


def run(settings: Settings = QUICK, output: str | None = None) -> None:
    """Measure, print the counts, and write them to a file if one is named."""
    report = measure(settings)
    print("Pairs distinguished by networks with random weights, in float64:")
    print_table(count_table(report))
    print(fill(summary(report), 100))
    if output is not None:
        report.write(output)
        print(f"Counts: {output}")
