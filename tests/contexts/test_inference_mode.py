"""An index first used without gradients serves a training afterwards, with the same gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch
from strategies import DTYPE, SCHEMES, randomize
from torch import Tensor, nn

from smpgnn import ContextIndex, InputError, TargetLoader, Topology, context_index
from smpgnn.config.models import MODELS
from smpgnn.config.options import CyclesOptions
from smpgnn.contexts.transforms import AddIdentifiers
from smpgnn.models.registry import NetworkSpec

EDGES = torch.tensor([[0, 1, 1, 2, 2, 3, 4, 5, 5, 6], [1, 0, 2, 1, 3, 2, 5, 4, 6, 5]])
BATCH = torch.tensor([0, 0, 0, 0, 1, 1, 1])
X = torch.randn(7, 2, generator=torch.Generator().manual_seed(0), dtype=DTYPE)


def network_of(model: str, identifiers: str, norm: str, edges: int = 0) -> nn.Module:
    options = CyclesOptions().network.changed(
        model=model, identifiers=identifiers, norm=norm, hidden_channels=8, num_layers=2
    )
    spec = NetworkSpec(
        in_channels=2, edge_channels=edges, graph_outputs=1, max_nodes=4, options=options
    )
    return randomize(spec.build(), 0)


def gradients(network: nn.Module, index: ContextIndex) -> list[Tensor]:
    topology = index.topology
    x = X.clone().requires_grad_()
    torch.manual_seed(0)
    out = network(x, topology.edge_index, None, topology.batch, index=index)
    found = torch.autograd.grad(out.square().sum(), [x, *network.parameters()], allow_unused=True)
    return [value for value in found if value is not None]


def kept(value: Any, seen: set[int]) -> Iterator[Tensor]:
    """All tensors that an object holds, in fields and caches."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from kept(entry, seen)
    elif isinstance(value, list | tuple):
        for entry in value:
            yield from kept(entry, seen)
    elif is_dataclass(value) and not isinstance(value, type):
        for entry in [*(getattr(value, f.name) for f in fields(value)), *vars(value).values()]:
            yield from kept(entry, seen)


CASES = [
    *((model, "onehot", "batch") for model in MODELS),
    *((model, scheme, norm) for model in ("smp", "fast-smp") for scheme in SCHEMES
      for norm in ("layer", "none")),
]  # fmt: skip


@pytest.mark.parametrize(("model", "scheme", "norm"), CASES)
def test_an_index_used_without_gradients_first(model: str, scheme: str, norm: str) -> None:
    network = network_of(model, scheme, norm)
    start = {name: value.clone() for name, value in network.state_dict().items()}
    backbone: Any = network.backbone
    expected = gradients(network, backbone.index(Topology.checked(EDGES, BATCH)))
    before = [backbone.index(Topology.checked(EDGES, BATCH)) for _ in range(2)]
    with torch.no_grad():
        use(network, before[0])
    with torch.inference_mode():
        inside = backbone.index(Topology.checked(EDGES, BATCH))
        of_edges_from_inside = backbone.index(Topology.checked(EDGES + 0, BATCH + 0))
        for index in (before[1], inside, of_edges_from_inside):
            use(network, index)
    for index in (*before, inside, of_edges_from_inside):
        assert all(not tensor.is_inference() for tensor in kept(index, set()))
        network.load_state_dict(start)
        for ours, theirs in zip(gradients(network, index), expected, strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_an_index_first_used_under_torch_func(scheme: str) -> None:
    network = network_of("smp", scheme, "layer")
    backbone: Any = network.backbone
    expected = gradients(network, backbone.index(Topology.checked(EDGES, BATCH)))
    index = backbone.index(Topology.checked(EDGES, BATCH))
    torch.func.grad(lambda x: network(x, EDGES, None, BATCH, index=index).sum())(X)
    for ours, theirs in zip(gradients(network, index), expected, strict=True):
        assert torch.equal(ours, theirs)


def test_a_mapped_graph_is_refused() -> None:
    network = network_of("smp", "onehot", "none")
    with pytest.raises(InputError, match=r"edge_index comes from torch\.vmap"):
        torch.func.vmap(lambda e: network(X, e, None, BATCH))(torch.stack([EDGES, EDGES]))


def use(network: nn.Module, index: ContextIndex) -> None:
    for module in (network.eval(), network.train()):
        module(X, index.topology.edge_index, None, index.topology.batch, index=index)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_indices_of_transforms_and_loaders(scheme: str) -> None:
    from torch_geometric.data import Data

    network = network_of("smp", scheme, "batch")
    data = Data(x=X, edge_index=EDGES, batch=BATCH, num_nodes=7)
    with torch.inference_mode():
        index = context_index(AddIdentifiers(scheme, 2)(data))
        network.eval()(X, EDGES, None, BATCH, index=index)
    assert all(not tensor.is_inference() for tensor in kept(index, set()))
    gradients(network.train(), index)


def test_a_loader_of_targets_made_under_inference_mode() -> None:
    from torch_geometric.data import Data

    with torch.inference_mode():
        loader = TargetLoader(Data(x=X, edge_index=EDGES, num_nodes=7), 2, batch_size=3)
        seen = list(loader)
    for batch in (*seen, *loader):
        assert all(not tensor.is_inference() for tensor in kept(batch.index, set()))
