"""Networks whose contexts show their own row to all others."""

from __future__ import annotations

from typing import Any

import oracle
import pytest
import torch
from hypothesis import given
from strategies import Structure, assert_same, batches, make_case, path, randomize, seeds

from smpgnn import SMP
from smpgnn.config.network import NetworkOptions
from smpgnn.models.registry import NetworkSpec
from smpgnn.testing import Graph, assert_batch_invariant, assert_equivariant

OPTIONS: list[dict[str, Any]] = [
    {},
    {"layer": "fast", "norm": "batch", "level": "node"},
    {"norm": "batch", "edge_channels": 2, "towers": 2, "residual": True, "readout": "sum"},
    {"norm": "layer", "identifiers": "neighborhood"},
]


def make(options: dict[str, Any], seed: int = 0) -> SMP:
    return randomize(SMP(2, 2, 4, 3, own_terms=True, **options), seed)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_equals_the_oracle(
    options: dict[str, Any], training: bool, graphs: list[Structure], seed: int
) -> None:
    model = make(options, seed).train(training)
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    assert_same(case.call(model), oracle.smp(model, case.graphs), model, case.leaves())


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(graphs=batches(), seed=seeds())
def test_keeps_the_promises(options: dict[str, Any], graphs: list[Structure], seed: int) -> None:
    model = make(options, seed).eval()
    case = make_case(graphs, 2, options.get("edge_channels", 0), seed)
    assert_equivariant(
        model, case.x, case.edge_index, case.edge_attr, case.batch, trials=1, seed=seed
    )
    parts = [make_case([graph], 2, options.get("edge_channels", 0), seed) for graph in graphs]
    assert_batch_invariant(
        model, [Graph(part.x, part.edge_index, part.edge_attr) for part in parts]
    )


def test_the_other_rows_see_the_features_of_the_node_in_full() -> None:
    """In a large graph the mean of a context shows little of them; the own row shows all."""
    case = make_case([path(200)], 2)
    other = case.x.clone()
    other[0] += 1
    index = case.index("onehot")

    def seen(own_terms: bool) -> float:
        layer = randomize(SMP(2, 1, 4, 1, own_terms=own_terms)).backbone.layers[0]
        rows = [layer.prepare(index.initial(x, torch.float64), index).rows for x in (case.x, other)]
        return (rows[0] - rows[1])[5].norm().item()  # node 0, of node 5

    assert seen(own_terms=True) > 50 * seen(own_terms=False) > 0


def test_the_ablation_takes_the_option_as_it_takes_that_of_the_set_terms() -> None:
    options = NetworkOptions().changed(model="mpnn", own_terms=True)
    spec = NetworkSpec(in_channels=2, graph_outputs=1, options=options)
    assert not any("own_to_all" in name for name, _ in spec.build().named_parameters())
