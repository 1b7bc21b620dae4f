"""SMP and its ablation: equal to the dense oracle, whatever the graphs, batches and options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oracle
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_networks import OPTIONS, make
from strategies import ODD, Structure, assert_same, batches, cycle, make_case, path, seeds
from torch import Tensor, nn

from smpgnn import MPNN


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
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make({**options, "norm": "batch"}).train()
    case = make_case([path(4), ODD["empty"], ODD["single"], cycle(5)], 2,
                     options.get("edge_channels", 0))  # fmt: skip
    expected, normalize = {}, oracle.normalize

    def noted(norm: nn.Module, values: Sequence[Tensor]) -> list[Tensor]:
        if hasattr(norm, "running_mean"):
            expected[norm] = oracle.running_statistics(norm, values)
        return normalize(norm, values)

    monkeypatch.setattr(oracle, "normalize", noted)
    list(oracle.contexts(model.backbone, case.graphs))
    case.call(model)
    assert list(expected) == [norm for norm in model.backbone.norms if hasattr(norm, "momentum")]
    for norm, statistics in expected.items():
        assert_same([norm.running_mean, norm.running_var], statistics)
        assert norm.num_batches_tracked == 1
