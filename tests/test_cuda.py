"""GPU results equal CPU results in float64, for all networks and identifier schemes."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
import torch
from strategies import ODD, SCHEMES, Case, assert_same, cycle, gradients, make_case, path, randomize
from torch import Tensor, nn

from smpgnn import MPNN, SMP, ContextIndex, MultiTaskMPNN, MultiTaskSMP
from smpgnn.config.models import MODELS, Entry
from smpgnn.config.options import CyclesOptions
from smpgnn.config.settings import with_values
from smpgnn.data.base import Splits
from smpgnn.data.cycles import cycle_graphs
from smpgnn.ops import neighbor
from smpgnn.pooling import SetToSet
from smpgnn.training.network import run_network
from smpgnn.training.prepare import assemble
from smpgnn.training.tasks import Classification

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.filterwarnings("ignore:.*torch-scatter.*:UserWarning"),  # PyG's max on a GPU
]

GRAPHS = [path(20), cycle(7), ODD["empty"], *ODD.values()]

NETWORKS: dict[str, tuple[int, Any]] = {
    "default": (0, lambda s: SMP(2, 2, 8, 3, "default", s, norm="batch")),
    "default with edges": (3, lambda s: SMP(2, 2, 8, 3, "default", s, 3, norm="batch", towers=2,
                                            message_residual=True, update_residual=True)),
    "fast": (0, lambda s: SMP(2, 2, 8, 3, "fast", s, norm="batch")),
    "own terms": (0, lambda s: SMP(2, 2, 8, 3, "default", s, norm="batch", own_terms=True)),
    "node level": (0, lambda s: SMP(2, 2, 8, 3, "fast", s, level="node", norm="layer")),
    "pooled": (3, lambda s: SMP(2, 2, 8, 3, "default", s, 3, pooling="max", residual=True)),
    "ablation": (3, lambda s: MPNN(2, 2, 8, 3, "default", s, 3, norm="batch")),
    "multi-task": (0, lambda s: MultiTaskSMP(2, 3, 2, 8, 3, "default", s, state_channels=4)),
    "multi-task ablation": (0, lambda s: MultiTaskMPNN(2, 3, 2, 8, 3, "fast", s,
                                                       state_channels=4)),
}  # fmt: skip


def call(model: nn.Module, case: Case, device: str, dtype: torch.dtype) -> tuple[list, list]:
    """Outputs and gradients of parameters and inputs, moved back to the CPU."""
    model = deepcopy(model).to(device, dtype)
    leaves = [
        None if value is None else value.detach().to(device, dtype).requires_grad_()
        for value in (case.x, case.edge_attr)
    ]
    result = model(
        leaves[0],
        case.edge_index.to(device),
        leaves[1],
        case.batch.to(device),
        batch_size=case.num_graphs,
    )
    outputs = [result] if isinstance(result, Tensor) else list(result)
    wanted = [*model.parameters(), *[leaf for leaf in leaves if leaf is not None]]
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(out.shape, generator=generator).to(out) for out in outputs]
    total = sum((out * weight).sum() for out, weight in zip(outputs, weights, strict=True))
    found = torch.autograd.grad(total, wanted, allow_unused=True)
    grads = [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]
    buffers = [b.double() for b in model.buffers()]
    return [out.cpu() for out in outputs], [value.cpu() for value in grads + buffers]


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("network", NETWORKS)
def test_forward_and_backward_equal_the_cpu(network: str, identifiers: str, training: bool) -> None:
    edge_channels, make = NETWORKS[network]
    model = randomize(make(identifiers)).train(training)
    case = make_case(GRAPHS, 2, edge_channels)
    expected, expected_rest = call(model, case, "cpu", torch.float64)
    actual, rest = call(model, case, "cuda", torch.float64)
    assert_same(actual, expected, tolerance=1e-9)
    assert_same(rest, expected_rest, tolerance=1e-9)


def twice(model: nn.Module, case: Case, device: str) -> list[Tensor]:
    """First derivatives of a number that bends with the outputs, then those of their squares."""
    model = deepcopy(model).to(device)
    given = [None if v is None else v.detach().to(device) for v in (case.x, case.edge_attr)]
    leaves = [*model.parameters(), *(v.requires_grad_() for v in given if v is not None)]
    result = model(
        given[0],
        case.edge_index.to(device),
        given[1],
        case.batch.to(device),
        batch_size=case.num_graphs,
    )
    outputs = [result] if isinstance(result, Tensor) else list(result)
    total = sum(out.square().sum() + out.sum() for out in outputs)
    found = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    slopes = [slope for slope in found if slope is not None]
    bent = sum(slope.square().sum() for slope in slopes)
    again = torch.autograd.grad(bent, leaves, allow_unused=True)
    return [v.detach().cpu() for v in (*slopes, *again) if v is not None]


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("network", NETWORKS)
def test_second_derivatives_equal_the_cpu(network: str, identifiers: str, training: bool) -> None:
    edge_channels, make = NETWORKS[network]
    model = randomize(make(identifiers)).train(training)
    case = make_case([path(5), cycle(6), ODD["loops"], ODD["single"]], 2, edge_channels)
    assert_same(twice(model, case, "cuda"), twice(model, case, "cpu"), tolerance=1e-8)


@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("network", NETWORKS)
def test_torch_func_equals_the_cpu(network: str, identifiers: str) -> None:
    edge_channels, make = NETWORKS[network]
    model = randomize(make(identifiers)).eval()
    case = make_case([path(5), cycle(6)], 2, edge_channels)
    assert case.x is not None

    def slopes(device: str) -> list[Tensor]:
        there = deepcopy(model).to(device)
        y = None if case.edge_attr is None else case.edge_attr.detach().to(device)

        def function(x: Tensor) -> Tensor:
            out = there(x, case.edge_index.to(device), y, case.batch.to(device))
            return sum(v.square().sum() for v in ([out] if isinstance(out, Tensor) else out))

        x = case.x.detach().to(device)
        along = torch.func.jvp(function, (x,), (torch.ones_like(x),))[1]
        return [torch.func.grad(function)(x).cpu(), along.cpu()]

    assert_same(slopes("cuda"), slopes("cpu"), tolerance=1e-9)


@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("network", NETWORKS)
def test_bfloat16_autocast_is_near_float32(network: str, identifiers: str) -> None:
    edge_channels, make = NETWORKS[network]
    model = randomize(make(identifiers), dtype=torch.float32).train()
    case = make_case(GRAPHS, 2, edge_channels, dtype=torch.float32)
    expected, _ = call(model, case, "cuda", torch.float32)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        actual, rest = call(model, case, "cuda", torch.float32)
    for value in rest:
        assert value.isfinite().all()
    for near, exact in zip(actual, expected, strict=True):
        assert (near.float() - exact).abs().max() < 0.1 * max(1.0, exact.abs().max().item())


def set_to_set(channels: int, device: str, dtype: torch.dtype) -> list[Tensor]:
    """Values and gradients of a Set2Set with as many steps as channels, moved back to the CPU."""
    module = randomize(SetToSet(channels, channels)).to(device, dtype)
    case = make_case([*GRAPHS, path(32), path(33), path(200)], channels)
    assert case.x is not None
    x = case.x.detach().to(device, dtype).requires_grad_()
    out = module(x, ContextIndex.of_nodes(case.topology.to(device)))
    return [value.cpu() for value in (out, *gradients([out], [x, *module.parameters()]))]


@pytest.mark.parametrize("channels", [3, 16, 32, 64])
def test_set_to_set_equals_the_cpu(channels: int) -> None:
    """Graphs of none to many nodes; two runs in float32 agree to the last bit."""
    expected = set_to_set(channels, "cpu", torch.float64)
    assert_same(set_to_set(channels, "cuda", torch.float64), expected, tolerance=1e-9)
    single = set_to_set(channels, "cuda", torch.float32)
    again = set_to_set(channels, "cuda", torch.float32)
    assert all(torch.equal(one, other) for one, other in zip(single, again, strict=True))
    assert_same([value.double() for value in single], expected, tolerance=1e-4)


@pytest.mark.parametrize("identifiers", SCHEMES)
def test_identifiers_equal_those_of_the_cpu(identifiers: str) -> None:
    topology = make_case(GRAPHS).topology
    one = ContextIndex.build(topology, identifiers, 2)
    other = ContextIndex.build(topology.to("cuda"), identifiers, 2)
    for name in ("ptr", "own", "owner"):
        assert torch.equal(getattr(one.table, name), getattr(other.table, name).cpu())
    for name in ("ptr", "source", "target", "edge", "scale"):
        assert torch.equal(getattr(one.lift, name), getattr(other.lift, name).cpu())


@pytest.mark.parametrize("chunk", [1, 50])
def test_small_pieces_equal_the_cpu(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    edge_channels, make = NETWORKS["default with edges"]
    model = randomize(make("neighborhood"))
    case = make_case([path(5), cycle(4)], 2, edge_channels)
    expected, expected_rest = call(model, case, "cpu", torch.float64)
    monkeypatch.setattr(neighbor, "CHUNK", {"cpu": chunk, "cuda": chunk})
    actual, rest = call(model, case, "cuda", torch.float64)
    assert_same(actual + rest, expected + expected_rest, tolerance=1e-9)


def test_gradients_of_the_helper_work_on_the_gpu() -> None:
    """Of the test's own helper."""
    leaf = torch.ones(3, 2, dtype=torch.float64, device="cuda", requires_grad=True)
    assert gradients([leaf * 2], [leaf])[0].is_cuda


