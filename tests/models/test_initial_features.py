"""Node features in all initial contexts, and updates divided as a whole, in networks."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import oracle
import pytest
import torch
from hypothesis import given
from strategies import (
    ODD,
    Structure,
    assert_same,
    batches,
    cycle,
    gradients,
    make_case,
    path,
    randomize,
    seeds,
)
from sweep import sweep

from smpgnn import SMP, InputError, MultiTaskSMP
from smpgnn.capture.padded import Capacity, PaddedStore
from smpgnn.data.store import GraphStore
from smpgnn.ops import backend
from smpgnn.testing import Graph, assert_batch_invariant, assert_equivariant
from smpgnn.training.network import run_network

OPTIONS: list[dict[str, Any]] = [
    {"features": "row", "layer": "fast", "divide_update": True, "residual": True},
    {"divide_update": True, "message_residual": True, "update_residual": True, "towers": 2},
    {"features": "row"},
    {"features": "context", "layer": "fast"},
]


def make(options: dict[str, Any], seed: int = 0, **more: Any) -> MultiTaskSMP:
    sizes = {"extractor_channels": 5, "state_channels": 3}
    return randomize(MultiTaskSMP(2, 3, 2, 4, 3, **sizes, **{**options, **more}), seed)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_equals_the_oracle(
    options: dict[str, Any], training: bool, graphs: list[Structure], seed: int
) -> None:
    model = make(options, seed).train(training)
    case = make_case(graphs, 2, 0, seed)
    expected = oracle.multitask(model, case.graphs)
    assert_same(case.call(model), expected, model, case.leaves())


def test_contexts_by_hand() -> None:
    """The path a–b–c with features 5, 6, 7: rows of a, b, c in the context of each."""
    case = make_case([path(3)], 1)
    index = case.index("onehot")
    x = torch.tensor([[5.0], [6.0], [7.0]], dtype=torch.float64)
    context = index.initial(x, torch.float64, features="row")
    ones, features = context.rows.view(3, 3, 2).unbind(2)
    assert torch.equal(ones, torch.eye(3).double())
    assert features.tolist() == [[5.0, 6.0, 7.0]] * 3
    assert index.described.tolist() == [0, 1, 2] * 3


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_is_equivariant(options: dict[str, Any]) -> None:
    case = make_case(list(ODD.values()), 2)
    assert_equivariant(make(options), case.x, case.edge_index, None, case.batch)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_batch_mates_change_nothing(options: dict[str, Any]) -> None:
    cases = [make_case([s], 2, 0, k) for k, s in enumerate(ODD.values()) if s[0] > 1]
    assert_batch_invariant(make(options), [Graph(c.x, c.edge_index) for c in cases])


@pytest.mark.parametrize("layer", ["default", "fast"])
@given(graphs=batches(max_nodes=7), seed=seeds())
def test_whole_division_is_exact_with_neighborhoods(
    layer: str, graphs: list[Structure], seed: int
) -> None:
    model = make({"layer": layer, "divide_update": True}, seed).eval()
    other = make({"layer": layer, "divide_update": True}, seed, identifiers="neighborhood").eval()
    case = make_case(graphs, 2, 0, seed)
    assert_same(case.call(other), case.call(model))


@pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")
@pytest.mark.skipif(torch.cuda.is_available(), reason="the plain way is for the CPU")
@pytest.mark.parametrize(
    ("options", "training"),
    sweep(OPTIONS, [True, False], always=lambda _, training: training),
)
def test_kernels_equal_the_plain_forms(
    options: dict[str, Any], training: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case([path(5), ODD["empty"], ODD["loops"], ODD["edgeless"]], 2)
    model = make(options).train(training)
    fused = deepcopy(model)
    expected = case.call(model)
    grads = gradients(expected, [*model.parameters(), case.x])
    monkeypatch.setattr(backend, "INTERPRETED", True)
    actual = case.call(fused)
    assert_same(actual, expected, tolerance=1e-9)
    assert_same(gradients(actual, [*fused.parameters(), case.x]), grads, tolerance=1e-9)


@pytest.mark.parametrize(
    ("options", "training", "interpreted"),
    sweep(
        OPTIONS,
        [True, False],
        [False, True],
        always=lambda options, training, kernels: not kernels or (training and "towers" in options),
    ),
)
def test_padding_has_no_effect(
    options: dict[str, Any], training: bool, interpreted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if interpreted and (not backend.has_kernels() or torch.cuda.is_available()):
        pytest.skip("needs triton, and its interpreter")
    graphs = [path(5), cycle(5), ODD["edgeless"], ODD["pair"], path(9)]
    case = make_case(graphs, 2)
    sizes = torch.tensor([n for n, _ in graphs])
    counts = torch.tensor([len(edges) for _, edges in graphs])
    ptr, edge_ptr = (torch.cat([v.new_zeros(1), v.cumsum(0)]) for v in (sizes, counts))
    shift = ptr[case.batch[case.edge_index[0]]]
    store = GraphStore(ptr, edge_ptr, case.edge_index - shift, case.x.detach())
    model = make(options).train(training)
    other = deepcopy(model)
    chosen = [2, 0]
    batch = store.batch(chosen)
    expected = model(batch.x.double(), batch.edge_index, None, batch.batch, batch_size=2)
    monkeypatch.setattr(backend, "INTERPRETED", interpreted)
    padded = PaddedStore(store, Capacity(3, {"node": 12, "edge": 16, "row": 48}))
    padded.x = padded.x.double()
    room, index = padded.batch(torch.tensor([*chosen, -1]))
    nodes, graphs_out = run_network(other, room, index)
    actual = nodes[: batch.num_nodes], graphs_out[:2]
    assert_same(actual, expected, tolerance=1e-10)
    for network, outputs in ((model, expected), (other, actual)):
        sum(
            (out * torch.arange(1, 1 + out.numel()).view_as(out)).sum() for out in outputs
        ).backward()
        assert network.backbone.layers[0].set_map.w1.weight.grad is not None
    for (name, one), two in zip(model.named_parameters(), other.parameters(), strict=True):
        if one.grad is not None:
            scale = max(1.0, one.grad.abs().max().item())
            assert (one.grad - two.grad).abs().max() <= 1e-9 * scale, name


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InputError, match=r"features must be one of own, .*, both, not 'col'"):
        SMP(2, 1, 4, 2, features="col")
    for identifiers in ("coloring", "neighborhood"):
        with pytest.raises(InputError, match=f"a row of '{identifiers}' may stand for several"):
            SMP(2, 1, 4, 2, identifiers=identifiers, features="row")
        index = make_case([path(4)]).index(identifiers, 2)
        with pytest.raises(InputError, match="build the index with 'onehot' or 'local'"):
            make_case([path(4)]).call(SMP(2, 1, 4, 2, features="row").double(), index=index)
