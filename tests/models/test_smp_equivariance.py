"""The promises of section 3: neither names nor orders nor batch mates change the result."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from small_networks import OPTIONS, make, with_schemes
from strategies import ODD, Structure, assert_same, batches, cycle, make_case, path, seeds

from smpgnn import MPNN, SMP, ContextIndex
from smpgnn.contexts.rows import IdentifierRows
from smpgnn.testing import Graph, assert_batch_invariant, assert_equivariant


@pytest.mark.parametrize("identifiers", ["onehot", "neighborhood", "local"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_is_equivariant(
    options: dict[str, Any], identifiers: str, graphs: list[Structure], seed: int
) -> None:
    model = make(options, identifiers=identifiers, context_radius=1, seed=seed).eval()
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


@pytest.mark.parametrize(("network", "options", "identifiers"), with_schemes(SMP, MPNN, OPTIONS))
def test_batch_mates_change_nothing(
    network: type[SMP], options: dict[str, Any], identifiers: str
) -> None:
    options = {**options, "norm": "batch", "context_radius": 1}
    model = make(options, network, identifiers=identifiers, num_layers=2)
    train_a_little(model, options)
    cases = [
        make_case([structure], 2, options.get("edge_channels", 0), seed)
        for seed, structure in enumerate(ODD.values())
        if structure[0]
    ]
    graphs = [Graph(case.x, case.edge_index, case.edge_attr) for case in cases]
    assert_batch_invariant(model, graphs)
