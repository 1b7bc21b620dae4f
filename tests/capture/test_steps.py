"""Captured steps on a GPU: the same numbers as steps launched kernel by kernel."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smpgnn.baselines.degree import DegreeGIN
from smpgnn.baselines.dgn import DGN
from smpgnn.baselines.gat import GAT
from smpgnn.baselines.gated_gcn import GatedGCN
from smpgnn.baselines.gin import GIN
from smpgnn.baselines.gine import GINE, MultiTaskGINE
from smpgnn.baselines.junction_tree import JunctionTreeMPNN
from smpgnn.baselines.mpnn_sum import MPNNSum
from smpgnn.baselines.pna import PNA
from smpgnn.baselines.ppgn import PPGN
from smpgnn.baselines.random_identifiers import RandomIdentifierGIN
from smpgnn.baselines.relational_pooling import RelationalPooling
from smpgnn.baselines.ring_gnn import RingGNN
from smpgnn.capture.padded import Capacity
from smpgnn.config.options import CyclesOptions
from smpgnn.config.settings import with_values
from smpgnn.data.base import Splits
from smpgnn.data.cycles import cycle_graphs
from smpgnn.data.properties import property_graphs
from smpgnn.data.store import GraphStore
from smpgnn.inference import captured
from smpgnn.models import MPNN, SMP, MultiTaskMPNN, MultiTaskSMP
from smpgnn.training.network import run_network
from smpgnn.training.prepare import assemble
from smpgnn.training.steps import EvaluationStep, TrainingStep
from smpgnn.training.tasks import Classification, GraphProperties, Task
from smpgnn.training.train import train_run

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

NETWORKS: dict[str, Any] = {
    "fast": lambda: SMP(0, 2, 8, 3, "fast", norm="batch", residual=True),
    "own terms": lambda: SMP(0, 2, 8, 3, norm="batch", own_terms=True, residual=True),
    "default": lambda: SMP(0, 2, 8, 3, norm="batch", towers=2, message_residual=True),
    "local": lambda: SMP(
        2,
        2,
        8,
        4,
        identifiers="local",
        context_radius=2,
        edge_channels=2,
        norm="batch",
        own_terms=True,
        message_residual=True,
        residual=True,
        features="row",
    ),
    "norm after": lambda: SMP(0, 2, 8, 3, norm="batch", norm_place="after", residual=True),
    "fast local": lambda: SMP(0, 2, 8, 4, "fast", "local", context_radius=1, norm="batch"),
    "ablation": lambda: MPNN(0, 2, 8, 3, norm="batch"),
    "GIN": lambda: GIN(0, 2, 8, 3, norm="batch", residual=True),
    "GIN + degree": lambda: DegreeGIN(0, 2, 8, 3, norm="batch"),
    "PPGN": lambda: PPGN(0, 2, 8, 3, norm="batch", residual=True),
    "Ring-GNN": lambda: RingGNN(0, 2, 8, 3, norm="batch", residual=True),
    "GINE": lambda: GINE(2, 2, 8, 3, norm="batch", residual=True),
    "GINE with edges": lambda: GINE(2, 2, 8, 3, edge_channels=2, norm="batch"),
    "GAT": lambda: GAT(2, 2, 8, 3, norm="batch", heads=2),
    "GAT with edges": lambda: GAT(2, 2, 8, 3, edge_channels=2, norm="batch", heads=2),
    "PNA": lambda: PNA(2, 2, 8, 3, edge_channels=2, norm="batch"),
    "MPNN (sum)": lambda: MPNNSum(2, 2, 8, 3, edge_channels=2, norm="batch"),
    "Gated-GCN": lambda: GatedGCN(2, 2, 8, 3, edge_channels=2, norm="batch", residual=True),
    "DGN": lambda: DGN(2, 2, 8, 3, edge_channels=2, norm="batch", residual=True),
    "MPNN-JT": lambda: JunctionTreeMPNN(2, 2, 8, 3, edge_channels=2, norm="batch", residual=True),
}
MULTI_TASK: dict[str, Any] = {
    "default": lambda **more: MultiTaskSMP(2, 3, 3, 8, 3, residual=True, **more),
    "fast": lambda **more: MultiTaskSMP(2, 3, 3, 8, 3, "fast", **more),
    "ablation": lambda **more: MultiTaskMPNN(2, 3, 3, 8, 3, "fast", **more),
    "GIN": lambda **more: MultiTaskGINE(2, 3, 3, 8, 3, **more),
}
TASK = Classification()


def stores() -> tuple[GraphStore, GraphStore]:
    """Graphs to train and to validate on, with features for the networks that take them."""
    return with_features(60, seed=0), with_features(30, seed=1)


def with_features(count: int, seed: int) -> GraphStore:
    store = cycle_graphs(4, 12, count, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(int(store.node_ptr[-1]), 2, generator=generator)
    edge_attr = torch.randn(store.edge_index.size(1), 2, generator=generator)
    return replace(store, x=x, edge_attr=edge_attr).to("cuda")


def eager(
    network: nn.Module, store: GraphStore, graphs: Tensor, task: Task = TASK
) -> tuple[Tensor, list[Tensor]]:
    network.zero_grad(set_to_none=True)
    batch = store.batch(graphs)
    loss = task.loss(run_network(network, batch), batch)
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 0.5)
    return loss.detach(), [p.grad.clone() for p in network.parameters()]


@pytest.mark.parametrize("name", NETWORKS)
def test_captured_steps_equal_launched_ones(name: str) -> None:
    torch.manual_seed(0)
    same_steps(NETWORKS[name]().cuda().train(), TASK, *stores())


@pytest.mark.parametrize("norm_place", ["before", "after"])
@pytest.mark.parametrize("name", MULTI_TASK)
def test_captured_steps_of_multi_task_networks(name: str, norm_place: str) -> None:
    torch.manual_seed(0)
    train, val = (property_graphs((8, 9, 11), count, seed=9).to("cuda") for count in (20, 10))
    network = MULTI_TASK[name](norm="batch", norm_place=norm_place, state_channels=4)
    same_steps(network.cuda().train(), GraphProperties(), train, val)


def training_step(network: nn.Module, task: Task, store: GraphStore) -> TrainingStep:
    options = CyclesOptions().changed(batch_size=16, clip=0.5)
    return TrainingStep(network, task.make_objective(), store, options, capture=True)


def same_steps(network: nn.Module, task: Task, train: GraphStore, val: GraphStore) -> None:
    """Captured steps have the losses, gradients, statistics and outputs of launched ones."""
    other = deepcopy(network)
    step = training_step(network, task, train)
    for start, count in ((0, 16), (16, 16), (32, 9), (0, 16)):
        graphs = torch.arange(start, min(start + count, len(train)))
        if graphs.numel() == 0:
            continue
        loss, grads = eager(other, train, graphs, task)
        assert torch.allclose(step(graphs), loss, rtol=1e-4, atol=1e-5)
        for parameter, grad in zip(network.parameters(), grads, strict=True):
            assert (parameter.grad - grad).abs().max() <= 1e-4 * max(1.0, grad.abs().max().item())
    for one, two in zip(network.buffers(), other.buffers(), strict=True):
        assert torch.allclose(one.double(), two.double(), rtol=1e-4, atol=1e-5)
    network.eval()
    other.eval()
    out, batch = EvaluationStep(network, val, 16, capture=True)(torch.arange(7))
    expected = run_network(other, batch)
    for one, two in zip(*map(all_outputs, (out, expected)), strict=True):
        assert torch.allclose(one, two, rtol=1e-3, atol=1e-4)


def all_outputs(out: Any) -> tuple[Tensor, ...]:
    return out if isinstance(out, tuple) else (out,)


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomIdentifierGIN(0, 2, 8, 3, norm="batch"),
        lambda: RelationalPooling(0, 2, 8, 3, norm="batch", max_nodes=12),
    ],
    ids=["random identifiers", "relational pooling"],
)
def test_captured_steps_draw_new_identifiers(make: Any) -> None:
    train, val = stores()
    network = make().cuda().train()
    step, graphs = training_step(network, TASK, train), torch.arange(16)
    step(graphs)
    torch.manual_seed(1)
    losses = [step(graphs).item() for _ in range(4)]
    assert len(set(losses)) == 4
    torch.manual_seed(1)
    assert [step(graphs).item() for _ in range(4)] == pytest.approx(losses, rel=1e-4)
    network.eval()
    out, batch = EvaluationStep(network, val, 16, capture=True)(torch.arange(7))
    assert out.isfinite().all()
    if isinstance(network, RelationalPooling):  # its draws are the same in every call
        assert torch.allclose(out, run_network(network, batch), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", ["default", "local", "GIN"])
@pytest.mark.parametrize("parts", [1, 3])
def test_outputs_for_many_graphs(name: str, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = stores()[0].to("cuda")
    network = NETWORKS[name]().cuda().eval()
    expected = network_outputs(network, graphs)
    monkeypatch.setattr(captured, "MANY", 1)
    assert captured.captured_outputs(network, graphs, batch_rows=int(1e9)) is None  # one batch
    rows = graphs.num_nodes.square().sum().item()
    monkeypatch.setattr(captured, "room", lambda _: captured._BYTES * rows / (parts - 0.5))
    found = captured.captured_outputs(network, graphs, batch_rows=rows // (4 * parts))
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-4)
    largest = int(graphs.num_nodes.max()) ** 2
    assert captured.captured_outputs(network, graphs, batch_rows=largest - 1) is None


def network_outputs(network: nn.Module, graphs: GraphStore) -> Tensor:
    with torch.no_grad():
        out: Tensor = run_network(network, graphs.batch())
    return out


@pytest.mark.parametrize("name", ["fast", "local"])
def test_a_batch_that_does_not_fit_is_launched(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    train, _ = stores()
    network = NETWORKS[name]().cuda().train()
    other = deepcopy(network)
    sizes = {"node": 150, "edge": 400, "row": 1400, "message": 4000}
    monkeypatch.setattr(Capacity, "of", lambda *_: Capacity(16, sizes))
    step = training_step(network, TASK, train)
    for graphs in (torch.arange(16), torch.arange(4), torch.arange(16)):
        loss, grads = eager(other, train, graphs)
        assert torch.allclose(step(graphs), loss, rtol=1e-4, atol=1e-5)
        for parameter, grad in zip(network.parameters(), grads, strict=True):
            assert (parameter.grad - grad).abs().max() <= 1e-4 * max(1.0, grad.abs().max().item())
    assert step.captured is not None
    assert not step.captured.fits(torch.arange(16))
    assert step.captured.fits(torch.arange(4))


def run(folder: Path, **options: Any) -> Any:
    values = {"k": 4, "n": 12, "epochs": 3, "batch_size": 16, "hidden_channels": 8, "num_layers": 3}
    values |= {"device": "cuda", "output": str(folder), **options}
    choices = with_values(CyclesOptions(), values, "test")
    train, val = (cycle_graphs(4, 12, count, seed=seed) for count, seed in ((60, 0), (30, 1)))
    prepared = assemble(choices, Splits(train, val, val), TASK, {"kind": "graphs"})
    return train_run(choices, prepared=prepared, quiet=True)


def test_training_with_and_without_captured_steps_ends_alike(tmp_path: Path) -> None:
    first = run(tmp_path / "captured")
    second = run(tmp_path / "again")
    third = run(tmp_path / "plain", cuda_graphs=False)
    for one, two in zip(
        first.saved.network.parameters(), second.saved.network.parameters(), strict=True
    ):
        assert torch.allclose(one, two, rtol=1e-3, atol=1e-4)
    assert first.validation["accuracy"] == pytest.approx(third.validation["accuracy"], abs=0.2)
