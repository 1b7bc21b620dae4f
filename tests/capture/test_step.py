"""A captured step equals the step itself, in anybody's loop.

Without a GPU, CUDA graphs are emulated (`tape`).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tape import emulate
from torch import Tensor, nn
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GINConv, global_add_pool

from smpgnn import SMP, CapturedStep, InputError
from smpgnn.capture import step as capture_step
from smpgnn.ops import backend

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
LAYERS = 2 if GPU else 1  # interpreted kernels are slow
pytestmark = pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")
Step = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def _emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(capture_step, "OBSERVED", 1)
    if not GPU:
        emulate(monkeypatch)
        monkeypatch.setattr(capture_step, "on_gpu", lambda device: True)
    yield
    if GPU:
        torch.cuda.synchronize()


def long(test: Any) -> Any:
    """Mark a test that takes long where kernels are interpreted."""
    return test if GPU else pytest.mark.slow(test)


def graph(nodes: int, seed: int, level: str = "graph") -> Data:
    """A path with a chord, with labels of the graph or its nodes."""
    random = torch.Generator().manual_seed(seed)
    ends = torch.stack([torch.arange(nodes - 1), torch.arange(1, nodes)])
    ends = torch.cat([ends, torch.tensor([[0], [nodes - 1]])], dim=1)
    return Data(
        x=torch.randn(nodes, 2, generator=random, dtype=torch.float64),
        edge_index=torch.cat([ends, ends.flip(0)], dim=1),
        edge_attr=torch.randn(2 * nodes, 3, generator=random, dtype=torch.float64),
        y=torch.randn(1 if level == "graph" else nodes, generator=random, dtype=torch.float64),
        kind=torch.tensor([seed % 3]),
        name=f"graph {seed}",
    )


def batches(level: str = "graph") -> list[Any]:
    """The first is the largest: it is captured, and the others fit."""
    sizes = [(6, 5), (4, 6), (5, 3)]
    return [
        Batch.from_data_list([graph(n, 10 * i + j, level) for j, n in enumerate(several)])
        for i, several in enumerate(sizes)
    ]


class Model(nn.Module):
    """A network of smpgnn inside a user's model."""

    def __init__(
        self, identifiers: str = "onehot", dropout: float = 0.0, layers: int = LAYERS
    ) -> None:
        super().__init__()
        self.encode = nn.Linear(2, 4)
        self.network = SMP(
            4, 3, 4, layers, "default", identifiers, 3, norm="batch", residual=True, dropout=dropout
        )
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(4, 1))

    def forward(self, batch: Any) -> Tensor:
        x = self.encode(batch.x)
        out = self.network(x, batch.edge_index, batch.edge_attr, batch.batch)
        kind = batch.kind.to(out.dtype).unsqueeze(1)
        result: Tensor = self.head(torch.cat([out, kind], dim=1)).squeeze(1)
        return result


