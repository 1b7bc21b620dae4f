"""SMP and its ablation: equal to the dense oracle, whatever the graphs, batches and options."""

from __future__ import annotations

import io
from copy import deepcopy
from typing import Any

import oracle
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import (
    ODD,
    SCHEMES,
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
from torch_geometric.nn import SoftmaxAggregation

from smpgnn import MPNN, SMP, ContextIndex
from smpgnn.rows import IdentifierRows
from smpgnn.testing import Graph, assert_batch_invariant, assert_equivariant

OPTIONS: list[dict[str, Any]] = [
    {},
    {"layer": "fast"},
    {"level": "node"},
    {"layer": "fast", "level": "node", "norm": "batch"},
    {"norm": "batch", "residual": True},
    {"norm": "layer", "shared_extractor": True},
    {"edge_channels": 2, "towers": 2, "message_residual": True, "update_residual": True},
    {"pooling": "sum"},
    {"readout": "max", "layer": "fast"},
    {"readout": "mean+max", "layer": "fast", "shared_extractor": True},
    {"readout": "sum", "shared_extractor": True},
    {"pooling": "mean", "edge_channels": 2, "residual": True},
    {"pooling": "max", "layer": "fast", "extractor_channels": 5},
]


def make(options: dict[str, Any], network: type[SMP] = SMP, seed: int = 0, **more: Any) -> SMP:
    arguments = {"in_channels": 2, "hidden_channels": 4, "num_layers": 3, "out_channels": 2}
    return randomize(network(**{**arguments, **options, **more}), seed)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), in_channels=st.sampled_from([0, 2, 3]), seed=seeds())
def test_equals_the_oracle(
    options: dict[str, Any], training: bool, graphs: list[Structure], in_channels: int, seed: int
) -> None:
    model = make(options, seed=seed, in_channels=in_channels).train(training)
    case = make_case(graphs, in_channels, options.get("edge_channels", 0), seed)
    expected = oracle.smp(model, case.graphs, options.get("pooling", ""))
    assert_same(case.call(model), expected, model, case.leaves())


@pytest.mark.parametrize("options", OPTIONS[:7], ids=str)
@given(graphs=batches(max_nodes=7), seed=seeds())
def test_equals_the_oracle_with_the_same_colours(
    options: dict[str, Any], graphs: list[Structure], seed: int
) -> None:
    model = make(options, identifiers="coloring", num_layers=1, seed=seed)
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    case = case.with_identifiers(case.index("coloring", 1).table.identifier)
    assert_same(case.call(model), oracle.smp(model, case.graphs), model, case.leaves())


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS[:7], ids=str)
@given(graphs=batches(), seed=seeds())
def test_mpnn_equals_the_oracle(
    options: dict[str, Any], training: bool, graphs: list[Structure], seed: int
) -> None:
    model = make(options, MPNN, seed).train(training)
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed).of_nodes()
    assert_same(case.call(model), oracle.smp(model, case.graphs), model, case.leaves())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_training_step_leaves_the_running_statistics_of_the_oracle(
    options: dict[str, Any],
) -> None:
    model = make({**options, "norm": "batch"}).train()
    case = make_case([path(4), ODD["empty"], ODD["single"], cycle(5)], 2,
                     options.get("edge_channels", 0))  # fmt: skip
    expected = []
    for us, norm in zip(
        oracle.contexts(model.backbone, case.graphs), model.backbone.norms, strict=False
    ):
        expected.append(
            oracle.running_statistics(norm, us) if hasattr(norm, "running_mean") else None
        )
    case.call(model)
    for statistics, norm in zip(expected, model.backbone.norms, strict=True):
        if statistics is not None:
            assert_same([norm.running_mean, norm.running_var], statistics)
            assert norm.num_batches_tracked == 1


# ------------------------------------------------------------------ the promises of section 3