@pytest.mark.parametrize("entry", MODELS.values(), ids=lambda entry: entry.name)
def test_every_network_of_the_catalogue_equals_the_cpu(entry: Entry) -> None:
    """In float64 and eval mode; those with random identifiers only run."""
    options = with_values(
        CyclesOptions(), {"model": entry.name, "hidden_channels": 8, "num_layers": 2}, "test"
    )
    store = cycle_graphs(4, 20, 12, seed=0)
    prepared = assemble(options, Splits(store, store, store), Classification(), {"kind": "graphs"})
    torch.manual_seed(0)
    network = prepared.network().double().eval()
    batch = store.batch()
    with torch.no_grad():
        here = run_network(network, batch)
        there = run_network(network.cuda(), batch.to("cuda")).cpu()
    assert there.isfinite().all()
    if entry.name not in ("gin-random", "rp"):
        torch.testing.assert_close(there, here, rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore")  # of the compiler, about its own insides
@pytest.mark.parametrize("network", ["default with edges", "fast", "multi-task"])
def test_torch_compile_gives_the_same(network: str) -> None:
    edge_channels, make = NETWORKS[network]
    model = randomize(make("onehot"), dtype=torch.float32).cuda().train()
    case = make_case(GRAPHS, 2, edge_channels, dtype=torch.float32)
    expected, _ = call(model, case, "cuda", torch.float32)
    compiled = deepcopy(model)
    compiled.forward = torch.compile(compiled.forward)
    leaves = [None if v is None else v.detach().cuda() for v in (case.x, case.edge_attr)]
    result = compiled(
        leaves[0], case.edge_index.cuda(), leaves[1], case.batch.cuda(), batch_size=case.num_graphs
    )
    outputs = [result] if isinstance(result, Tensor) else list(result)
    for near, exact in zip(outputs, expected, strict=True):
        assert (near.cpu() - exact).abs().max() < 1e-3 * max(1.0, exact.abs().max().item())
    sum(out.sum() for out in outputs).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in compiled.parameters())
