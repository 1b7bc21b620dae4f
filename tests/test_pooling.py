"""Pooling: traces, sums, means and maxima equal the oracle and results by hand."""

from __future__ import annotations

import oracle
import pytest
import torch
from hypothesis import given
from strategies import (
    EXACT,
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
from torch_geometric.nn import MeanAggregation

from smpgnn import GraphExtractor, InputError, LocalContext, NodeExtractor
from smpgnn.config.network import READOUTS
from smpgnn.pooling import (
    NodePooling,
    PooledNodeExtractor,
    Readout,
    perceptrons,
    resolve_aggregation,
)


def random_context(graphs: list[Structure], identifiers: str, seed: int) -> tuple:
    case = make_case(graphs)
    index = case.index(identifiers)
    if identifiers == "coloring":
        case = case.with_identifiers(index.table.identifier)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(index.num_rows, 3, generator=generator, dtype=torch.float64).requires_grad_()
    context = LocalContext(rows, index.layout)
    return context, index, list(zip(to_dense(context, index), case.graphs, strict=True))


@pytest.mark.parametrize("identifiers", EXACT)
@pytest.mark.parametrize(
    "reduce", ["mean", "sum", "scaled-sum", "max", "sum+max", "mean+scaled-sum"]
)
@given(graphs=batches(max_nodes=7), seed=seeds())
def test_graph_extractor_equals_the_oracle(
    reduce: str, identifiers: str, graphs: list[Structure], seed: int
) -> None:
    context, index, dense = random_context(graphs, identifiers, seed)
    module = randomize(GraphExtractor(3, 5, reduce, usual_nodes=4.5), seed)
    expected = torch.stack([oracle.graph_extractor(module, u, g) for u, g in dense])
    assert_same(module(context, index), expected, module, [context.rows])


@pytest.mark.parametrize("identifiers", EXACT)
@given(graphs=batches(max_nodes=7), seed=seeds())
def test_node_extractor_equals_the_oracle(
    identifiers: str, graphs: list[Structure], seed: int
) -> None:
    context, index, dense = random_context(graphs, identifiers, seed)
    module = randomize(NodeExtractor(3, 5, 4), seed)
    expected = torch.cat([oracle.node_extractor(module, u, g) for u, g in dense])
    assert_same(module(context, index), expected, module, [context.rows])


@pytest.mark.parametrize("identifiers", EXACT)
@pytest.mark.parametrize("aggregation", ["sum", "mean", "max"])
@given(graphs=batches(max_nodes=7), seed=seeds())
def test_pooled_node_extractor_equals_the_oracle(
    aggregation: str, identifiers: str, graphs: list[Structure], seed: int
) -> None:
    context, index, dense = random_context(graphs, identifiers, seed)
    module = randomize(PooledNodeExtractor(3, 5, aggregation), seed)
    expected = torch.stack(
        [oracle.pooled_node_extractor(module, u, g, aggregation) for u, g in dense]
    )
    assert_same(module(context, index), expected, module, [context.rows])


def by_hand(module: torch.nn.Module) -> None:
    """Hidden maps the identity, no bias."""
    with torch.no_grad():
        for value in module.parameters():
            value.copy_(torch.eye(*value.shape) if value.dim() == 2 else torch.zeros_like(value))


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [
        ("sum", [15.0, 45.0]),
        ("mean", [5.0, 5.0]),
        ("scaled-sum", [7.5, 7.5]),
        ("max", [9.0, 9.0]),
    ],
)
def test_trace_and_sum_by_hand(reduce: str, expected: list[float]) -> None:
    index = make_case([path(3)]).index("onehot")
    rows = torch.arange(1.0, 10.0).unsqueeze(1)
    module = GraphExtractor(1, 2, reduce, usual_nodes=2.0)
    by_hand(module)
    assert module(LocalContext(rows, index.layout), index).tolist() == [expected]


def test_own_mean_and_largest_by_hand() -> None:
    index = make_case([path(3)]).index("onehot")
    rows = torch.tensor([[1.0], [2], [6], [3], [0], [0], [0], [9], [3]])
    module = NodeExtractor(1, 3, 1)
    by_hand(module)
    with torch.no_grad():
        module.out.weight.copy_(torch.eye(3))
    features = module(LocalContext(rows, index.layout), index)
    assert features.tolist() == [[1, 3, 6], [0, 1, 3], [3, 4, 9]]


def test_an_empty_graph_has_the_features_of_zeros() -> None:
    index = make_case([path(2), ODD["empty"], path(3)]).index("onehot")
    module = randomize(GraphExtractor(2, 3))
    context = LocalContext(torch.randn(index.num_rows, 2, dtype=torch.float64), index.layout)
    zeros = torch.zeros(4, dtype=torch.float64)
    expected = module.out(module.hidden(zeros).relu())
    assert_same(module(context, index)[1], expected)


@pytest.mark.parametrize("kind", [GraphExtractor, NodePooling])
@pytest.mark.parametrize("reduce", READOUTS)
def test_readouts_of_several_layers_at_once(reduce: str, kind: type[Readout]) -> None:
    """What is pooled and the perceptrons of all layers equal those of one layer after the other."""
    index = make_case([path(4), ODD["empty"], cycle(3)]).index("onehot")
    shape = 3, index.num_rows, 2
    rows = torch.randn(shape, dtype=torch.float64).requires_grad_()
    contexts = [LocalContext(layer, index.layout) for layer in rows]
    modules = torch.nn.ModuleList(kind(2, 5, reduce, usual_nodes=4.5) for _ in contexts)
    randomize(modules)
    expected = [module(context, index) for module, context in zip(modules, contexts, strict=True)]
    values = [modules[0].values(context) for context in contexts]
    together = perceptrons(list(modules), modules[0].pool(values, index))
    assert_same(together, torch.stack(expected, dim=1), modules, [rows])


def test_aggregations_are_found_by_name_or_taken_as_they_are() -> None:
    assert isinstance(resolve_aggregation("mean"), MeanAggregation)
    instance = MeanAggregation()
    assert resolve_aggregation(instance) is instance


@pytest.mark.parametrize("bad", ["medium", 3, torch.nn.ReLU()])
def test_unknown_aggregations_are_refused(bad: object) -> None:
    with pytest.raises(InputError, match="pooling"):
        resolve_aggregation(bad)


def test_unknown_reductions_are_refused() -> None:
    with pytest.raises(InputError, match="reduce"):
        GraphExtractor(2, 3, "median")