@pytest.mark.parametrize("identifiers", ["onehot", "neighborhood"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_is_equivariant(
    options: dict[str, Any], identifiers: str, graphs: list[Structure], seed: int
) -> None:
    model = make(options, identifiers=identifiers, seed=seed).eval()
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    assert_equivariant(
        model, case.x, case.edge_index, case.edge_attr, case.batch, trials=1, seed=seed
    )


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_mpnn_is_equivariant(options: dict[str, Any], graphs: list[Structure], seed: int) -> None:
    model = make(options, MPNN, seed).eval()
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    assert_equivariant(
        model, case.x, case.edge_index, case.edge_attr, case.batch, trials=1, seed=seed
    )


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("layer", ["default", "fast"])
@given(graphs=batches(max_nodes=7), seed=seeds())
def test_coloring_is_equivariant_when_the_colours_move_along(
    layer: str, level: str, graphs: list[Structure], seed: int
) -> None:
    model = make({"layer": layer, "level": level}, num_layers=1, identifiers="coloring", seed=seed)
    case = make_case(graphs, 2, 0, seed)
    index = case.index("coloring", 1)
    offset = index.topology.graph_ptr[:-1]
    permutation = torch.cat(
        [torch.randperm(g.num_nodes) + start for g, start in zip(case.graphs, offset, strict=True)]
    )
    renamed, _ = index.permute(permutation)
    moved = torch.empty_like(case.x).index_copy(0, permutation, case.x)
    before = case.call(model, index=index)
    after = model(moved, renamed.topology.edge_index, index=renamed)
    assert_same(after[permutation] if level == "node" else after, before)


@pytest.mark.parametrize("level", ["graph", "node"])
@pytest.mark.parametrize("layer", ["default", "fast"])
@given(graphs=batches(), seed=seeds())
def test_the_order_of_the_identifiers_is_irrelevant(
    layer: str, level: str, graphs: list[Structure], seed: int
) -> None:
    """Section 3.1: the ordering induced by the one-hot encoding does not change the output."""
    model = make({"layer": layer, "level": level, "norm": "batch"}, seed=seed)
    case = make_case(graphs, 2, 0, seed)
    generator = torch.Generator().manual_seed(seed)
    shuffled = torch.cat([torch.randperm(g.num_nodes, generator=generator) for g in case.graphs])
    index = ContextIndex(case.topology, IdentifierRows.build(case.topology, shuffled, None))
    actual, expected = case.call(model, index=index), case.call(model)
    assert_same(actual, expected, model, case.leaves())


@given(graphs=batches(), seed=seeds())
def test_the_order_of_the_edges_is_irrelevant(graphs: list[Structure], seed: int) -> None:
    model = make({"edge_channels": 2, "level": "node"}, seed=seed)
    case = make_case(graphs, 2, 2, seed)
    order = torch.randperm(case.edge_index.size(1))
    shuffled = model(
        case.x, case.edge_index[:, order], case.edge_attr[order], case.batch,
        batch_size=case.num_graphs,
    )  # fmt: skip
    assert_same(shuffled, case.call(model), model, case.leaves())


def train_a_little(model: torch.nn.Module, options: dict[str, Any], steps: int = 4) -> None:
    """A few steps on other graphs, so that running statistics are not trivial."""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for seed in range(steps):
        case = make_case(
            [path(4), cycle(3), ODD["loops"]], 2, options.get("edge_channels", 0), seed
        )
        result = case.call(model)
        outputs = result if isinstance(result, tuple) else (result,)
        optimizer.zero_grad()
        sum(out.square().mean() for out in outputs).backward()
        optimizer.step()


@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("network", [SMP, MPNN])
def test_batch_mates_change_nothing(
    network: type[SMP], options: dict[str, Any], identifiers: str
) -> None:
    model = make({**options, "norm": "batch"}, network, identifiers=identifiers, num_layers=2)
    train_a_little(model, options)
    cases = [
        make_case([structure], 2, options.get("edge_channels", 0), seed)
        for seed, structure in enumerate(ODD.values())
        if structure[0]
    ]
    graphs = [Graph(case.x, case.edge_index, case.edge_attr) for case in cases]
    assert_batch_invariant(model, graphs)


# ------------------------------------------------------------------ local isomorphism


def node_outputs(model: SMP, structure: Structure) -> torch.Tensor:
    n, edges = structure
    edge_index = torch.tensor(edges).reshape(-1, 2).t()
    return model(None, edge_index, num_nodes=n)


@pytest.mark.parametrize("layer", ["default", "fast"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_nodes_of_a_vertex_transitive_graph_are_alike(layer: str, depth: int) -> None:
    model = make({"layer": layer, "level": "node"}, in_channels=0, num_layers=depth)
    cube = undirected(8, [(a, a ^ bit) for a in range(8) for bit in (1, 2, 4) if a < a ^ bit])
    for structure in (cycle(7), cube):
        outputs = node_outputs(model, structure)
        assert_same(outputs, outputs[:1].expand_as(outputs))


#: Two far parts of one graph: 0 and 10 are the middle of a path for 2 hops; 15 and 16, 3 hops
#: from 10, are joined, which 3 layers do not see yet (next test), and 4 do.
TWO_REGIONS = undirected(
    20,
    [
        *[(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7)],
        *[(10, 11), (10, 12), (11, 13), (12, 14), (13, 15), (14, 16), (15, 16)],
        *[(7, 8), (8, 9), (9, 19), (19, 18), (18, 17), (17, 16)],
    ],
)


@pytest.mark.parametrize("layer", ["default", "fast"])
def test_isomorphic_neighbourhoods_give_equal_outputs(layer: str) -> None:
    for depth, alike in ((2, True), (3, True), (4, False)):
        model = make({"layer": layer, "level": "node"}, in_channels=0, num_layers=depth)
        outputs = node_outputs(model, TWO_REGIONS)
        gap = (outputs[0] - outputs[10]).abs().max()
        assert gap < 1e-10 if alike else gap > 1e-6


@pytest.mark.parametrize("layer", ["default", "fast"])
def test_edges_between_nodes_at_the_last_hop_are_not_seen(layer: str) -> None:
    """Appendix B: E_i⁽ᵏ⁾ leaves out edges between nodes at distance k exactly."""
    leaves = [(0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6)]
    same = [(a + 7, b + 7) for a, b in leaves]
    joined = undirected(14, [*leaves, *same, (3, 4)])  # a 5-cycle round node 0 only
    model = make({"layer": layer, "level": "node"}, in_channels=0, num_layers=2)
    outputs = node_outputs(model, joined)
    assert_same(outputs[0], outputs[7])
    deep = make({"layer": layer, "level": "node"}, in_channels=0, num_layers=3)
    outputs = node_outputs(deep, joined)
    assert (outputs[0] - outputs[7]).abs().max() > 1e-6


@pytest.mark.parametrize("layer", ["default", "fast"])
def test_the_isomorphism_has_to_map_the_centre_to_the_centre(layer: str) -> None:
    """On a–b–c the 2-hop neighbourhoods of a and b are the same graph, but not round its centre."""
    model = make({"layer": layer, "level": "node"}, in_channels=0, num_layers=2)
    outputs = node_outputs(model, path(3))
    assert_same(outputs[0], outputs[2])
    assert (outputs[0] - outputs[1]).abs().max() > 1e-6


@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("layer", ["default", "fast"])
def test_one_network_runs_on_graphs_of_any_size(layer: str, identifiers: str) -> None:
    model = make({"layer": layer}, in_channels=0, identifiers=identifiers)
    for n in (1, 2, 5, 30):
        n, edges = path(n)
        out = model(None, torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), num_nodes=n)
        assert out.shape == (1, 2)
        assert out.isfinite().all()


@pytest.mark.parametrize("layer", ["default", "fast"])
def test_smp_tells_apart_what_mpnn_cannot(layer: str) -> None:
    """Proposition 1: two triangles and a hexagon."""
    triangles = undirected(6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    for network, apart in ((SMP, True), (MPNN, False)):
        model = make({"layer": layer}, network, in_channels=0)
        gap = node_outputs(model, triangles) - node_outputs(model, cycle(6))
        assert (gap.abs().max() > 1e-6) == apart


# ------------------------------------------------------------------ edge cases and precision


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_odd_graphs_give_finite_outputs_and_gradients(
    options: dict[str, Any], identifiers: str, training: bool
) -> None:
    model = make({**options, "norm": "batch"}, identifiers=identifiers).train(training)
    sets = [[structure] for structure in ODD.values()]
    sets += [
        [ODD["empty"], path(3)],
        [path(3), ODD["empty"], ODD["single"]],
        [path(3), ODD["empty"]],
        [ODD["empty"], ODD["empty"]],
        list(ODD.values()),
    ]
    for structures in sets:
        case = make_case(structures, 2, options.get("edge_channels", 0))
        model.zero_grad()
        out = case.call(model)
        rows = case.num_nodes if options.get("level") == "node" else case.num_graphs
        assert out.shape == (rows, 2)
        assert out.isfinite().all()
        out.sum().backward()
        for leaf in [*model.parameters(), *case.leaves()]:
            assert leaf.grad is None or leaf.grad.isfinite().all()


@pytest.mark.parametrize("network", [SMP, MPNN])
def test_dropout_acts_in_training_only(network: type[SMP]) -> None:
    model = make({"dropout": 0.5}, network)
    plain = make({}, network)
    case = make_case([path(4), cycle(5)])
    assert_same(case.call(model.eval()), case.call(plain))
    assert not torch.allclose(case.call(model.train()), case.call(plain))


def test_an_aggregation_of_pyg_may_be_given_as_an_instance() -> None:
    model = make({"pooling": SoftmaxAggregation(learn=True)})
    case = make_case([path(4), cycle(5)])
    out = case.call(model)
    assert out.shape == (2, 2)
    assert_equivariant(model, case.x, case.edge_index, None, case.batch)


@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_float32_is_near_float64(options: dict[str, Any], identifiers: str) -> None:
    wide = make(options, identifiers=identifiers)
    narrow = deepcopy(wide).float()
    structures = [path(8), cycle(5), ODD["empty"]]
    edge_channels = options.get("edge_channels", 0)
    expected = make_case(structures, 2, edge_channels).call(wide)
    actual = make_case(structures, 2, edge_channels, dtype=torch.float32).call(narrow)
    assert actual.dtype == torch.float32
    assert_same(actual.double(), expected, tolerance=1e-4)


@pytest.mark.parametrize("identifiers", SCHEMES)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("network", [SMP, MPNN])
def test_bfloat16_autocast_is_near_float32(
    network: type[SMP], options: dict[str, Any], identifiers: str
) -> None:
    model = make(options, network, identifiers=identifiers).float()
    case = make_case(
        [path(8), cycle(5), ODD["single"]], 2, options.get("edge_channels", 0), dtype=torch.float32
    )
    expected = case.call(deepcopy(model))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = case.call(model)
    actual.float().sum().backward()
    for leaf in [*model.parameters(), *case.leaves()]:
        assert leaf.grad is None or (
            leaf.grad.isfinite().all() and leaf.grad.dtype == torch.float32
        )
    scale = expected.abs().max().item()
    assert (actual.float() - expected).abs().max() < 0.1 * max(1.0, scale)


@pytest.mark.parametrize("network", [SMP, MPNN])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_weights_load_under_any_scheme_and_from_a_file(
    network: type[SMP], options: dict[str, Any]
) -> None:
    model = make(options, network, seed=3, identifiers="onehot").eval()
    case = make_case([path(4), cycle(5)], 2, options.get("edge_channels", 0))
    expected = case.call(model)
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for identifiers in SCHEMES:
        file.seek(0)
        other = make(options, network, seed=9, identifiers=identifiers).eval()
        other.load_state_dict(torch.load(file, weights_only=True))
        # path(4) and cycle(5) have a diameter of at most 6 = 2 L: colouring gives n colours.
        assert_same(case.call(other), expected)


@pytest.mark.parametrize("network", [SMP, MPNN])
def test_a_deep_copy_is_independent_and_equal(network: type[SMP]) -> None:
    model = make({"norm": "batch"}, network)
    case = make_case([path(4)])
    case.call(model)
    copy = deepcopy(model).eval()
    expected = case.call(model.eval()).clone()
    with torch.no_grad():
        for value in model.parameters():
            value.zero_()
    assert_same(case.call(copy), expected)
