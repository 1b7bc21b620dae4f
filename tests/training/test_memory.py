"""The memory of a step is known beforehand, and a batch that cannot fit is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from small_runs import CYCLES
from strategies import SCHEMES
from torch import Tensor
from torch_geometric.data import Data

import smpgnn
from smpgnn.capture.memory import LIBRARIES_BESIDE, recorded_memory
from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.capture.padded_rows import DataLocal, DataOneHot
from smpgnn.config.catalogue import MODELS
from smpgnn.config.options import CyclesOptions
from smpgnn.data.base import Splits
from smpgnn.data.cycles import cycle_graphs
from smpgnn.data.properties import property_graphs
from smpgnn.data.store import GraphStore
from smpgnn.errors import InputError
from smpgnn.models.registry import NetworkSpec
from smpgnn.training import memory
from smpgnn.training.estimate import count_parameters, step_memory
from smpgnn.training.loader import store_bytes
from smpgnn.training.memory import available_bytes, check_memory, largest_batch_memory
from smpgnn.training.row_counts import count_rows

CPU = torch.device("cpu")
MIB = 2**20


def spec(model: str = "smp", identifiers: str = "onehot", **options: Any) -> NetworkSpec:
    channels = {"in_channels": 0, "edge_channels": 0, "node_outputs": 0, "graph_outputs": 1}
    for name in set(channels) & set(options):
        channels[name] = options.pop(name)
    given = {"hidden_channels": 8, "num_layers": 2, **options}
    return NetworkSpec.from_options(
        CyclesOptions(model=model, identifiers=identifiers, **given), **channels
    )


@pytest.mark.parametrize("model", MODELS)
def test_weights_are_counted_without_room_for_them(model: str) -> None:
    before = torch.get_rng_state()
    assert count_parameters(spec(model, hidden_channels=2**16)) > 2**32
    small = count_parameters(spec(model))
    assert torch.equal(before, torch.get_rng_state())
    assert small == sum(weight.numel() for weight in spec(model).build().parameters())


def need(store: GraphStore, network: NetworkSpec, batch_size: int) -> int:
    return largest_batch_memory(store, network, batch_size, CPU).total


def measured_peak(network: NetworkSpec, store: GraphStore) -> int:
    """The most bytes of tensors alive at once in the second step of training with AdamW.

    Counted from what the profiler sees of the step, and what is there before it.
    """
    torch.manual_seed(0)
    batch, model = store.batch(), network.build()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    edge_attr = torch.rand(batch.edge_index.size(1), network.edge_channels)
    given = (
        torch.rand(batch.num_nodes, network.in_channels) if network.in_channels else None,
        batch.edge_index,
        edge_attr if network.edge_channels else None,
        batch.batch,
    )

    def step() -> None:
        out = model(*given, batch_size=batch.num_graphs)
        parts = [out] if isinstance(out, Tensor) else out
        sum(part.square().mean() for part in parts).backward()
        optimizer.step()

    step()
    optimizer.zero_grad(set_to_none=True)
    there = [*(value for value in given if value is not None), *model.parameters()]
    there += [value for state in optimizer.state.values() for value in state.values()]
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        step()
    events = profile.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    live = peak = 0
    for _, nbytes in sorted(changes, key=lambda change: change[0]):
        live += nbytes
        peak = max(peak, live)
    return peak + sum(value.numel() * value.element_size() for value in there)


WIDE = {"hidden_channels": 24, "num_layers": 4}
MESSAGES = {"in_channels": 5, "edge_channels": 3, "message_residual": True, "update_residual": True}
BOTH = {"node_outputs": 2, "in_channels": 2, "extractor_channels": 16, "towers": 4}
NODES = {"node_outputs": 1, "graph_outputs": 0}
CASES: dict[str, NetworkSpec] = {
    "default": spec(**WIDE),
    "default, edges and residuals": spec(**WIDE, **MESSAGES),
    "default, no norm": spec(**WIDE, norm="none", residual=False),
    "default, layer norm": spec(**WIDE, norm="layer"),
    "default, checkpoint": spec(**WIDE, **MESSAGES, checkpoint=True),
    "default, neighborhood": spec(identifiers="neighborhood", **WIDE, **MESSAGES),
    "default, nodes": spec(**WIDE, **NODES),
    "default, several": spec(**WIDE, **BOTH),
    "many features": spec(num_layers=2, hidden_channels=4, in_channels=60),
    "fast": spec("fast-smp", **WIDE),
    "fast, coloring": spec("fast-smp", "coloring", **WIDE),
    "fast, neighborhood": spec("fast-smp", "neighborhood", **WIDE),
    "fast, neighborhood, nodes": spec("fast-smp", "neighborhood", **WIDE, **NODES),
    "fast, neighborhood, checkpoint": spec("fast-smp", "neighborhood", **WIDE, checkpoint=True),
    "default, local": spec(identifiers="local", **WIDE, **MESSAGES, context_radius=2),
    "fast, local": spec("fast-smp", "local", **WIDE),
    "fast, local, nodes": spec("fast-smp", "local", **WIDE, **NODES),
    "default, local, checkpoint": spec(identifiers="local", **WIDE, checkpoint=True),
    "fast, nodes, checkpoint": spec("fast-smp", **WIDE, **NODES, checkpoint=True),
    "fast, several, checkpoint": spec("fast-smp", **WIDE, **BOTH, checkpoint=True),
    "ablation": spec("mpnn", hidden_channels=64, num_layers=4, in_channels=5),
    "fast ablation, several": spec("fast-mpnn", **WIDE, **BOTH),
}


@pytest.fixture(scope="module")
def graphs() -> GraphStore:
    return cycle_graphs(4, 28, 12, seed=0)


@pytest.mark.parametrize("name", CASES)
def test_the_estimate_is_within_a_fifth_of_the_measured_peak(name: str, graphs: GraphStore) -> None:
    network = CASES[name]
    estimate = step_memory(network, count_rows(graphs, network).batch(), CPU)
    assert estimate.total == pytest.approx(measured_peak(network, graphs), rel=0.2)
    assert not estimate.rough


def test_the_estimate_holds_for_batches_of_all_sizes() -> None:
    network = CASES["default, edges and residuals"]
    for count in (1, 5, 25):
        graphs = cycle_graphs(4, 28, count, seed=1)
        estimate = step_memory(network, count_rows(graphs, network).batch(), CPU)
        assert estimate.total == pytest.approx(measured_peak(network, graphs), rel=0.2)


def test_rivals_have_a_rough_estimate(graphs: GraphStore) -> None:
    for model in ("gin", "pna", "ppgn"):
        network = spec(model, **WIDE)
        found = step_memory(network, count_rows(graphs, network).batch(), CPU)
        assert found.rough
        assert 1 / 3 < found.total / measured_peak(network, graphs) < 3


def test_the_estimate_grows_with_what_needs_memory() -> None:
    store = cycle_graphs(4, 12, 40, seed=0)
    small = need(store, spec(), 4)
    assert 0 < small < need(store, spec(), 8)
    assert need(store, spec("mpnn"), 4) < small
    assert need(store, spec(), 10**6) == need(store, spec(), 40)
    long = {"num_layers": 8, "hidden_channels": 16}
    assert need(store, spec(**long, checkpoint=True), 8) < need(store, spec(**long), 8) / 1.5
    assert need(store, spec("fast-smp"), 8) < need(store, spec(), 8)


def test_precision_device_and_optimiser_count() -> None:
    batch = count_rows(cycle_graphs(4, 12, 40, seed=0), spec()).batch()
    plain = step_memory(spec(), batch, CPU)
    assert step_memory(spec(), batch, CPU, precision="bfloat16").kept < 0.6 * plain.kept
    momentum = step_memory(spec(), batch, CPU, optimizer="sgd")
    assert momentum.weights == 0.75 * plain.weights
    assert step_memory(spec(), batch, torch.device("cuda")).total > 0


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


def test_one_graph_that_is_too_large_is_told_as_such() -> None:
    n = 10**6  # 10^12 rows: more than there is anywhere
    huge = GraphStore(
        torch.tensor([0, n, n + 3]), torch.tensor([0, 2, 4]), torch.tensor([[0, 1] * 2, [1, 0] * 2])
    )
    for batch_rows in (0, 1000):
        with pytest.raises(InputError, match=r"largest graph, of 1000000 nodes, need about .* GiB"):
            check_memory(huge, spec(), 1, batch_rows, CPU)
    check_memory(huge, spec(identifiers="neighborhood", hidden_channels=1), 1, 0, CPU)
    check_memory(huge.select([1]), spec(), 1, 0, CPU)


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
    assert found[1].saved.spec.checkpoint
    for name, value in found[0].validation.items():
        assert found[1].validation[name] == pytest.approx(value, rel=1e-4)


def test_info_shows_the_parts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from smpgnn.cli.main import run
    from smpgnn.data import properties

    graphs = property_graphs((6, 7, 8), 4, seed=0)
    monkeypatch.setattr(properties, "property_splits", lambda **_: Splits(graphs, graphs, graphs))

    def shown(*words: str) -> tuple[str, float, dict[str, float]]:
        assert run(["info", "properties", "--batch-size", "8", *words]) == 0
        lines = capsys.readouterr().out.splitlines()[3:]
        parts = {line.split()[0]: float(line.split()[1]) for line in lines[1:]}
        return lines[0], float(lines[0].split()[-2]), parts

    head, total, parts = shown()
    assert head.startswith("memory of a training step of smp with 8 graphs on ")
    assert list(parts) == ["kept", "passing", "index", "weights"]
    assert sum(parts.values()) == pytest.approx(total, abs=1)
    assert shown("--checkpoint")[2]["kept"] < parts["kept"] / 2
    assert shown("--model", "fast-smp")[2]["kept"] < parts["kept"]
    assert "roughly" in shown("--model", "gin")[0]
    assert shown("--identifiers", "neighborhood")[2]["index"] > parts["index"]
    near, far = (shown("--identifiers", "local", "--context-radius", r)[2] for r in ("1", "2"))
    assert near["kept"] < far["kept"]
    with pytest.raises(InputError, match="identifiers must be one of onehot"):
        shown("--identifiers", "none")
    with pytest.raises(InputError, match="--context-radius: must be a whole number"):
        shown("--context-radius", "0")


def test_a_recorded_training_has_room_for_most_batches(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from smpgnn.cli.main import run
    from smpgnn.data import properties
    from smpgnn.training import train

    graphs = property_graphs((6, 7, 8), 4, seed=0)
    monkeypatch.setattr(properties, "property_splits", lambda **_: Splits(graphs, graphs, graphs))
    monkeypatch.setattr(train, "records_steps", lambda *_: True)  # as on a GPU
    found = {}
    for size in (4, 8):
        assert run(["info", "properties", "--batch-size", str(size)]) == 0
        head, *lines, last = capsys.readouterr().out.splitlines()[3:]
        parts = {line.split()[0]: float(line.split()[1]) for line in lines}
        assert "its steps recorded, on cuda: about" in head
        assert sum(parts.values()) == pytest.approx(float(head.split()[-2]), abs=1)
        beside = parts["kept"] + parts["passing"] + LIBRARIES_BESIDE / MIB
        assert last.endswith(" MiB beside it")
        assert beside == pytest.approx(float(last.split()[-4]), abs=1)
        found[size] = parts
    assert 1.5 < found[8]["kept"] / found[4]["kept"] < 2.5
    padded = PaddedStore(graphs, Capacity.of(graphs, 8))
    whole = 2 * (store_bytes(graphs) + store_bytes(padded)) / 2**20
    assert found[8]["data"] == pytest.approx(whole, abs=0.06)


def test_a_recorded_training_counts_the_rows_of_local_contexts(graphs: GraphStore) -> None:
    splits = Splits(graphs, graphs, graphs)
    onehot, wide, narrow = (
        recorded_memory(splits, network, 4)
        for network in (
            spec(**WIDE),
            spec(identifiers="local", **WIDE, context_radius=99),
            spec(identifiers="local", **WIDE, context_radius=1),
        )
    )
    share = (DataLocal(graphs, 1).sizes.sum() / DataOneHot(graphs).sizes.sum()).item()
    # what nodes keep besides their rows stays
    assert 1 < narrow.step.kept / (share * onehot.step.kept) < 1.4
    assert narrow.step.kept < wide.step.kept < onehot.step.kept  # graphs are of two parts
    assert onehot.data < narrow.data < wide.data  # lists of messages, and the more the wider
