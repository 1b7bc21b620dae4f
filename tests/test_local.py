"""Local contexts: rows for the nodes within r hops and a far row, against a plain transcription."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from oracle import DenseGraph, linear, matrix
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
    to_dense,
)
from torch import Tensor, nn

from smpgnn import SMP, ContextIndex, InputError, MultiTaskSMP
from smpgnn.layers import DefaultSMPLayer, FastSMPLayer, MarkedSetLinear, SetLinear
from smpgnn.pooling import GraphExtractor, NodeExtractor
from smpgnn.rows import LocalRows

OPTIONS: list[dict[str, Any]] = [
    {},
    {"layer": "fast"},
    {"layer": "fast", "norm": "batch", "residual": True},
    {"edge_channels": 2, "norm": "batch", "message_residual": True, "update_residual": True},
    {"norm": "layer", "norm_place": "after", "towers": 2},
    {"own_terms": True, "level": "node"},
    {"layer": "fast", "level": "node", "own_terms": True},
    {"layer": "fast", "readout": "sum"},
    {"set_terms": False, "shared_extractor": True},
    {"features": "context", "norm": "batch"},
    {"features": "row", "norm": "batch", "edge_channels": 2},
]
Contexts = list[Tensor]  # of the nodes of a graph: the rows of the nodes near, then the far row


class Near:
    """A graph, and the nodes within r hops of each of its nodes, in their order."""

    def __init__(self, graph: DenseGraph, radius: int) -> None:
        hops, nodes = graph.hops(), range(graph.num_nodes)
        self.graph, self.nodes = graph, nodes
        self.near = [[j for j in nodes if hops[i][j] <= radius] for i in nodes]

    def own(self, i: int) -> int:
        return self.near[i].index(i)

    def heard(self, us: Contexts, i: int, k: int) -> Tensor:
        """For each row of i the row of its neighbour k that it hears."""
        rows = [us[k][self.near[k].index(j) if j in self.near[k] else -1] for j in self.near[i]]
        return torch.stack([*rows, us[k][-1]])


def initial(here: Near, dtype: torch.dtype, features: str) -> Contexts:
    contexts, x = [], here.graph.x
    for i in here.nodes:
        one = torch.ones(1, dtype=dtype)
        own = one if x is None else torch.cat([one, x[i]])
        rows = [torch.zeros_like(own) for _ in range(len(here.near[i]) + 1)]
        for place, j in enumerate([*here.near[i], None]):
            source = {"own": None, "context": i, "row": j}[features]
            if x is not None and source is not None:
                rows[place] = torch.cat([0 * one, x[source]])
        rows[here.own(i)] = own
        contexts.append(torch.stack(rows))
    return contexts


def set_map(module: nn.Module, us: Contexts, here: Near) -> Contexts:
    """Means over the rows of a context, each once, the far row among them."""
    contexts = []
    for i, u in enumerate(us):
        hat = u @ matrix(module.w1)
        if not isinstance(module, SetLinear):
            contexts.append(hat if module.w1.bias is None else hat + module.w1.bias)
            continue
        mean = u.sum(0) / u.size(0)
        mark = torch.zeros(u.size(0), 1, dtype=u.dtype)
        mark[here.own(i)] = 1
        hat = hat + mean @ matrix(module.w2) + module.w2.bias + mark * (mean @ matrix(module.w3))
        if isinstance(module, MarkedSetLinear):
            own = u[here.own(i)]
            hat = hat + own @ matrix(module.own_to_all) + mark * (own @ matrix(module.own_to_own))
        contexts.append(hat)
    return contexts


def smp_layer(layer: nn.Module, us: Contexts, here: Near) -> Contexts:
    hat, graph = set_map(layer.set_map, us, here), here.graph
    total = [torch.zeros_like(u) for u in hat]
    for e, (k, i) in enumerate(graph.edges):
        sent = here.heard(hat, i, k)
        if isinstance(layer, FastSMPLayer):
            message = sent + (hat[i] @ matrix(layer.w4)) * (sent @ matrix(layer.w5))
        else:
            assert isinstance(layer, DefaultSMPLayer)
            hidden = linear(layer.message_receiver, hat[i]) + linear(layer.message_sender, sent)
            if layer.message_edge is not None:
                hidden = hidden + linear(layer.message_edge, graph.y[e])
            message = linear(layer.message_out, hidden.clamp(min=0))
            message = message + sent if layer.message_residual else message
        total[i] = total[i] + message / graph.average_degree
    if isinstance(layer, FastSMPLayer):
        return [u + t for u, t in zip(hat, total, strict=True)]
    contexts = []
    for u, t in zip(hat, total, strict=True):
        hidden = linear(layer.update_own, u) + linear(layer.update_messages, t)
        new = linear(layer.update_out, hidden.clamp(min=0))
        contexts.append(new + u if layer.update_residual else new)
    return contexts


def extract(module: nn.Module, us: Contexts, here: Near) -> Tensor:
    """[C] of a graph, or [n, C] of its nodes."""
    if isinstance(module, NodeExtractor):
        features = []
        for i, u in enumerate(us):
            v = oracle.perceptron(module.row_hidden, module.row_out, u)
            pooled = torch.cat([v[here.own(i)], v.sum(0) / v.size(0), v.amax(0)])
            features.append(linear(module.out, pooled))
        return oracle.stack(features, module.out.weight, module.out.out_features)
    assert isinstance(module, GraphExtractor)
    width = module.hidden.in_features // 2
    trace, total = (module.hidden.weight.new_zeros(width) for _ in range(2))
    for i, u in enumerate(us):
        trace = trace + u[here.own(i)]
        total = total + (u.sum(0) if module.reduce == "sum" else u.sum(0) / u.size(0))
    if module.reduce == "mean" and us:
        trace, total = trace / len(us), total / len(us)
    return oracle.perceptron(module.hidden, module.out, torch.cat([trace, total]))


def normalize(norm: nn.Module, graphs: list[Contexts]) -> list[Contexts]:
    flat = iter(oracle.normalize(norm, [u for us in graphs for u in us]))
    return [[next(flat) for _ in us] for us in graphs]


def local_smp(model: SMP, graphs: tuple[DenseGraph, ...], radius: int) -> Tensor:
    backbone, here = model.backbone, [Near(graph, radius) for graph in graphs]
    contexts = [initial(one, torch.float64, backbone.features) for one in here]
    sums = [extract(model.first_extractor, us, n) for us, n in zip(contexts, here, strict=True)]
    for number, (norm, layer) in enumerate(zip(backbone.norms, backbone.layers, strict=True)):
        normal = contexts if backbone.norms_results else normalize(norm, contexts)
        new = [smp_layer(layer, us, n) for us, n in zip(normal, here, strict=True)]
        new = normalize(norm, new) if backbone.norms_results else new
        if backbone.residual and layer.in_channels == layer.out_channels:
            new = [
                [b + a for a, b in zip(old, us, strict=True)]
                for old, us in zip(contexts, new, strict=True)
            ]
        contexts = new
        extractor = model.extractors[min(number, len(model.extractors) - 1)]
        for g, (us, n) in enumerate(zip(contexts, here, strict=True)):
            sums[g] = sums[g] + extract(extractor, us, n) / backbone.num_layers
    h = torch.stack(sums) if model.level == "graph" else torch.cat(sums)
    return linear(model.out, h + linear(model.head, h).clamp(min=0))


def make(options: dict[str, Any], radius: int = 1, seed: int = 0, depth: int = 3) -> SMP:
    model = SMP(2, 2, 4, depth, identifiers="local", context_radius=radius, **options)
    return randomize(model, seed)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(max_nodes=7), radius=st.integers(1, 3), seed=seeds())
def test_networks_equal_the_transcription(
    options: dict[str, Any], training: bool, graphs: list[Structure], radius: int, seed: int
) -> None:
    model = make(options, radius, seed).train(training)
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    expected = local_smp(model, case.graphs, radius)
    assert_same(case.call(model), expected, model, case.leaves())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_networks_equal_the_transcription_where_most_is_far(options: dict[str, Any]) -> None:
    model = make(options, radius=2, depth=5)
    graphs = [path(9), ODD["directed cycle"], cycle(8), ODD["single"], ODD["two parts"]]
    case = make_case(graphs, 2, options.get("edge_channels", 0))
    expected = local_smp(model, case.graphs, 2)
    assert_same(case.call(model), expected, model, case.leaves(), tolerance=1e-9)


def test_a_context_has_the_nodes_near_and_one_far_row() -> None:
    index = make_case([path(4), ODD["single"]]).index("local", 1)
    table = index.table
    assert isinstance(table, LocalRows)
    far = 5
    assert table.described.tolist() == [
        *(0, 1, far), *(0, 1, 2, far), *(1, 2, 3, far), *(2, 3, far), *(4, far)
    ]  # fmt: skip
    assert table.own.tolist() == [0, 4, 8, 12, 14]
    assert index.layout.count.tolist() == [3, 4, 4, 3, 2]
    assert table.multiplicity is None
    assert table.radius is None
    assert table.context_radius == 1


def test_the_far_row_is_there_where_nothing_is_far() -> None:
    index = ContextIndex.build(make_case([cycle(5)]).topology, "local", 1, 9)
    assert index.layout.count.tolist() == [6] * 5


@pytest.mark.parametrize("norm", [None, "layer"])
@pytest.mark.parametrize("layer", ["default", "fast"])
@given(graphs=batches(max_nodes=6), seed=seeds())
def test_with_all_in_sight_the_rows_are_the_one_hot_ones(
    layer: str, norm: str | None, graphs: list[Structure], seed: int
) -> None:
    """Set terms apart, by which a context sees its far row as well."""
    options = {"layer": layer, "norm": norm, "set_terms": False}
    backbone = make(options, radius=6, seed=seed).backbone
    case = make_case(graphs, 2, 0, seed)
    near = ContextIndex.build(case.topology, "local", 1, 6)
    onehot = case.index("onehot")
    for one, two in zip(backbone(case.x, None, near), backbone(case.x, None, onehot), strict=True):
        assert_same(to_dense(one, near), to_dense(two, onehot), None, case.leaves())


def test_it_is_another_network_than_the_exact_ones() -> None:
    case, model = make_case([path(9)]), make({"layer": "fast"}).eval()
    near = case.call(model)
    model.backbone.identifiers = "onehot"
    assert (near - case.call(model)).abs().max() > 1e-3


def test_an_index_of_another_radius_or_kind_is_refused() -> None:
    case = make_case([path(6)])
    model = make({}, radius=2)
    assert_same(case.call(model, index=case.index("local", 2)), case.call(model))
    with pytest.raises(InputError, match="within 1 hops, but this network within 2 hops"):
        case.call(model, index=case.index("local", 1))
    with pytest.raises(InputError, match="as many hops as layers, but this network within 2 hops"):
        case.call(model, index=case.index("onehot"))
    with pytest.raises(InputError, match="within 2 hops, but this network within as many"):
        case.call(randomize(SMP(2, 1, 4, 2)), index=case.index("local", 2))


@pytest.mark.parametrize("radius", [0, -1, 1.5, True])
@pytest.mark.parametrize("network", [SMP, MultiTaskSMP])
def test_a_context_radius_below_one_is_refused(network: type[nn.Module], radius: Any) -> None:
    with pytest.raises(InputError, match="context_radius must be a whole number of at least 1"):
        network(2, 2, 2, 4, 2, context_radius=radius) if network is MultiTaskSMP else network(
            2, 2, 4, 2, identifiers="local", context_radius=radius
        )
    with pytest.raises(InputError, match="context_radius must be a whole number of at least 1"):
        ContextIndex.build(make_case([path(3)]).topology, "local", 2, radius)
