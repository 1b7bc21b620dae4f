"""BREC's protocol: one pair, a whole training with its records, and the page that shows them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from smpgnn.data.brec import GraphPair
from smpgnn.errors import InputError
from smpgnn.paper.experiments import brec
from smpgnn.paper.experiments.brec import Comparison, compare
from smpgnn.paper.experiments.brec_options import BrecOptions, UntrainedBrecOptions
from smpgnn.paper.experiments.plan import Job, Request, make_plan
from smpgnn.paper.experiments.protocol import Reduction
from smpgnn.paper.experiments.records import Pairs, read_records, write_record
from smpgnn.paper.experiments.worker import perform
from smpgnn.paper.report.collect import collect
from smpgnn.paper.report.render import markdown, page


def beside_a_path(*graphs: nx.Graph) -> nx.Graph:
    """With several kinds of nodes: if all are alike, sums do not even differ by rounding."""
    whole: nx.Graph = nx.disjoint_union_all([*graphs, nx.path_graph(3)])
    return whole


RING = beside_a_path(nx.cycle_graph(6))
TRIANGLES = beside_a_path(nx.cycle_graph(3), nx.cycle_graph(3))
LADDERS = (
    beside_a_path(nx.circular_ladder_graph(3)),
    beside_a_path(nx.complete_bipartite_graph(3, 3)),
)
SMALL = {"hidden_channels": 8, "num_layers": 4}
CPU = torch.device("cpu")


def apart(pair: GraphPair, options: BrecOptions, **changes: object) -> Comparison:
    return Comparison(0, *compare(pair, 0, options.changed(**SMALL, **changes), CPU), 0.0)


def test_the_statistic_by_its_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    out = torch.randn(64, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    monkeypatch.setattr(brec, "_outputs", lambda network, index: out)
    gap = (out[::2] - out[1::2]).numpy()
    mean = gap.mean(0)
    wanted = mean @ np.linalg.inv(np.cov(gap, rowvar=False)) @ mean
    assert brec._statistic(torch.nn.Identity(), [None]) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("statistic", "of_copies", "told", "reliable"),
    [(73.0, 1.0, True, True), (72.0, 1.0, False, True), (90.0, 90.0, False, False),
     (90.0, 89.0, True, False), (90.0, float("nan"), True, False)],
)  # fmt: skip
def test_when_a_pair_counts(statistic: float, of_copies: float, told: bool, reliable: bool) -> None:
    comparison = Comparison(0, statistic, of_copies, 0, 0.0)
    assert (comparison.told_apart, comparison.reliable) == (told, reliable)


def test_copies_are_the_same_graphs_with_other_names() -> None:
    graphs = [nx.barabasi_albert_graph(7, 2, seed=1), nx.path_graph(4)] * 3
    batch = brec._relabelled(graphs, np.random.default_rng(0), CPU)
    for number, graph in enumerate(graphs):
        first = int(batch.graph_ptr[number])
        mine = batch.edge_index[:, batch.batch[batch.edge_index[0]] == number] - first
        copy = nx.Graph(mine.T.tolist())
        assert nx.is_isomorphic(copy, graph)
    edges = {tuple(batch.edge_index[:, :20].flatten().tolist())}
    again = brec._relabelled(graphs, np.random.default_rng(1), CPU)
    assert tuple(again.edge_index[:, :20].flatten().tolist()) not in edges


@pytest.mark.parametrize(("model", "told"), [("smp", True), ("gin", False), ("ppgn", True)])
def test_random_weights(model: str, told: bool) -> None:
    found = apart(GraphPair("", RING, TRIANGLES), UntrainedBrecOptions(), model=model)
    assert found.told_apart is told
    assert found.reliable
    assert found.epochs == 0


def test_a_graph_is_not_distinguished_from_itself() -> None:
    graph = nx.barabasi_albert_graph(8, 2, seed=0)
    renamed = nx.relabel_nodes(graph, {k: (3 * k) % 8 for k in range(8)})
    pair = GraphPair("", graph, nx.convert_node_labels_to_integers(renamed))
    assert not apart(pair, UntrainedBrecOptions()).told_apart
    assert not apart(pair, BrecOptions(), epochs=2).told_apart


def test_training_makes_outputs_dissimilar_and_stops() -> None:
    torch.manual_seed(0)
    options = BrecOptions().changed(hidden_channels=16, num_layers=4)
    network = brec.fresh_network(options)
    batches = brec._indices(network, [RING, TRIANGLES] * 32, np.random.default_rng(0), 16, CPU)

    def similarity() -> float:
        out = torch.cat([brec._outputs(network, index) for index in batches])
        return torch.cosine_similarity(out[::2], out[1::2]).mean().item()

    before = similarity()
    epochs = brec._train(network, batches, options)
    assert similarity() < before - 0.5
    assert 1 < epochs < options.epochs


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A file like BREC's with four pairs in two categories."""
    pairs = [(RING, TRIANGLES), LADDERS]
    lines = [
        "\t".join([category, *(nx.to_graph6_bytes(g, header=False).decode().strip() for g in pair)])
        for category in ("Basic", "CFI")
        for pair in pairs
    ]
    (tmp_path / "pairs.tsv").write_text("\n".join(["category\tfirst\tsecond", *lines]) + "\n")
    return tmp_path


