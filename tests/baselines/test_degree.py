"""GIN + degree: GIN on features with the one-hot degree, written out by hand."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from baseline_checks import OPTIONS, assert_finite, different_graphs, make, overfit, width
from strategies import ODD, assert_same, make_case, path

from smpgnn import ContextIndex, InputError
from smpgnn.baselines.degree import DegreeGIN
from smpgnn.baselines.gin import GIN
from smpgnn.testing import assert_batch_invariant, assert_equivariant


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_equals_gin_with_the_degree_as_feature(options: dict[str, Any]) -> None:
    model = make(DegreeGIN, {**options, "max_degree": 2}).eval()
    plain = make(GIN, {**options, "in_channels": width(options) + 3}, seed=1).eval()
    plain.load_state_dict(model.state_dict())
    case = make_case(list(ODD.values()), width(options))
    extra = torch.zeros(case.num_nodes, 3, dtype=torch.float64)
    for node in range(case.num_nodes):
        degree = sum(int(receiver) == node for receiver in case.edge_index[1])
        extra[node, min(degree, 2)] = 1
    x = extra if case.x is None else torch.cat([case.x, extra], dim=1)
    expected = plain(x, case.edge_index, None, case.batch, batch_size=case.num_graphs)
    assert_same(case.call(model), expected)
    index = ContextIndex.of_nodes(case.topology)
    assert_same(case.call(model, index=index), expected)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_is_invariant(options: dict[str, Any]) -> None:
    model = make(DegreeGIN, options)
    case = make_case(list(ODD.values()), width(options))
    assert_equivariant(model, case.x, case.edge_index, None, case.batch)
    assert_batch_invariant(model, different_graphs(width(options)))


def test_reports_how_many_features_it_takes() -> None:
    model = make(DegreeGIN)
    assert (model.backbone.in_channels, model.backbone.edge_channels) == (2, 0)
    case = make_case([path(3)], 3)
    with pytest.raises(InputError, match=r"x must have shape \[number of nodes, 2\]"):
        case.call(model)


def test_odd_graphs() -> None:
    assert_finite(make(DegreeGIN, {"norm": "batch"}))


def test_refuses_what_has_no_meaning() -> None:
    with pytest.raises(InputError, match="max_degree"):
        DegreeGIN(2, 1, 4, 2, max_degree=0)
    with pytest.raises(InputError, match="in_channels"):
        DegreeGIN(-1, 1, 4, 2)
    with pytest.raises(InputError, match="levels"):
        DegreeGIN(2, 1, 4, 2, levels=3)
    case = make_case([path(3)])
    with pytest.raises(InputError, match="another kind"):
        case.call(make(DegreeGIN), index=case.index("onehot"))


def test_learns_a_few_graphs() -> None:
    assert overfit(DegreeGIN) == 1.0
