"""Derivatives of whole networks, first and second, by every way of asking, against the oracle.

Operators tested one by one, with inputs that do not depend on each other, cannot show that a path
through a network counts twice or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import oracle
import pytest
import torch
from local_oracle import local_smp
from small_networks import make
from strategies import ODD, SCHEMES, Case, _assert_near, cycle, make_case, path, randomize
from sweep import sweep
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call

from smpgnn import MPNN, InputError, MultiTaskSMP
from smpgnn.config.models import MODELS
from smpgnn.config.network import NetworkOptions
from smpgnn.models.registry import NetworkSpec

#: Kind of norm, its place, and whether the network is in training.
NORMS = [
    (None, "before", False),
    *product(["layer", "batch"], ["before", "after"], [True, False]),
]
#: What is combined with every layer, norm and scheme of identifiers.
REST: list[dict[str, Any]] = [
    {"residual": True},
    {"readout": "max"},
    {"level": "node", "residual": True},
    {"readout": "mean+scaled-sum", "usual_nodes": 3.0, "own_terms": True},
    {"divide_update": True, "shared_extractor": True, "set_scale": 0.3},
]
#: A path, on which no two rows are alike, a graph of every symmetry, and odd ones.
GRAPHS = [path(4), cycle(4), ODD["loops"], ODD["single"]]
Leaves = Sequence[Tensor]


def total(outputs: Any) -> Tensor:
    """A number that bends with the outputs."""
    parts = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    ways = [torch.arange(o.numel(), dtype=o.dtype).view(o.shape).sin() for o in parts]
    return sum((o * w + 0.3 * o.square()).sum() for o, w in zip(parts, ways, strict=True))


def directions(leaves: Leaves) -> list[Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(v.shape, generator=generator, dtype=v.dtype) for v in leaves]


def filled(found: Sequence[Tensor | None], leaves: Leaves) -> list[Tensor]:
    pairs = zip(found, leaves, strict=True)
    return [torch.zeros_like(leaf) if value is None else value for value, leaf in pairs]


def first(compute: Callable[[], Any], leaves: Leaves, create_graph: bool) -> list[Tensor]:
    found = torch.autograd.grad(
        total(compute()), list(leaves), create_graph=create_graph, allow_unused=True
    )
    return filled(found, leaves)


def second(compute: Callable[[], Any], leaves: Leaves) -> list[Tensor]:
    """The product of the Hessian and one direction."""
    slopes = first(compute, leaves, create_graph=True)
    along = sum((s * d).sum() for s, d in zip(slopes, directions(leaves), strict=True))
    assert isinstance(along, Tensor)
    return filled(torch.autograd.grad(along, list(leaves), allow_unused=True), leaves)


def check(model: nn.Module, case: Case, expected: Callable[[], Any]) -> None:
    """First derivatives with and without a graph, and second ones, are those of the oracle."""
    names = [*(name for name, _ in model.named_parameters()), "x", "edge_attr"]
    leaves = [*model.parameters(), *case.leaves()]
    buffers = {name: value.clone() for name, value in model.named_buffers()}

    def actual() -> Any:
        model.load_state_dict(buffers, strict=False)
        return case.call(model)

    plain, graph, wanted = (
        first(actual, leaves, False),
        first(actual, leaves, True),
        first(expected, leaves, False),
    )
    for name, a, b, c in zip(names, plain, graph, wanted, strict=False):
        _assert_near(f"gradient of {name}", a, c, 1e-10)
        _assert_near(f"gradient of {name} with create_graph=True", b, c, 1e-10)
    for name, a, b in zip(names, second(actual, leaves), second(expected, leaves), strict=False):
        _assert_near(f"second derivative of {name}", a, b, 1e-9)


def usual(layer: str, norm: tuple[str | None, str, bool], identifiers: str) -> bool:
    """Each norm, place and mode with one scheme per layer; each scheme with several of them."""
    number = NORMS.index(norm) + (2 if layer == "fast" else 0)
    return identifiers == list(SCHEMES)[number % len(SCHEMES)]


@pytest.mark.parametrize(
    ("layer", "norm", "identifiers"), sweep(["default", "fast"], NORMS, SCHEMES, always=usual)
)
def test_smp(layer: str, norm: tuple[str | None, str, bool], identifiers: str) -> None:
    norm, place, training = norm
    for number, rest in enumerate(REST):
        edges = 2 if layer == "default" and number % 2 else 0
        options = {"layer": layer, "norm": norm, "norm_place": place, "edge_channels": edges}
        if layer == "default":
            options |= {"message_residual": number > 1, "update_residual": number == 2}
        radius = {"context_radius": 1} if identifiers == "local" else {}
        if identifiers == "local" and "divide_update" in rest:
            continue  # the transcription has no such layer
        model = make(
            {**options, **rest, **radius}, seed=number, identifiers=identifiers, num_layers=2
        ).train(training)
        case = make_case(GRAPHS, 2, edges, seed=number)
        if identifiers == "local":
            near, graphs = model, case.graphs
            check(model, case, lambda near=near, graphs=graphs: local_smp(near, graphs, 1))
            continue
        if identifiers == "coloring":
            case = case.with_identifiers(case.index("coloring", 2).table.identifier)
        whole, graphs = model, case.graphs
        check(model, case, lambda whole=whole, graphs=graphs: oracle.smp(whole, graphs))


@pytest.mark.parametrize("readout", ["max", "mean+max"])
@pytest.mark.parametrize("identifiers", ["onehot", "neighborhood"])
@pytest.mark.parametrize("layer", ["default", "fast"])
def test_equal_maxima_share_the_gradient(layer: str, identifiers: str, readout: str) -> None:
    """In graphs without features whose nodes are all alike, every maximum is a tie."""
    options = {"layer": layer, "readout": readout, "norm": "layer"}
    model = make(options, in_channels=0, identifiers=identifiers)
    case = make_case([cycle(5), cycle(6), path(2)], 0)
    check(model, case, lambda: oracle.smp(model, case.graphs))


@pytest.mark.parametrize("norm", ["layer", "batch"])
@pytest.mark.parametrize("layer", ["default", "fast"])
def test_the_ablation(layer: str, norm: str) -> None:
    model = make({"layer": layer, "norm": norm, "residual": True}, MPNN).train()
    case = make_case(GRAPHS, 2).of_nodes()
    check(model, case, lambda: oracle.smp(model, case.graphs))


@pytest.mark.parametrize("checkpoint", [False, True], ids=["", "checkpoint"])
@pytest.mark.parametrize("layer", ["default", "fast"])
def test_several_targets(layer: str, checkpoint: bool) -> None:
    options = {"state_channels": 3, "norm": "batch", "checkpoint": checkpoint}
    model = randomize(MultiTaskSMP(2, 3, 2, 4, 2, layer, **options)).train()
    case = make_case(GRAPHS, 2)
    check(model, case, lambda: oracle.multitask(model, case.graphs))


def network_of(name: str) -> nn.Module:
    options = NetworkOptions().changed(
        model=name, hidden_channels=4, num_layers=2, norm="batch", residual=True, towers=2,
        extractor_channels=4,
    )  # fmt: skip
    spec = NetworkSpec(in_channels=2, graph_outputs=2, max_nodes=5, options=options)
    return randomize(spec.build())


@pytest.mark.parametrize("name", MODELS)
def test_every_network_of_the_catalogue(name: str) -> None:
    """Where there is no oracle: second derivatives are the differences of first ones."""
    model, case = network_of(name).train(), make_case(GRAPHS, 2)
    leaves = [*model.parameters(), *case.leaves()]
    buffers = {key: value.clone() for key, value in model.named_buffers()}

    def compute() -> Any:
        model.load_state_dict(buffers, strict=False)
        torch.manual_seed(0)
        return case.call(model)

    plain, graph = first(compute, leaves, False), first(compute, leaves, True)
    for number, (a, b) in enumerate(zip(plain, graph, strict=True)):
        _assert_near(f"gradient {number} with create_graph=True", b, a, 1e-9)
    step, sides = 1e-6, []
    for sign in (1, -2):
        with torch.no_grad():
            for leaf, way in zip(leaves, directions(leaves), strict=True):
                leaf.add_(way, alpha=sign * step)
        sides.append(first(compute, leaves, False))
    with torch.no_grad():
        for leaf, way in zip(leaves, directions(leaves), strict=True):
            leaf.add_(way, alpha=step)
    for number, (a, up, down) in enumerate(zip(second(compute, leaves), *sides, strict=True)):
        _assert_near(f"second derivative {number}", a, (up - down) / (2 * step), 1e-4)


FUNC = [
    {"layer": layer, "identifiers": identifiers, **rest}
    for layer, identifiers, rest in zip(
        ["default", "fast"] * 4,
        [*SCHEMES, *SCHEMES[::-1]],
        [{"norm": "batch"}, {"norm": "layer", "readout": "max"}, {"level": "node"}, {}] * 2,
        strict=True,
    )
]


@pytest.mark.parametrize("options", FUNC, ids=str)
def test_torch_func(options: dict[str, Any]) -> None:
    """grad, jvp, vmap and Hessians of `torch.func`, of inputs and of weights."""
    model, case = make({"norm": "layer", **options}).eval(), make_case([path(4), cycle(3)])
    x = case.x.detach()

    def of_input(x: Tensor) -> Tensor:
        return total(model(x, case.edge_index, None, case.batch))

    def of_weights(weights: dict[str, Tensor]) -> Tensor:
        return total(functional_call(model, weights, (x, case.edge_index, None, case.batch)))

    weights = dict(model.named_parameters())
    slopes = first(lambda: case.call(model), [case.x, *weights.values()], False)
    _assert_near("grad", torch.func.grad(of_input)(x), slopes[0], 1e-10)
    found = torch.func.grad(of_weights)({k: v.detach() for k, v in weights.items()})
    for name, slope in zip(weights, slopes[1:], strict=True):
        _assert_near(f"grad of {name}", found[name], slope, 1e-10)
    way = directions([x])[0]
    _, along = torch.func.jvp(of_input, (x,), (way,))
    _assert_near("jvp", along, (slopes[0] * way).sum(), 1e-10)
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(of_input(forward_ad.make_dual(x, way)))
        _assert_near("forward mode", dual.tangent, (slopes[0] * way).sum(), 1e-10)
    several = torch.stack([x, way, 2 * x])
    alone = torch.stack([of_input(value) for value in several])
    _assert_near("vmap", torch.func.vmap(of_input)(several), alone, 1e-10)
    twice = torch.autograd.functional.hessian(of_input, x)
    _assert_near("hessian", torch.func.hessian(of_input)(x), twice, 1e-9)


@pytest.mark.parametrize("name", MODELS)
def test_torch_func_on_every_network_of_the_catalogue(name: str) -> None:
    model, case = network_of(name).eval(), make_case([path(4), cycle(3)])

    def of_input(x: Tensor) -> Tensor:
        torch.manual_seed(0)
        return total(model(x, case.edge_index, None, case.batch))

    wanted = torch.autograd.grad(of_input(case.x), case.x)[0]
    x, way = case.x.detach(), directions([case.x])[0]
    _assert_near("grad", torch.func.grad(of_input)(x), wanted, 1e-10)
    _assert_near("jvp", torch.func.jvp(of_input, (x,), (way,))[1], (wanted * way).sum(), 1e-10)


def test_batch_norm_in_training_is_refused_under_torch_func() -> None:
    model, case = make({"norm": "batch"}).train(), make_case([path(4)])
    with pytest.raises(InputError, match=r"model\.eval\(\)"):
        torch.func.grad(lambda x: model(x, case.edge_index).sum())(case.x.detach())
