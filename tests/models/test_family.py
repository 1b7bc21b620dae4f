"""The family of networks on the same rows: more terms, pairs of marked nodes, first rows."""

from __future__ import annotations

from typing import Any

import family_oracle
import pytest
import torch
from hypothesis import given, settings
from strategies import (
    ODD,
    Structure,
    assert_same,
    batches,
    cycle,
    make_case,
    path,
    randomize,
    seeds,
    undirected,
)

from smpgnn import SMP, ContextIndex, InputError, LocalContext
from smpgnn.config.network import TERMS
from smpgnn.layers import DefaultSMPLayer
from smpgnn.models.registry import NetworkSpec
from smpgnn.ops import backend
from smpgnn.testing import Graph, assert_batch_invariant, assert_equivariant

ALONE: list[dict[str, Any]] = [{"terms": (term,)} for term in TERMS]
TOGETHER: list[dict[str, Any]] = [
    {"terms": ("inside", "folklore"), "edge_channels": 2, "own_terms": True, "norm": "batch"},
    {"terms": TERMS, "edge_channels": 2, "towers": 2, "residual": True, "update_residual": True},
    {"terms": ("inside", "mirror"), "level": "node", "norm": "layer", "message_residual": True},
]
FIRST: list[dict[str, Any]] = [
    {"features": "both"},
    {"first_rows": ("distance",), "features": "row"},
    {"first_rows": ("bond",), "edge_channels": 2},
    {"first_rows": ("bond", "walks"), "walk_steps": 3},
    {"first_rows": ("distance", "bond", "walks"), "features": "both", "edge_channels": 2,
     "norm": "batch", "walk_steps": 5},
]  # fmt: skip
ROWS = ["onehot", "local", "pairs"]
MEMBERS = [
    *({**options, "identifiers": rows} for options in ALONE + TOGETHER for rows in ROWS[:2]),
    *({**options, "identifiers": rows} for options in FIRST for rows in ROWS),
    {"identifiers": "pairs", "pair_distance": 2, "norm": "batch", "residual": True},
    {"identifiers": "pairs", "pair_distance": 0, "edge_channels": 2, "level": "node"},
    {"identifiers": "pairs", "context_radius": 1, "own_terms": True},
]
#: Two rings that share a bond, a ring on a chain, and two rings that share an atom.
RINGS = [
    undirected(6, [(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (4, 5), (5, 2)]),
    undirected(6, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 5)]),
    undirected(5, [(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 2)]),
]


def make(options: dict[str, Any], seed: int = 0) -> SMP:
    return randomize(SMP(2, 2, 4, 2, **{"context_radius": 2, **options}), seed)


def case_of(graphs: list[Structure], options: dict[str, Any], seed: int = 0) -> Any:
    return make_case(graphs, 2, options.get("edge_channels", 0), seed)


@pytest.mark.parametrize("options", MEMBERS, ids=str)
@settings(max_examples=5)
@given(graphs=batches(max_nodes=4, max_graphs=2), seed=seeds())
def test_equals_the_oracle(options: dict[str, Any], graphs: list[Structure], seed: int) -> None:
    model = make(options, seed).train(bool(seed % 2))
    case = case_of(graphs, options, seed)
    expected = family_oracle.smp(model, case.graphs)
    assert_same(case.call(model), expected, model, case.leaves())


@pytest.mark.parametrize("options", MEMBERS, ids=str)
def test_equals_the_oracle_on_rings(options: dict[str, Any]) -> None:
    model, case = make(options), case_of(RINGS, options)
    expected = family_oracle.smp(model, case.graphs)
    assert_same(case.call(model), expected, model, case.leaves())


@pytest.mark.parametrize("options", MEMBERS, ids=str)
def test_is_equivariant(options: dict[str, Any]) -> None:
    case = case_of([*RINGS, *ODD.values()], options)
    assert_equivariant(make(options), case.x, case.edge_index, case.edge_attr, case.batch, trials=1)


