"""Replayed calls equal eager calls, whatever is done with them.

Without a GPU, CUDA graphs are emulated (`tape`) and most of these tests are slow.
"""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from strategies import ODD, Case, cycle, make_case, path, randomize
from sweep import sweep
from tape import emulate
from torch import Tensor, nn

from smpgnn import MPNN, SMP, InputError, MultiTaskSMP, SMPLayer, eager_calls
from smpgnn.capture import calls
from smpgnn.contexts.identifiers import onehot_identifiers
from smpgnn.contexts.index import ContextIndex
from smpgnn.contexts.rows import IdentifierRows
from smpgnn.contexts.topology import Topology
from smpgnn.models.base import Network
from smpgnn.ops import backend

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
pytestmark = pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")


def long(test: Any) -> Any:
    """Mark a test that takes long where kernels are interpreted."""
    return test if GPU else pytest.mark.slow(test)


NETWORKS: dict[str, tuple[int, Callable[[str], nn.Module]]] = {
    "default": (3, lambda i: SMP(2, 2, 8, 2, "default", i, 3, norm="batch", residual=True,
                                 message_residual=True, towers=2)),
    "fast": (0, lambda i: SMP(2, 2, 8, 3, "fast", i, norm="batch", readout="max")),
    "node level": (0, lambda i: SMP(2, 2, 8, 3, "fast", i, level="node", norm="layer")),
    "two sums": (3, lambda i: SMP(2, 2, 8, 2, "default", i, 3, own_terms=True, norm="batch",
                                  readout="mean+scaled-sum", norm_place="after")),
    "ablation": (3, lambda i: MPNN(2, 2, 8, 3, "default", i, 3, norm="batch")),
    "multi-task": (0, lambda i: MultiTaskSMP(2, 3, 2, 8, 2, "default", i, state_channels=4)),
}  # fmt: skip
BATCHES = [
    [path(6), cycle(5), ODD["edgeless"]],
    [path(5), cycle(7), ODD["loops"]],
    [cycle(6), path(7), ODD["single"]],
    [path(7), cycle(5), ODD["empty"]],
    [cycle(4)],
    [cycle(7), cycle(6), path(4)],
]
#: The first of them is captured, and the others fit; few rows, as kernels are interpreted.
SMALL = [
    [path(4), ODD["edgeless"], cycle(4)],
    [ODD["loops"], cycle(5)],
    [ODD["empty"], ODD["single"], path(3)],
]


@pytest.fixture(autouse=True)
def _strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(calls, "_STRICT", True)
    if not GPU:
        emulate(monkeypatch)
        monkeypatch.setattr(calls, "_on_gpu", lambda tensor: True)
        monkeypatch.setattr(calls, "_too_large", lambda *_: False)
        monkeypatch.setattr(
            Network,
            "_replayed",
            lambda self, edge_index, x, *others: calls.replayed(self, x, edge_index, *others),
        )
    yield
    if GPU:
        torch.cuda.synchronize()


def arguments(
    case: Case, learned: bool = False, dtype: torch.dtype = torch.float64
) -> dict[str, Any]:
    """The arguments of a call on the device."""
    x, edge_attr = (
        None if v is None else v.detach().to(DEVICE, dtype).requires_grad_(learned)
        for v in (case.x, case.edge_attr)
    )
    return {
        "x": x,
        "edge_index": case.edge_index.to(DEVICE),
        "edge_attr": edge_attr,
        "batch": case.batch.to(DEVICE),
        "batch_size": case.num_graphs,
    }


def batches(
    edge_channels: int, learned: bool = False, chosen: list[Any] = BATCHES
) -> list[dict[str, Any]]:
    return [arguments(make_case(graphs, 2, edge_channels), learned) for graphs in chosen]


def total(result: Any) -> Tensor:
    outputs = [result] if isinstance(result, Tensor) else list(result)
    weights = [torch.arange(1.0, out.numel() + 1).to(out).view_as(out) for out in outputs]
    return torch.stack(
        [(out.square() * w).sum() for out, w in zip(outputs, weights, strict=True)]
    ).sum()


def pair(name: str = "default", identifiers: str = "onehot") -> tuple[Any, Any]:
    """A network in float64 on the device, and its copy for eager calls."""
    model = randomize(NETWORKS[name][1](identifiers)).to(DEVICE).double()
    return model, copy.deepcopy(model)