def twins(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(1)
    model = model.to(DEVICE).double()
    return model, copy.deepcopy(model)


def step_of(model: nn.Module, clip: float = 0.0) -> Step:
    def step(batch: Any) -> dict[str, Tensor]:
        out = model(batch)
        loss = F.huber_loss(out, batch.y)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        return {"loss": loss, "out": out}

    return step


def same(one: Any, other: Any) -> None:
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def grads(model: nn.Module) -> list[Tensor | None]:
    return [None if p.grad is None else p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize(
    "identifiers", ["local", pytest.param("onehot", marks=() if GPU else pytest.mark.slow)]
)
def test_training_is_that_of_the_step_itself(identifiers: str) -> None:
    """A whole loop: clipping, accumulated gradients, an optimiser with a changing rate."""
    model, other = twins(Model(identifiers))
    captured, eager = CapturedStep(step_of(model, 0.5), model), step_of(other, 0.5)
    found = []
    for network, step in ((model, captured), (other, eager)):
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
        rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        results = []
        for number, batch in enumerate([*batches(), batches()[1]]):
            if number != 2:  # the third step adds to the gradients of the second
                optimizer.zero_grad(set_to_none=number % 2 == 0)
            results.append(step(batch.to(DEVICE)))
            if number != 1:
                optimizer.step()
                rates.step()
        found.append((results, grads(network), list(network.state_dict().values())))
    assert captured.captures == 1
    for one, two in zip(found[0][0], found[1][0], strict=True):
        same(one["loss"].detach(), two["loss"].detach())
        same(one["out"].detach(), two["out"].detach())
    same(found[0][1], found[1][1])
    same(found[0][2], found[1][2])
    assert not found[0][0][-1]["loss"].requires_grad


@long
@pytest.mark.parametrize("identifiers", ["local", "onehot"])
def test_batches_assembled_on_the_device(identifiers: str) -> None:
    class OnStore(Model):
        def forward(self, batch: Any) -> Tensor:
            out = self.network(self.encode(batch.x), batch.edge_index, batch.edge_attr, batch.batch)
            result: Tensor = out.sum(1)
            return result

    model, other = twins(OnStore(identifiers).float())
    model, other = model.float(), other.float()
    graphs = [graph(n, n) for n in (3, 4, 5, 6, 7)]
    for data in graphs:
        data.x, data.edge_attr, data.y = data.x.float(), data.edge_attr.float(), data.y.float()

    def step_on(network: nn.Module) -> Step:
        def step(batch: Any) -> Tensor:
            loss = F.l1_loss(network(batch), batch.y.squeeze(1))
            loss.backward()
            return loss

        return step

    captured = CapturedStep(step_on(model), model, data=graphs, batch_size=2)
    assert captured.store is not None
    for number, chosen in enumerate([[0, 1], [3, 2], [1, 4], [2]]):
        for network in (model, other):
            network.zero_grad(set_to_none=number != 2)
        loss = captured(chosen)
        expected = step_on(other)(captured.store.batch(chosen))
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(grads(model), grads(other), rtol=1e-3, atol=1e-4)
    assert captured.captures == 1


def test_nothing_but_the_graph_runs_after_the_capture() -> None:
    calls = []
    model, _ = twins(OtherPooling())
    inner = step_of(model)

    def step(batch: Any) -> Any:
        calls.append(batch.num_nodes)
        return inner(batch)

    captured, (first, *rest) = CapturedStep(step, model), batches()
    captured(first)
    before = list(calls)
    for batch in rest:
        captured(batch)
    assert calls == before
    assert set(before[1:]) != {first.num_nodes}  # padded


@long
def test_zeroing_inside_the_step() -> None:
    model, other = twins(Model())

    def zeroing(network: nn.Module) -> Step:
        inner = step_of(network)

        def step(batch: Any) -> Any:
            network.zero_grad(set_to_none=True)
            return inner(batch)

        return step

    captured, eager = CapturedStep(zeroing(model), model), zeroing(other)
    for batch in batches():
        captured(batch)
        eager(batch.to(DEVICE))
        same(grads(model), grads(other))
    assert captured.captures == 1


@long
def test_other_modes_sizes_and_numbers_of_graphs() -> None:
    model, other = twins(Model())
    captured, eager = CapturedStep(step_of(model), model), step_of(other)
    several = batches()
    alone, large = batches()[0][0], Batch.from_data_list([graph(12, 1), graph(13, 2)])
    orders = [several[0], several[1], large, Batch.from_data_list([alone]), large, several[2]]
    for batch in orders:
        same(captured(batch.to(DEVICE))["out"], eager(batch.to(DEVICE))["out"].detach())
    for network in (model, other):
        network.eval()
        network.encode.weight.requires_grad_(False)
        network.zero_grad()
    for batch in orders[:2]:
        same(captured(batch.to(DEVICE))["out"], eager(batch.to(DEVICE))["out"].detach())
    same(grads(model), grads(other))
    assert captured.captures == 4


@long
def test_targets_of_nodes_with_a_mask() -> None:
    model, other = twins(SMP(2, 1, 4, 2, "fast", level="node", norm="batch"))

    def masked(network: nn.Module) -> Step:
        def step(batch: Any) -> Tensor:
            out = network(batch.x, batch.edge_index, None, batch.batch).squeeze(1)
            mask = getattr(batch, "node_mask", torch.ones_like(out, dtype=torch.bool))
            error = torch.where(mask, (out - batch.y.nan_to_num()).square(), 0.0)
            loss = error.sum() / mask.sum()
            loss.backward()
            return loss

        return step

    captured, eager = CapturedStep(masked(model), model), masked(other)
    for batch in batches("node"):
        same(captured(batch.to(DEVICE)), eager(batch.to(DEVICE)).detach())
    same(grads(model), grads(other))
    assert captured.captures == 1


@long
def test_dropout_is_drawn_anew_in_every_replay() -> None:
    model, _ = twins(Model(dropout=0.5))
    captured, first = CapturedStep(step_of(model), model), batches()[0]
    results = [captured(first)["out"] for _ in range(3)]
    assert captured.captures == 1
    assert not torch.equal(results[1], results[2])


class NormOfNodes(Model):
    def forward(self, batch: Any) -> Tensor:
        batch = copy.copy(batch)
        batch.x = F.batch_norm(batch.x, None, None, training=True)
        return super().forward(batch)


def test_a_step_that_sees_padding_is_refused() -> None:
    model, _ = twins(NormOfNodes(layers=2))
    captured = CapturedStep(step_of(model), model)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(InputError, match="depends on padding nodes"):
        captured(batches()[0].to(DEVICE))
    same(list(model.state_dict().values())[:2], list(before.values())[:2])


def test_a_loss_of_nodes_without_a_mask_is_refused() -> None:
    model, _ = twins(SMP(2, 1, 4, 2, "fast", level="node"))

    def step(batch: Any) -> Tensor:
        out = model(batch.x, batch.edge_index, None, batch.batch).squeeze(1)
        loss = F.mse_loss(out, batch.y)
        loss.backward()
        return loss

    with pytest.raises(InputError, match="node_mask"):
        CapturedStep(step, model)(batches("node")[0].to(DEVICE))


def test_a_step_of_the_optimiser_is_refused() -> None:
    model, _ = twins(Model())
    inner, optimizer = step_of(model), torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: Any) -> Any:
        result = inner(batch)
        optimizer.step()
        return result

    with pytest.raises(InputError, match="after the captured step"):
        CapturedStep(step, model)(batches()[0].to(DEVICE))


@long
def test_a_question_to_the_gpu_is_refused() -> None:
    model, _ = twins(Model())
    inner = step_of(model)

    def step(batch: Any) -> Any:
        result = inner(batch)
        if result["loss"] > 100:
            model.zero_grad()
        return result

    with pytest.raises(InputError, match="cannot be captured"):
        CapturedStep(step, model)(batches()[0].to(DEVICE))


def test_what_is_left_out_is_named() -> None:
    model, _ = twins(Model())

    def step(batch: Any) -> Any:
        loss = model(batch).sum() * len(batch.name)
        loss.backward()
        return loss

    with pytest.raises(InputError, match=r"batch\.name cannot be captured: it is not a tensor"):
        CapturedStep(step, model)(batches()[0].to(DEVICE))


class OtherPooling(nn.Module):
    """A network of smpgnn beside layers of PyTorch Geometric."""

    def __init__(self) -> None:
        super().__init__()
        self.network = SMP(2, 3, 4, LAYERS, "fast")
        self.conv = GINConv(nn.Linear(2, 3))

    def forward(self, batch: Any) -> Tensor:
        nodes = self.conv(batch.x, batch.edge_index).relu()
        pooled = global_add_pool(nodes, batch.batch, batch.num_graphs + 1)[: batch.num_graphs]
        out = self.network(batch.x, batch.edge_index, None, batch.batch)
        result: Tensor = (out + pooled).sum(1)
        return result


@long
def test_beside_layers_of_pytorch_geometric() -> None:
    model, other = twins(OtherPooling())
    captured, eager = CapturedStep(step_of(model), model), step_of(other)
    for batch in batches():
        same(captured(batch.to(DEVICE))["out"], eager(batch.to(DEVICE))["out"].detach())
    same(grads(model), grads(other))
    assert captured.captures == 1


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: nn.Linear(1, 1), "no network of smpgnn"),
        (lambda: SMP(2, 1, 4, 2, identifiers="coloring"), "identifiers='coloring'"),
        (lambda: SMP(2, 1, 4, 2, checkpoint=True), "checkpoint=True"),
        (lambda: SMP(2, 1, 4, 2, terms="inside"), r"terms=\('inside',\)"),
        (lambda: SMP(2, 1, 4, 2, first_rows="walks"), "first_rows or features='both'"),
        (lambda: SMP(2, 1, 4, 2, pooling="max"), "pooling by an aggregation"),
    ],
)
def test_networks_that_cannot_be_captured(make: Callable[[], nn.Module], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        CapturedStep(lambda batch: batch, make())
