"""With checkpointing a network computes the same, learns the same and keeps less."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest
import torch
from strategies import ODD, SCHEMES, Case, cycle, gradients, make_case, path, randomize
from torch import Tensor, nn
from torch.nn import functional as F

from smpgnn import MPNN, SMP, ContextIndex, LocalContext, MultiTaskSMP, SMPLayer
from smpgnn.config.network import NetworkOptions
from smpgnn.models.registry import NetworkSpec

GRAPHS = [path(6), cycle(5), *ODD.values()]
NETWORKS: dict[str, dict[str, Any]] = {
    "default": {"norm": "batch", "residual": True},
    "edges": {
        "norm": "batch",
        "edge_channels": 2,
        "towers": 2,
        "message_residual": True,
        "update_residual": True,
    },
    "fast": {"layer": "fast", "norm": "batch", "residual": True},
    "fast node": {"layer": "fast", "norm": "layer", "level": "node"},
    "node": {"norm": "batch", "level": "node"},
    "plain": {},
}


def pair(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The same network without and with checkpointing."""
    other = deepcopy(model)
    backbone: Any = other.backbone
    backbone.options = replace(backbone.options, checkpoint=True)
    return model, other


def smp(options: dict[str, Any], network: type[SMP] = SMP) -> SMP:
    return randomize(network(2, 2, 4, 3, **options))


def learned(model: nn.Module, case: Case) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
    """Outputs, gradients of parameters and inputs, and the buffers after a step."""
    out = case.call(model)
    outputs = [out] if isinstance(out, Tensor) else list(out)  # type: ignore[call-overload]
    found = gradients(outputs, [*model.parameters(), *case.leaves()])
    return outputs, found, list(model.buffers())


def assert_equal_steps(model: nn.Module, case: Case) -> None:
    plain, saving = pair(model)
    pairs = zip(learned(plain, case), learned(saving, case), strict=True)
    for expected, actual in pairs:
        assert len(expected) == len(actual)
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("options", NETWORKS.values(), ids=NETWORKS)
def test_results_gradients_and_statistics_are_the_same(
    options: dict[str, Any], identifiers: str, training: bool
) -> None:
    case = make_case(GRAPHS, 2, options.get("edge_channels", 0))
    assert_equal_steps(smp({**options, "identifiers": identifiers}).train(training), case)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("layer", ["default", "fast"])
def test_multi_task_networks_are_the_same(layer: str, identifiers: str, training: bool) -> None:
    model = MultiTaskSMP(2, 3, 2, 4, 3, layer, identifiers, extractor_channels=5, state_channels=3)
    assert_equal_steps(randomize(model).train(training), make_case(GRAPHS))


@pytest.mark.parametrize("name", ["default", "edges", "fast"])
def test_the_ablation_is_the_same(name: str) -> None:
    options = NETWORKS[name]
    case = make_case(GRAPHS, 2, options.get("edge_channels", 0))
    assert_equal_steps(smp(options, MPNN), case)


def test_a_step_counts_once_in_the_running_statistics() -> None:
    case = make_case(GRAPHS)
    _, model = pair(smp({"norm": "batch"}).train())
    norms = [part for part in model.modules() if isinstance(part, nn.BatchNorm1d)]
    before = [norm.running_mean.clone() for norm in norms]
    for step in (1, 2, 3):
        out: Any = case.call(model)
        out.square().sum().backward()
        assert [int(norm.num_batches_tracked) for norm in norms] == [step] * len(norms)
    for norm, start in zip(norms, before, strict=True):
        assert not torch.equal(norm.running_mean, start)


class Noisy(SMPLayer):
    """A layer of one's own: dropout and a batch norm inside."""

    def __init__(self, in_channels: int, out_channels: int, edge_channels: int = 0) -> None:
        super().__init__("mean")
        self.map = nn.Linear(in_channels, out_channels)
        self.norm = nn.BatchNorm1d(out_channels)

    def update(
        self, context: LocalContext, messages: LocalContext, index: ContextIndex
    ) -> LocalContext:
        rows = self.norm(self.map(context.rows + messages.rows))
        return context.with_rows(F.dropout(rows, 0.5, self.training))


class NoisySMP(SMP):
    layer_types = {"noisy": Noisy}  # noqa: RUF012


def test_layers_that_draw_at_random_draw_the_same_again() -> None:
    case = make_case(GRAPHS)
    found = []
    for model in pair(smp({"layer": "noisy"}, NoisySMP).train()):
        torch.manual_seed(1)
        found.append((learned(model, case), torch.rand(1)))
    for one, other in zip(found[0][0], found[1][0], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert torch.equal(found[0][1], found[1][1])


def test_between_the_layers_only_their_inputs_are_kept() -> None:
    case = make_case([cycle(12)], 2)

    def kept(model: nn.Module) -> int:
        """Numbers kept for the gradient, tensors of contexts only."""
        sizes: dict[int, int] = {}

        def pack(value: Tensor) -> Tensor:
            if value.dim() == 2 and value.size(0) == 12 * 12:
                sizes[value.untyped_storage().data_ptr()] = value.numel()
            return value

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
            result = case.call(model)
        assert isinstance(result, Tensor)
        return sum(sizes.values())

    plain, saving = pair(smp({"norm": "batch"}).train())
    assert kept(plain) > 8 * 144 * 4
    assert kept(saving) == 0  # the inputs are held by the layers, not by the graph
    with torch.no_grad():
        assert torch.equal(case.call(plain), case.call(saving))  # type: ignore[arg-type]


def test_runs_record_it() -> None:
    options = NetworkOptions(checkpoint=True, num_layers=2, hidden_channels=8)
    spec = NetworkSpec(in_channels=3, edge_channels=2, graph_outputs=1, options=options)
    assert spec.to_dict()["checkpoint"] is True
    network: Any = spec.build()
    assert network.options.checkpoint
    old = {name: value for name, value in spec.to_dict().items() if name != "checkpoint"}
    before = NetworkSpec.from_dict(old)  # models saved before there was the option
    assert not before.options.checkpoint