def same(actual: Any, expected: Any, tolerance: float = 1e-9) -> None:
    if isinstance(expected, Tensor) or expected is None:
        assert (actual is None) == (expected is None)
        if expected is not None:
            assert actual.shape == expected.shape
            torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
        return
    for one, other in zip(actual, expected, strict=True):
        same(one, other, tolerance)


def replays(model: nn.Module) -> int:
    """How many calls of this network were replayed."""
    known = calls._networks.get(model)
    modes = [] if known is None else known.modes.values()
    return sum(capture.calls for mode in modes for capture in mode.captures)


def warmed(model: Any, inputs: list[dict[str, Any]]) -> None:
    """Call until the network is captured, without any effect on it."""
    before = copy.deepcopy(model.state_dict())
    for given in inputs[: calls.OBSERVED]:
        model(**given)
    model.load_state_dict(before)
    count = replays(model)
    model(**inputs[0])
    assert replays(model) == count + 1
    model.load_state_dict(before)


@pytest.mark.parametrize(
    ("name", "identifiers", "training", "learned"),
    sweep(
        NETWORKS,
        ["onehot", "local", "neighborhood"],
        [True, False],
        [True, False],
        always=lambda *case: GPU or case == ("default", "local", True, True),
    ),
)
def test_results_and_gradients_are_those_of_eager_calls(
    name: str, identifiers: str, training: bool, learned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not GPU:
        monkeypatch.setattr(calls, "OBSERVED", 1)
    model, other = (net.train(training) for net in pair(name, identifiers))
    for given in batches(NETWORKS[name][0], learned, BATCHES if GPU else SMALL):
        results, slopes = [], []
        for network, mode in ((model, nullcontext()), (other, eager_calls())):
            with mode:
                result = network(**given)
            leaves = [v for v in (given["x"], given["edge_attr"]) if v is not None and learned]
            wanted = [*network.parameters(), *leaves]
            results.append([result] if isinstance(result, Tensor) else list(result))
            slopes.append(torch.autograd.grad(total(result), wanted, allow_unused=True))
        same(*results)
        same(*slopes, tolerance=1e-8)
        same(list(model.buffers()), list(other.buffers()))
    assert replays(model) >= 2
    assert replays(other) == 0


@pytest.mark.parametrize(
    "identifiers", ["local", pytest.param("onehot", marks=() if GPU else pytest.mark.slow)]
)
def test_a_call_with_its_own_index_is_replayed(
    identifiers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index of other rows is used as it is."""
    if not GPU:
        monkeypatch.setattr(calls, "OBSERVED", 1)
    name = "default" if GPU else "fast"
    model, other = (network.eval() for network in pair(name, identifiers))
    inputs = batches(NETWORKS[name][0], chosen=BATCHES if GPU else SMALL)
    indices = []
    for given in inputs:
        topology = Topology.checked(
            given["edge_index"], given["batch"], num_graphs=given["batch_size"]
        )
        indices.append(model.backbone.index(topology))
    for given, index in zip(inputs, indices, strict=True):
        with eager_calls():
            expected = other(**given, index=index)
        same(model(**given, index=index), expected)
        bare = {name: given[name] for name in ("x", "edge_index", "edge_attr")}
        same(model(**bare, index=index), expected)
    count = replays(model)
    assert count >= 3
    with pytest.raises(InputError, match="other graphs"):
        model(**inputs[0], index=indices[1])
    if identifiers == "onehot":
        topology = indices[0].topology
        wider = IdentifierRows.build(topology, 2 * onehot_identifiers(topology), None)
        index = ContextIndex(topology, wider)
        with eager_calls():
            expected = other(**inputs[0], index=index)
        same(model(**inputs[0], index=index), expected)
        assert replays(model) == count


@long
@pytest.mark.parametrize("name", ["default", "multi-task"])
def test_training_with_an_optimiser_gives_the_same_weights(name: str) -> None:
    model, other = pair(name, "local")
    inputs = batches(NETWORKS[name][0])
    for network, mode in ((model, nullcontext()), (other, eager_calls())):
        optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
        with mode:
            for step in range(12):
                optimizer.zero_grad(set_to_none=step % 2 == 0)
                loss = total(network(**inputs[step % len(inputs)]))
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 1.0)
                optimizer.step()
    assert replays(model) >= 6
    same(list(model.parameters()), list(other.parameters()), tolerance=1e-6)
    assert len({p.grad.data_ptr() for p in model.parameters() if p.grad is not None}) > 10


@long
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_several_calls_before_their_backward_passes(order: tuple[int, ...]) -> None:
    model, other = pair()
    inputs = batches(3)
    warmed(model, inputs)
    found = []
    for network, mode in ((model, nullcontext()), (other, eager_calls())):
        with mode:
            results = [network(**given) for given in inputs[:3]]
        for place in order:
            total(results[place]).backward()
        found.append([p.grad for p in network.parameters()] + list(network.buffers()))
    same(found[0], found[1], tolerance=1e-8)


@long
def test_a_backward_pass_may_be_repeated() -> None:
    model, other = pair()
    inputs = batches(3)
    warmed(model, inputs)
    found = []
    for network, mode in ((model, nullcontext()), (other, eager_calls())):
        with mode:
            loss = total(network(**inputs[1]))
            loss.backward(retain_graph=True)
            network(**inputs[2])
        loss.backward()
        found.append([p.grad for p in network.parameters()])
    same(found[0], found[1], tolerance=1e-8)


@long
def test_dropout_draws_the_same_numbers_if_a_pass_is_repeated() -> None:
    model = SMP(2, 2, 8, 2, edge_channels=3, dropout=0.5).to(DEVICE).double()
    inputs = batches(3)
    warmed(model, inputs)
    results = [total(model(**inputs[0])) for _ in range(2)]
    assert results[0] != results[1]  # new numbers every time
    wanted = list(model.parameters())
    first = torch.autograd.grad(results[1], wanted, retain_graph=True)
    model(**inputs[2])
    same(torch.autograd.grad(results[1], wanted), first)


@long
def test_second_derivatives_equal_eager_ones() -> None:
    model, other = pair("fast")
    inputs = batches(0, learned=True)
    warmed(model, inputs)
    found = []
    for network, mode in ((model, nullcontext()), (other, eager_calls())):
        with mode:
            loss = total(network(**inputs[1]))
            x = inputs[1]["x"]
            (slope,) = torch.autograd.grad(loss, x, create_graph=True)
            found.append([slope, *torch.autograd.grad(slope.square().sum(),
                                                      list(network.parameters()),
                                                      allow_unused=True)])  # fmt: skip
        found[-1] += list(network.buffers())
    same(found[0], found[1], tolerance=1e-7)


@long
def test_second_derivatives_with_dropout_are_refused() -> None:
    model = SMP(2, 2, 8, 2, edge_channels=3, dropout=0.5).to(DEVICE).double()
    inputs = batches(3, learned=True)
    warmed(model, inputs)
    with pytest.raises(RuntimeError, match="eager_calls"):
        torch.autograd.grad(total(model(**inputs[0])), inputs[0]["x"], create_graph=True)


@long
def test_changes_between_the_two_passes_are_errors() -> None:
    model, _ = pair()
    inputs = batches(3)
    warmed(model, inputs)
    loss = total(model(**inputs[0]))
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    with pytest.raises(RuntimeError, match="modified"):
        loss.backward()
    model.eval()
    warmed(model, inputs)
    loss = total(model(**inputs[0]))
    model.train()
    model(**inputs[1])
    model.eval()
    model(**inputs[1])
    with pytest.raises(RuntimeError, match="modified"):
        loss.backward()


@long
@pytest.mark.parametrize(
    "change",
    [
        {"edge_index": torch.tensor([[0, 99], [1, 0]])},
        {"edge_index": torch.tensor([[0, -1], [1, 0]])},
        {"edge_index": torch.tensor([[0, 7], [1, 0]])},
        {"batch_size": 1},
        {"x": torch.ones(14, 2)},
        {"edge_attr": None},
    ],
    ids=["no such node", "negative", "other graph", "batch_size", "dtype", "no edge_attr"],
)
def test_errors_are_those_of_eager_calls(change: dict[str, Any]) -> None:
    model, _ = pair("default")
    inputs = batches(3)
    warmed(model, inputs)
    given = {**inputs[0], **change}
    if "edge_index" in change:
        given["edge_attr"] = given["edge_attr"][:2]
    given = {n: v.to(DEVICE) if isinstance(v, Tensor) else v for n, v in given.items()}
    with eager_calls(), pytest.raises(InputError) as expected:
        model(**given)
    with pytest.raises(InputError) as found:
        model(**given)
    assert str(found.value) == str(expected.value)


@long
def test_hooks_run() -> None:
    model, _ = pair()
    inputs = batches(3)
    warmed(model, inputs)
    seen: list[str] = []
    handle = model.head.register_forward_hook(lambda *_: seen.append("head"))
    count = replays(model)
    model(**inputs[0])
    assert seen == ["head"]
    assert replays(model) == count
    handle.remove()
    model(**inputs[0])
    assert replays(model) == count + 1


@long
def test_follows_changes_of_the_network() -> None:
    model, other = pair()
    inputs = batches(3)
    warmed(model, inputs)
    for network in (model, other):
        network.load_state_dict({n: v * 1.5 for n, v in network.state_dict().items()})
        for parameter in network.backbone.parameters():
            parameter.requires_grad_(False)
        network.head = nn.Linear(*network.head.weight.shape[::-1]).to(DEVICE).double()
        with torch.no_grad():
            network.head.weight.fill_(0.1)
            network.head.bias.fill_(0.1)
    for given in inputs:
        result = model(**given)
        with eager_calls():
            expected = other(**given)
        same(result, expected)
        total(result).backward()
        total(expected).backward()
    same([p.grad for p in model.parameters()], [p.grad for p in other.parameters()], 1e-8)


@long
def test_copies_and_pickles_are_independent() -> None:
    model, other = pair()
    inputs = batches(3)
    warmed(model, inputs)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.zero_()
        for given in inputs:
            twin(**given)
    with eager_calls():
        expected = other(**inputs[1])
    same(model(**inputs[1]), expected)


@long
def test_memory_is_freed_with_the_network() -> None:
    inputs = batches(3)
    model, _ = pair()
    warmed(model, inputs)
    count = len(calls._networks)
    del model
    gc.collect()
    assert len(calls._networks) < count


@long
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(mode: Callable[[], Any]) -> None:
    model, other = (network.eval() for network in pair("default", "local"))
    with mode():
        for given in batches(3):
            with eager_calls():
                expected = other(**given)
            result = model(**given)
            same(result, expected)
            assert not result.requires_grad
    assert replays(model) >= 2
    loss = total(model(**batches(3)[0]))
    loss.backward()


@long
def test_autocast() -> None:
    model, other = (network.float() for network in pair("default", "local"))
    for step, case in enumerate(BATCHES * 2):
        given = arguments(make_case(case, 2, 3), dtype=torch.float32)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            result = model(**given)
            with eager_calls():
                expected = other(**given)
        same(result.float(), expected.float(), tolerance=0.05)
        with torch.no_grad():  # new weights must reach the captured casts
            for one, two in zip(model.parameters(), other.parameters(), strict=True):
                one.mul_(1.1 if step % 2 else 0.9)
                two.copy_(one)
    assert replays(model) >= 4


@long
def test_batches_of_other_sizes() -> None:
    """Larger batches run eagerly at first and are captured later; smaller ones fit."""
    model, other = (network.eval() for network in pair())
    sizes = [3, 3, 3, 3, 9, 9, 9, 9, 1, 3, 30, 9]
    for size in sizes:
        given = arguments(make_case([path(6), cycle(7), path(5)] * size, 2, 3))
        with eager_calls():
            expected = other(**given)
        same(model(**given), expected)
    assert replays(model) >= 5
    known = calls._networks[model]
    assert [len(mode.captures) for mode in known.modes.values()] == [2]


@long
def test_one_graph_and_empty_graphs() -> None:
    model, other = (network.eval() for network in pair())
    for batch_size in (None, None, None, None, 4, 4):
        given = arguments(make_case([cycle(6)], 2, 3))
        given |= {"batch_size": batch_size} if batch_size else {"batch": None, "batch_size": None}
        with eager_calls():
            expected = other(**given)
        same(model(**given), expected)
    assert replays(model) >= 1


@long
def test_own_layers_run_eagerly() -> None:
    class Own(SMPLayer):
        def __init__(self, in_channels: int, out_channels: int, edge_channels: int = 0) -> None:
            super().__init__()
            self.in_channels, self.out_channels = in_channels, out_channels
            self.edge_channels = edge_channels
            self.linear = nn.Linear(in_channels, out_channels)

        def message(self, u_i: Any, u_j: Any, y_ij: Any) -> Any:
            return u_j.with_rows(self.linear(u_j.rows))

        def update(self, context: Any, messages: Any, index: Any) -> Any:
            return messages

    class Network(SMP):
        layer_types = {"own": Own}  # noqa: RUF012

    model = Network(2, 2, 8, 2).to(DEVICE).double()
    for given in batches(0):
        model(**given)
    assert replays(model) == 0