def job(data: Path, table: str = "brec_untrained", row: str = "SMP") -> Job:
    request = Request(
        table,
        rows=(row,),
        reduction=Reduction(settings={name: str(value) for name, value in SMALL.items()}),
        results=str(data / "results"),
        work_dir=str(data / "work"),
        data_dir=str(data),
        device="cpu",
    )
    plan = make_plan([request])
    assert [final.options.seed for final in plan.finals[:2]] == [100, 200]
    return plan.finals[0]


def test_a_training_can_be_resumed_after_each_pair(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smpgnn.paper.experiments import brec as module

    one, calls, whole = job(data), [], module.compare

    def counted(pair: GraphPair, number: int, *rest: object) -> tuple[float, float, int]:
        calls.append(number)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return whole(pair, number, *rest)

    monkeypatch.setattr(module, "compare", counted)
    with pytest.raises(KeyboardInterrupt):
        perform(one)
    text = perform(one)
    assert calls == [0, 1, 2, 2, 3]
    assert "Basic: 2 of 2" in text
    assert "all: 4 of 4" in text
    records = {record.cell: record for record in read_records(data / "results")}
    assert records["CFI"].pairs == Pairs(2, (2, 3), ())
    assert records["all"].value == 4
    assert records["Regular"].pairs == Pairs(0, (), ())
    assert np.isnan(records["all"].validation)
    assert records["all"].config["hidden_channels"] == 8
    assert make_plan([one.request]).finals[0].answered


def test_the_official_protocol_runs(data: Path) -> None:
    one = job(data, "brec", "GIN")
    one = replace(one, options=one.options.changed(epochs=1))
    perform(one)
    records = {record.cell: record for record in read_records(data / "results")}
    assert records["all"].value <= 0  # all pairs are equal for message passing
    assert records["all"].epochs == 1


def test_damaged_results_of_pairs(data: Path) -> None:
    one = job(data)
    one.folder.mkdir(parents=True)
    (one.folder / "pairs.json").write_text("[{]")
    with pytest.raises(InputError, match=r"pairs\.json: cannot be read: delete its folder"):
        perform(one)


def test_the_page_shows_published_rows_and_unreliable_seeds(data: Path) -> None:
    perform(job(data))
    results = data / "results"
    for record in read_records(results):
        full = replace(record, reduced=False)
        if record.cell == "CFI":
            full = replace(full, pairs=Pairs(2, (2, 3), (3,)), value=1.0)
        write_record(results, replace(full, table="brec"))
        write_record(results, full)
    text = markdown(collect(results))
    assert "N²-GNN (published)" in page(collect(results))
    assert "| N²-GNN (published) |" in text
    assert "Unreliable pairs: SMP, seed 100, 1 in CFI (100)." in text
    assert json.loads(next(results.glob("brec/smp/all-*.json")).read_text())["validation"] is None