@pytest.mark.parametrize("options", MEMBERS, ids=str)
def test_batch_mates_change_nothing(options: dict[str, Any]) -> None:
    graphs = [graph for graph in (*RINGS, *ODD.values()) if graph[0] > 1]
    cases = [case_of([graph], options, k) for k, graph in enumerate(graphs)]
    parts = [Graph(case.x, case.edge_index, case.edge_attr) for case in cases]
    assert_batch_invariant(make(options), parts)


@pytest.mark.parametrize("identifiers", ROWS[:2])
@pytest.mark.parametrize("options", ALONE + TOGETHER[:2], ids=str)
def test_forward_equals_the_equation(options: dict[str, Any], identifiers: str) -> None:
    case = case_of([*RINGS, ODD["loops"], ODD["directed cycle"]], options)
    layer = make({**options, "identifiers": identifiers}).backbone.layers[1]
    index = ContextIndex.build(case.topology, identifiers, 1, 2)
    rows = torch.randn(index.num_rows, 4, dtype=torch.float64)
    context = LocalContext(rows, index.layout)
    expected = layer.general_forward(context, index, case.edge_attr).rows
    assert_same(layer(context, index, case.edge_attr).rows, expected, layer)


@pytest.mark.parametrize("identifiers", ROWS)
def test_renaming_nodes_moves_rows(identifiers: str) -> None:
    """The rows of pairs move with their nodes: initial rows show which they describe."""
    case = make_case([*RINGS, ODD["isolated last"]], 2)
    options = {"identifiers": identifiers, "features": "both", "first_rows": ("distance",)}
    first = make(options).backbone.first_rows
    index = ContextIndex.build(case.topology, identifiers, 1, 2)
    moved = [3, 1, 5, 0, 2, 4, 7, 6, 10, 11, 9, 8, 15, 13, 12, 16, 14, 18, 19, 17]
    permutation = torch.tensor(moved)
    renamed, place = index.permute(permutation)
    x = torch.empty_like(case.x).index_copy(0, permutation, case.x)
    before = first(index, case.x, None, torch.float64).rows
    after = first(renamed, x, None, torch.float64).rows
    assert torch.equal(after[place], before)


def test_the_default_network_is_as_before() -> None:
    model = SMP(2, 1, 4, 2, edge_channels=2)
    assert {type(layer) for layer in model.backbone.layers} == {DefaultSMPLayer}
    torch.manual_seed(0)
    plain = SMP(2, 1, 4, 1)
    torch.manual_seed(0)
    more = SMP(2, 1, 4, 1, terms=TERMS)
    kept = plain.backbone.layers[0].state_dict()
    found = more.backbone.layers[0].state_dict()
    assert all(torch.equal(found[name], value) for name, value in kept.items())
    assert not [name for name in model.state_dict() if "parts" in name or "arc" in name]


def test_saved_specs_keep_the_options() -> None:
    import json

    options = make({"terms": ("mirror", "inside"), "first_rows": "walks"}).options
    spec = NetworkSpec(in_channels=2, graph_outputs=1, options=options)
    again = NetworkSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert again == spec
    assert again.options.layer.terms == ("inside", "mirror")
    assert NetworkSpec.from_dict({"in_channels": 2}).options.layer.terms == ()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"terms": ("insid",)}, "terms must be some of inside, folklore, mirror, product, block-p"),
        ({"terms": "inside", "identifiers": "coloring"}, "terms goes with identifiers='local' or"),
        ({"terms": "inside", "identifiers": "pairs"}, "a row of 'pairs' may stand for several nod"),
        ({"terms": "inside", "divide_update": True}, "terms and divide_update cannot be combined"),
        ({"terms": "inside", "layer": "fast"}, "SMP: unknown argument 'terms'"),
        ({"first_rows": "walks", "identifiers": "neighborhood"}, "first_rows goes with identifier"),
        ({"first_rows": "distance", "context_radius": 1000}, "context_radius=1000: with first_row"),
        ({"features": "both", "identifiers": "coloring"}, "features='both' goes with identifiers="),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make(options)
    assert message in str(caught.value)


