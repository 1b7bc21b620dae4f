"""Relational pooling: real permutations in training, their mean in eval mode."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from baseline_checks import assert_finite, different_graphs, make, overfit
from strategies import ODD, assert_same, cycle, make_case, path
from torch import Tensor
from torch.nn.functional import one_hot

from smpgnn import InputError
from smpgnn.baselines.gin import GIN
from smpgnn.baselines.relational_pooling import RelationalPooling
from smpgnn.contexts.index import ContextIndex
from smpgnn.testing import assert_batch_invariant, assert_equivariant


def test_equals_the_mean_of_gin_over_the_permutations() -> None:
    model = make(RelationalPooling, {"max_nodes": 9, "permutations": 3}).eval()
    plain = make(GIN, {"in_channels": 11}, seed=1).eval()
    plain.load_state_dict(model.state_dict())
    case = make_case(list(ODD.values()))
    assert case.x is not None
    index = ContextIndex.of_nodes(case.topology)
    results = []
    for draw in range(3):
        identifier = one_hot(model.permutation(index, draw), 9)
        x = torch.cat([case.x, identifier], dim=1)
        results.append(plain(x, case.edge_index, None, case.batch, batch_size=case.num_graphs))
    assert not torch.equal(results[0], results[1])
    assert_same(case.call(model), sum(results) / 3)


def test_training_draws_a_uniform_permutation_of_each_graph() -> None:
    torch.manual_seed(0)
    model = make(RelationalPooling, {"max_nodes": 5}).train()
    index = ContextIndex.of_nodes(make_case([path(3)] * 600 + [path(5)]).topology)
    drawn = model.permutation(index, 0)
    assert not torch.equal(drawn, model.permutation(index, 0))
    assert torch.equal(drawn[-5:].sort().values, torch.arange(5))
    counts = dict.fromkeys(permutations(range(3)), 0)
    for triple in drawn[:-5].reshape(600, 3).tolist():
        counts[tuple(triple)] += 1
    assert all(65 < count < 140 for count in counts.values())  # 100 expected, deviation 9


class AllPermutations(RelationalPooling):
    """The expectation itself, for graphs of four nodes."""

    def permutation(self, index: ContextIndex, draw: int) -> Tensor:
        return torch.tensor(list(permutations(range(4)))[draw])


def test_the_mean_over_all_permutations_is_invariant() -> None:
    case = make_case([path(4)])
    options = {"max_nodes": 4, "permutations": 24}
    assert_equivariant(make(AllPermutations, options), case.x, case.edge_index)
    with pytest.raises(AssertionError, match="differ by"):
        assert_equivariant(make(RelationalPooling, options), case.x, case.edge_index)


def test_more_permutations_bring_it_nearer_to_invariance() -> None:
    case = make_case([path(4)])
    exact = case.call(make(AllPermutations, {"max_nodes": 4, "permutations": 24}).eval())
    gaps = []
    for count in (1, 400):
        model = make(RelationalPooling, {"max_nodes": 4, "permutations": count}).eval()
        gaps.append((case.call(model) - exact).abs().max().item())
    assert gaps[1] < 0.3 * gaps[0]


def test_eval_mode_is_repeatable_and_independent_of_the_batch() -> None:
    model = make(RelationalPooling, {"max_nodes": 9, "permutations": 2})
    assert_batch_invariant(model, different_graphs())
    case = make_case([path(5), cycle(8)])
    assert torch.equal(case.call(model.eval()), case.call(model))
    anew = make(RelationalPooling, {"max_nodes": 9, "permutations": 2, "seed": None}).eval()
    assert not torch.equal(case.call(anew), case.call(anew))


def test_refuses_larger_graphs() -> None:
    model = make(RelationalPooling, {"max_nodes": 4})
    with pytest.raises(InputError, match="5 nodes, but max_nodes is 4"):
        make_case([path(3), path(5)]).call(model)
    with pytest.raises(InputError, match="permutations"):
        make(RelationalPooling, {"max_nodes": 4, "permutations": 0})
    with pytest.raises(TypeError, match="max_nodes"):
        make(RelationalPooling)


@pytest.mark.parametrize("level", ["graph", "node"])
def test_odd_graphs(level: str) -> None:
    assert_finite(make(RelationalPooling, {"max_nodes": 9, "norm": "batch", "level": level}))


def test_learns_a_few_graphs() -> None:
    assert overfit(RelationalPooling, steps=300, max_nodes=12) == 1.0
