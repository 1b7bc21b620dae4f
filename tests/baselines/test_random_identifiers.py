"""GIN + random identifiers: GIN on drawn features; invariant in distribution, not in a draw."""

from __future__ import annotations

import pytest
import torch
from baseline_checks import assert_finite, different_graphs, make, overfit
from strategies import ODD, assert_same, make_case, path
from torch import Tensor

from smpgnn import InputError
from smpgnn.baselines.gin import GIN
from smpgnn.baselines.random_identifiers import RandomIdentifierGIN
from smpgnn.contexts.index import ContextIndex
from smpgnn.testing import assert_batch_invariant, assert_equivariant


def drawn(model: RandomIdentifierGIN, index: ContextIndex, draw: int = 0) -> Tensor:
    return model.extend(index, draw).initial(None, torch.float64).rows[:, 1]


def test_equals_gin_with_the_numbers_as_feature() -> None:
    model = make(RandomIdentifierGIN, {"seed": 3, "test_draws": 4}).eval()
    plain = make(GIN, {"in_channels": 3}, seed=1).eval()
    plain.load_state_dict(model.state_dict())
    case = make_case(list(ODD.values()))
    assert case.x is not None
    index = ContextIndex.of_nodes(case.topology)
    results = []
    for draw in range(4):
        x = torch.cat([case.x, drawn(model, index, draw).unsqueeze(1)], dim=1)
        results.append(plain(x, case.edge_index, None, case.batch, batch_size=case.num_graphs))
    assert not torch.equal(results[0], results[1])
    assert_same(case.call(model), sum(results) / 4)


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
def test_numbers_are_drawn_anew_from_the_levels(training: bool) -> None:
    torch.manual_seed(0)
    model = make(RandomIdentifierGIN, {"levels": 5}).train(training)
    index = ContextIndex.of_nodes(make_case([path(300)]).topology)
    first, second = drawn(model, index), drawn(model, index)
    assert not torch.equal(first, second)
    assert torch.equal(first.unique(), torch.arange(5) / torch.tensor(5.0).double())
    assert (torch.bincount((first * 5).round().long()) > 35).all()  # 60 expected, deviation 7


def test_torchs_generator_makes_calls_repeatable() -> None:
    model, case = make(RandomIdentifierGIN).eval(), make_case([path(5)])
    results = []
    for _ in range(2):
        torch.manual_seed(4)
        results.append(case.call(model))
    assert torch.equal(*results)
    assert not torch.equal(case.call(model), results[0])


def test_is_not_invariant() -> None:
    case = make_case([path(5)])
    for seed in (None, 0):
        model = make(RandomIdentifierGIN, {"seed": seed})
        with pytest.raises(AssertionError, match="differ by"):
            assert_equivariant(model, case.x, case.edge_index)


def test_is_invariant_in_distribution() -> None:
    torch.manual_seed(0)
    model = make(RandomIdentifierGIN, {"in_channels": 0}).eval()
    copies = 4000
    edges = torch.tensor([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    batch = torch.arange(copies).repeat_interleave(4)
    moments = []
    for renaming in ([0, 1, 2, 3], [2, 0, 3, 1]):
        renamed = torch.tensor(renaming)[edges]
        shift = 4 * torch.arange(copies).repeat_interleave(edges.size(1))
        with torch.no_grad():
            out = model(None, renamed.repeat(1, copies) + shift, None, batch)
        moments.append((out.mean(0), out.var(0)))
    (mean, variance), (other, _) = moments
    assert (variance > 0).all()
    assert ((mean - other).abs() < 4 * (2 * variance / copies).sqrt()).all()


def test_a_seed_makes_eval_mode_independent_of_the_batch() -> None:
    model = make(RandomIdentifierGIN, {"seed": 0, "test_draws": 2})
    assert_batch_invariant(model, different_graphs())
    case = make_case([path(5), path(20)])
    model.eval()
    assert torch.equal(case.call(model), case.call(model))
    model.train()
    assert not torch.equal(case.call(model), case.call(model))
    assert not torch.equal(
        case.call(make(RandomIdentifierGIN, {"seed": 0}).eval()),
        case.call(make(RandomIdentifierGIN, {"seed": 1}).eval()),
    )


@pytest.mark.parametrize("level", ["graph", "node"])
def test_odd_graphs(level: str) -> None:
    assert_finite(make(RandomIdentifierGIN, {"norm": "batch", "level": level, "seed": 0}))


def test_refuses_what_has_no_meaning() -> None:
    for wrong in ({"levels": 0}, {"test_draws": 0}, {"seed": -1}):
        with pytest.raises(InputError, match=next(iter(wrong))):
            RandomIdentifierGIN(2, 1, 4, 2, **wrong)


def test_learns_a_few_graphs() -> None:
    assert overfit(RandomIdentifierGIN, steps=300, test_draws=8, seed=0) == 1.0