def test_an_index_of_other_pairs_is_refused() -> None:
    case = make_case([path(4), cycle(5)], 2)
    model = make({"identifiers": "pairs"})
    for index in (
        ContextIndex.build(case.topology, "local", 1, 2),
        ContextIndex.build(case.topology, "pairs", 1, 2, 2),
    ):
        with pytest.raises(InputError, match="index has other rows than this network"):
            case.call(model, index=index)


@pytest.mark.parametrize(
    "options",
    [
        *({**options, "identifiers": "local", "edge_channels": 2} for options in ALONE),
        {**TOGETHER[1], "norm": "batch", "identifiers": "onehot"},
        {**FIRST[4], "identifiers": "pairs"},
    ],
    ids=str,
)
def test_derivatives_are_those_of_the_oracle(options: dict[str, Any]) -> None:
    """First derivatives, with and without a graph, and the product of the Hessian."""
    from test_derivatives import check

    model = make({**options, "context_radius": 1}).train()
    case = case_of([RINGS[1], ODD["loops"]], options)
    check(model, case, lambda: family_oracle.smp(model, case.graphs))


@pytest.mark.parametrize("identifiers", ROWS[:2])
def test_torch_func_gives_the_same_derivatives(identifiers: str) -> None:
    model = make({"terms": TERMS, "edge_channels": 2, "identifiers": identifiers})
    case = case_of([RINGS[0], ODD["loops"]], {"edge_channels": 2})
    x, y = case.x.detach(), case.edge_attr.detach()
    weights = {name: value.detach() for name, value in model.named_parameters()}

    def loss(weights: Any, x: Any, y: Any) -> torch.Tensor:
        out = torch.func.functional_call(
            model, weights, (x, case.edge_index, y, case.batch), {"batch_size": 2}
        )
        return out.square().sum()

    expected = torch.autograd.grad(
        case.call(model).square().sum(), [*model.parameters(), case.x, case.edge_attr]
    )
    grads, dx, dy = torch.func.grad(loss, argnums=(0, 1, 2))(weights, x, y)
    for one, other in zip([*grads.values(), dx, dy], expected, strict=True):
        assert_same(one, other)
    along = torch.ones_like(x)
    _, slope = torch.func.jvp(lambda x: loss(weights, x, y), (x,), (along,))
    assert_same(slope, (dx * along).sum())


@pytest.mark.parametrize("options", ALONE, ids=str)
def test_gradients_equal_differences(options: dict[str, Any]) -> None:
    model, case = make({**options, "identifiers": "local"}), case_of([RINGS[1]], options)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return model(x, case.edge_index, None, case.batch).sum()

    assert torch.autograd.gradcheck(loss, (case.x,))


def test_checkpointing_changes_nothing() -> None:
    options = {"terms": TERMS, "edge_channels": 2, "identifiers": "local", **FIRST[4]}
    case = case_of(RINGS, options)
    one, other = make(options).train(), make({**options, "checkpoint": True}).train()
    results = []
    for model in (one, other):
        out = case.call(model)
        results.append([out, *torch.autograd.grad(out.sum(), list(model.parameters()))])
    assert_same(results[1], results[0])


@pytest.mark.skipif(not backend.has_kernels(), reason="needs triton")
@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are interpreted on a CPU")
@pytest.mark.parametrize(
    "options",
    [
        {"terms": TERMS, "edge_channels": 2, "identifiers": "local", "norm": "batch"},
        {**FIRST[4], "identifiers": "pairs"},
    ],
    ids=str,
)
def test_kernels_equal_the_plain_forms(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of([RINGS[1], ODD["loops"], ODD["edgeless"]], options)
    results = []
    for interpreted in (False, True):
        monkeypatch.setattr(backend, "INTERPRETED", interpreted)
        model = make(options).train()
        out = case.call(model)
        results.append([out, *torch.autograd.grad(out.sin().sum(), [*model.parameters(), case.x])])
    assert_same(results[1], results[0], tolerance=1e-9)
