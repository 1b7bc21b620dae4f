"""The memory of a step is measured beforehand, and a batch that cannot fit is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import CYCLES
from strategies import SCHEMES
from sweep import sweep
from torch_geometric.data import Data

import smpgnn
from smpgnn.config.models import MODELS
from smpgnn.config.network import TERMS
from smpgnn.config.options import CyclesOptions
from smpgnn.data.base import Splits
from smpgnn.data.cycles import cycle_graphs
from smpgnn.data.properties import property_graphs
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec
from smpgnn.training import memory, memory_probe
from smpgnn.training.memory import available_bytes, check_memory
from smpgnn.training.memory_probe import (
    StepMemory,
    count_parameters,
    live_bytes,
    probe,
    step_bytes,
)
from smpgnn.training.row_counts import context_rows, count_rows

CPU = torch.device("cpu")


def spec(model: str = "smp", identifiers: str = "onehot", **options: Any) -> NetworkSpec:
    channels = {"in_channels": 0, "edge_channels": 0, "node_outputs": 0, "graph_outputs": 1}
    for name in set(channels) & set(options):
        channels[name] = options.pop(name)
    given = {"hidden_channels": 8, "num_layers": 2, **options}
    options = CyclesOptions().changed(model=model, identifiers=identifiers, **given)
    return NetworkSpec(options=options.network, **channels)


def measured(store: GraphStore, network: NetworkSpec, **options: str) -> StepMemory:
    return probe(store, network, CPU, count_rows(store, network), **options)


def need(store: GraphStore, network: NetworkSpec, batch_size: int) -> int:
    counts, limited = count_rows(store, network), context_rows(store.num_nodes, network)
    return measured(store, network).of_batch(counts, batch_size, limited, 0)


@pytest.mark.parametrize("model", MODELS)
def test_weights_are_counted_without_memory_for_them(model: str) -> None:
    before = torch.get_rng_state()
    assert count_parameters(spec(model, hidden_channels=2**16)) > 2**32
    small = count_parameters(spec(model))
    assert torch.equal(before, torch.get_rng_state())
    assert small == sum(weight.numel() for weight in spec(model).build().parameters())


def test_live_bytes_follow_tensors_until_they_are_freed() -> None:
    with live_bytes(CPU) as peak:
        first = torch.zeros(1000)
        view = first.view(10, 100)[2:]
        del first
        torch.ones(500)
        view += torch.ones(100)
    assert peak[0] == 4 * 1500
    with live_bytes(CPU) as peak:
        kept = torch.ones(1000, requires_grad=True)
        kept.exp().square().sum().backward()
    assert 4 * 4000 <= peak[0] <= 4 * 6002


WIDE = {"hidden_channels": 24, "num_layers": 4}
MESSAGES = {"in_channels": 5, "edge_channels": 3, "message_residual": True, "update_residual": True}
BOTH = {"node_outputs": 2, "in_channels": 2, "extractor_channels": 16, "towers": 4}
NODES = {"node_outputs": 1, "graph_outputs": 0}
CASES: dict[str, NetworkSpec] = {
    "default, edges and residuals": spec(**WIDE, **MESSAGES),
    "default, checkpoint": spec(**WIDE, **MESSAGES, checkpoint=True),
    "default, neighborhood": spec(identifiers="neighborhood", **WIDE, **MESSAGES),
    "default, nodes": spec(**WIDE, **NODES),
    "default, several": spec(**WIDE, **BOTH),
    "fast": spec("fast-smp", **WIDE),
    "fast, coloring": spec("fast-smp", "coloring", **WIDE),
    "fast, neighborhood, nodes": spec("fast-smp", "neighborhood", **WIDE, **NODES),
    "default, local": spec(identifiers="local", **WIDE, **MESSAGES, context_radius=2),
    "pairs": spec(identifiers="pairs", **WIDE, context_radius=2),
    "family": spec(identifiers="local", **WIDE, **MESSAGES, context_radius=2, terms=TERMS,
                   features="both", first_rows=("distance", "bond", "walks")),
    "family, all rows": spec(**WIDE, **MESSAGES, terms=("inside", "product", "block-product")),
    "ablation": spec("mpnn", hidden_channels=64, num_layers=4, in_channels=5),
    "gin": spec("gin", **WIDE),
    "pna": spec("pna", **WIDE, edge_channels=3),
    "dgn": spec("dgn", **WIDE),
    "ppgn": spec("ppgn", **WIDE),
}  # fmt: skip


def features(store: GraphStore, network: NetworkSpec) -> GraphStore:
    return replace(
        store,
        x=torch.rand(int(store.node_ptr[-1]), network.in_channels),
        edge_attr=torch.rand(int(store.edge_ptr[-1]), network.edge_channels),
    )


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", ["default, edges and residuals", "default, local", "gin"])
def test_the_probe_predicts_the_peak_on_a_gpu(name: str) -> None:
    network, device = CASES[name], torch.device("cuda")
    store = features(cycle_graphs(4, 28, 2000, seed=0), network)
    counts, state = count_rows(store, network), torch.cuda.get_rng_state()
    found = probe(store, network, device, counts)
    assert torch.equal(state, torch.cuda.get_rng_state())
    real = step_bytes(store, network, device) + 8 * count_parameters(network)
    assert 1 / 1.5 < found.of_batch(counts, 2000, counts[:, 0], 0) / real < 1.5


USUAL = (
    "default, edges and residuals", "fast, coloring", "default, local", "pairs", "family", "gin",
    "ppgn",
)  # fmt: skip


@pytest.mark.parametrize("name", sweep(CASES, always=lambda name: name in USUAL))
def test_the_probe_predicts_the_peak_of_a_larger_batch(name: str) -> None:
    """Of sixty graphs of 28 nodes; the probe sees a few of them."""
    network = CASES[name]
    store = features(cycle_graphs(4, 28, 60, seed=0), network)
    real = step_bytes(store, network, CPU) + 8 * count_parameters(network)  # AdamW's states
    assert 1 / 1.5 < need(store, network, 60) / real < 1.5


def grid(side: int) -> GraphStore:
    place = torch.arange(side**2).view(side, side)
    right = torch.stack([place[:, :-1].flatten(), place[:, 1:].flatten()])
    down = torch.stack([place[:-1].flatten(), place[1:].flatten()])
    edges = torch.cat([right, right.flip(0), down, down.flip(0)], dim=1)
    return GraphStore(torch.tensor([0, side**2]), torch.tensor([0, edges.size(1)]), edges)


@pytest.mark.parametrize(
    "network",
    [
        spec(identifiers="neighborhood", num_layers=3, **NODES),
        spec("fast-smp", "local", **NODES),
        spec("gat", hidden_channels=64, **NODES),
    ],
    ids=lambda network: network.options.model,
)
def test_the_probe_takes_a_piece_of_a_large_graph(network: NetworkSpec) -> None:
    store = grid(40)
    counts = count_rows(store, network)
    sample = memory_probe._sample(store, network, counts, 2**16)
    assert int(sample.node_ptr[-1]) <= 512 < 1600
    assert float(sample.num_edges[0]) > 2 * float(sample.num_nodes[0])
    real = step_bytes(store, network, CPU) + 8 * count_parameters(network)
    assert 1 / 1.5 < need(store, network, 1) / real < 1.5


@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("hidden_channels", [8, 64, 2048])
def test_the_probe_is_small(identifiers: str, hidden_channels: int) -> None:
    network = spec(identifiers=identifiers, hidden_channels=hidden_channels)
    for store in (cycle_graphs(4, 20, 100, seed=0), grid(30)):
        sample = memory_probe._sample(store, network, count_rows(store, network), 2**16)
        assert 1 <= len(sample) <= 64
        rows = float(count_rows(sample, network)[:, 0].sum())
        assert rows * hidden_channels <= 2**16 or rows <= 64


def test_the_probe_leaves_no_trace() -> None:
    torch.manual_seed(3)
    store, network = cycle_graphs(4, 20, 100, seed=0), spec("smp", "local", dropout=0.5, **WIDE)
    state = torch.get_rng_state()
    first = measured(store, network)
    assert torch.equal(state, torch.get_rng_state())
    with torch.no_grad():
        assert measured(store, network) == first


@pytest.mark.parametrize("model", MODELS)
def test_every_network_can_be_probed(model: str) -> None:
    """Single nodes, graphs without edges, one graph alone, and cycles."""
    network = replace(spec(model), max_nodes=12)
    assert measured(cycle_graphs(4, 12, 4, seed=0), network).per_row > 0
    for sizes in ([1], [1, 1, 3], [4]):
        ptr = torch.tensor([0, *sizes]).cumsum(0)
        store = GraphStore(ptr, torch.zeros_like(ptr), torch.zeros(2, 0, dtype=torch.long))
        found = measured(store, network)
        assert found.per_row > 0
        assert found.per_message == 0
        assert found.fixed >= 16 * count_parameters(network) * 0.9


def test_the_need_grows_with_what_needs_memory() -> None:
    store = cycle_graphs(4, 12, 40, seed=0)
    small = need(store, spec(), 4)
    assert 0 < small < need(store, spec(), 8)
    assert need(store, spec("mpnn"), 4) < small
    assert need(store, spec(), 10**6) == need(store, spec(), 40)
    long = {"num_layers": 8, "hidden_channels": 16}
    assert need(store, spec(**long, checkpoint=True), 8) < need(store, spec(**long), 8) / 1.3
    assert need(store, spec("fast-smp"), 8) < need(store, spec(), 8)


def test_precision_and_optimiser_count() -> None:
    store = cycle_graphs(4, 12, 40, seed=0)
    plain = measured(store, spec(**WIDE))
    assert measured(store, spec(**WIDE), precision="bfloat16").per_row < 0.8 * plain.per_row
    momentum = measured(store, spec(**WIDE), optimizer="sgd")
    assert plain.fixed - momentum.fixed == 4 * count_parameters(spec(**WIDE))


def test_what_is_free_is_positive_and_less_than_all() -> None:
    assert 2**20 < available_bytes(CPU) < 2**50


@pytest.mark.parametrize("identifiers", SCHEMES)
def test_a_batch_is_refused_and_batch_rows_helps(
    identifiers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, network = cycle_graphs(4, 12, 40, seed=0), spec(identifiers=identifiers)
    free = need(store, network, 10)
    monkeypatch.setattr(memory, "available_bytes", lambda device: free)
    check_memory(store, network, 10, 0, CPU)
    with pytest.raises(InputError, match=r"may need .* GiB, but .* GiB are free on cpu: lower --b"):
        check_memory(store, network, 11, 0, CPU)
    check_memory(store, network, 40, 500, CPU)


def test_one_graph_that_is_too_large_is_refused_without_a_probe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    n = 10**6  # 10^12 rows: more than there is anywhere
    huge = GraphStore(
        torch.tensor([0, n, n + 3]), torch.tensor([0, 2, 4]), torch.tensor([[0, 1] * 2, [1, 0] * 2])
    )
    check_memory(huge, spec(identifiers="neighborhood", hidden_channels=1), 1, 0, CPU)
    monkeypatch.delattr(memory, "probe")
    for batch_rows in (0, 1000):
        with pytest.raises(InputError, match=r"largest graph, of 1000000 nodes, need about .* GiB"):
            check_memory(huge, spec(), 1, batch_rows, CPU)
    check_memory(huge.select([1]), spec(), 1, 0, CPU)  # fits many times over


def test_a_network_that_is_too_wide_is_refused_without_weights() -> None:
    store = cycle_graphs(4, 12, 4, seed=0)
    with pytest.raises(InputError, match="or a smaller network"):
        check_memory(store, spec(hidden_channels=2**16, num_layers=100), 1, 0, CPU)


def test_training_refuses_before_it_makes_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda device: 10**6)
    with pytest.raises(InputError, match=r"lower --batch-size \(now 64\)"):
        smpgnn.train("cycles", output=str(tmp_path / "run"), quiet=True, **CYCLES)
    graph = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=400, y=torch.tensor(1.0))
    with pytest.raises(InputError, match="largest graph, of 400 nodes"):
        smpgnn.train(
            "graphs",
            [graph, graph, Data(edge_index=graph.edge_index, num_nodes=400, y=torch.tensor(2.0))],
            identifiers="onehot",
            task="regression",
            output=str(tmp_path / "run"),
            quiet=True,
        )
    assert list(tmp_path.iterdir()) == []


def test_a_run_after_a_probe_learns_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(name: str) -> smpgnn.training.train.Result:
        output = str(tmp_path / name)
        return smpgnn.train("cycles", output=output, quiet=True, **{**CYCLES, "epochs": 2})

    plain = run("plain")
    probed = []
    monkeypatch.setattr(memory, "_AMPLE", 1e9)  # so that nothing fits without a probe
    monkeypatch.setattr(memory, "probe", lambda *a, **k: probed.append(probe(*a, **k)) or probed[0])
    after = run("probed")
    assert len(probed) == 1
    assert after.validation == plain.validation
    for name, value in plain.saved.network.state_dict().items():
        assert torch.equal(value, after.saved.network.state_dict()[name])


def test_a_run_with_checkpointing_learns_the_same(tmp_path: Path) -> None:
    found = [
        smpgnn.train(
            "cycles",
            output=str(tmp_path / str(checkpoint)),
            quiet=True,
            **{**CYCLES, "epochs": 2, "batch_size": 32, "checkpoint": checkpoint},
        )
        for checkpoint in (False, True)
    ]
    assert found[1].saved.spec.options.checkpoint
    for name, value in found[0].validation.items():
        assert found[1].validation[name] == pytest.approx(value, rel=1e-4)


def test_info_shows_rows_and_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from smpgnn.cli.main import run
    from smpgnn.data import properties

    graphs = property_graphs((6, 7, 8), 4, seed=0)
    monkeypatch.setattr(properties, "property_splits", lambda **_: Splits(graphs, graphs, graphs))

    def shown(*words: str) -> tuple[str, float, float]:
        assert run(["info", "properties", "--batch-size", "8", *words]) == 0
        head, parts = capsys.readouterr().out.splitlines()[3:]
        numbers = [float(word.replace(",", "")) for word in parts.split() if word[0].isdigit()]
        rows, per_row, messages, per_message, fixed = numbers
        total = (rows * per_row + messages * per_message) / 1024 + fixed
        assert total == pytest.approx(float(head.split()[-2]), abs=1)
        return head, rows, per_row

    head, rows, per_row = shown()
    assert head.startswith("memory of a training step of smp with 8 graphs on ")
    assert rows == 4 * (8**2 + 7**2)
    assert shown("--checkpoint")[2] < per_row
    assert shown("--model", "fast-smp")[2] < per_row
    assert shown("--model", "gin")[1] == 4 * (8 + 7)
    near, far = (shown("--identifiers", "local", "--context-radius", r)[1] for r in ("1", "2"))
    assert near < far <= rows
    with pytest.raises(InputError, match="identifiers must be one of onehot"):
        shown("--identifiers", "none")
    with pytest.raises(InputError, match="--context-radius: must be a whole number"):
        shown("--context-radius", "0")
