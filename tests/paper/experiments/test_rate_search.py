"""The rule for learning rates: which wins, and on which graphs."""

from __future__ import annotations

import pytest

from smpgnn.config.options import CyclesOptions
from smpgnn.data.cycles import cycle_splits
from smpgnn.data.properties import property_graphs
from smpgnn.errors import InputError
from smpgnn.paper.experiments.records import Choice, Trial
from smpgnn.paper.experiments.search import (
    best_trial,
    held_back,
    next_best,
    settings_hash,
    trial_options,
)
from smpgnn.paper.experiments.table import Row, Search

ROW = Row("GIN", "gin")


def trial(lr: float, value: float | None, epoch: int = 5) -> Trial:
    return Trial(lr, value, epoch, 10, "" if value is not None else "diverged")


def test_the_best_value_wins() -> None:
    trials = (trial(1e-4, 0.7), trial(1e-3, 0.9), trial(1e-2, 0.8))
    assert best_trial(trials, True, 1e-3).lr == 1e-3
    assert best_trial(trials, False, 1e-3).lr == 1e-4


def test_ties_go_to_the_earlier_epoch_then_to_the_usual_rate() -> None:
    assert best_trial((trial(1e-4, 1.0, 9), trial(1e-2, 1.0, 4)), True, 1e-4).lr == 1e-2
    same = (trial(1e-4, 0.5, 1), trial(1e-3, 0.5, 1), trial(1e-2, 0.5, 1))
    assert best_trial(same, True, 1e-3).lr == 1e-3
    assert best_trial(same, True, 2e-2).lr == 1e-2


def test_a_rate_that_diverges_loses() -> None:
    assert best_trial((trial(1e-3, 0.1), trial(1e-2, None)), True, 1e-2).lr == 1e-3
    with pytest.raises(InputError, match=r"no learning rate of the search works.* diverged"):
        best_trial((trial(1e-3, None),), True, 1e-3)


def test_after_a_training_has_diverged_the_next_best_is_taken() -> None:
    trials = (trial(1e-3, 0.1), trial(3e-3, 0.3), trial(1e-2, 0.4))
    first = Choice("t", "r", "all", "modern", False, "rule", "accuracy", trials, 1e-2, {})
    second = next_best(first, True, "in epoch 7")
    assert (second.chosen, second.trials[:2]) == (3e-3, trials[:2])
    assert (second.trials[2].validation, second.trials[2].lr) == (None, 1e-2)
    assert "in epoch 7" in second.trials[2].error
    with pytest.raises(InputError, match="no learning rate of the search works"):
        next_best(next_best(second, True, ""), True, "")


def test_trials_differ_in_the_rate_only_and_are_short() -> None:
    options = CyclesOptions(epochs=50, warmup_epochs=5.0, seed=7)
    trials = trial_options(options, Search((1e-3, 1e-2), share=0.2), ROW)
    assert [o.lr for o in trials] == [1e-3, 1e-2]
    assert {(o.epochs, o.warmup_epochs, o.seed) for o in trials} == {(10, 1.0, 0)}
    assert "20% of the epochs" in Search((1e-3,), share=0.2).rule
    assert len({settings_hash(o) for o in trials}) == 2
    assert settings_hash(options, 1) != settings_hash(options, 2)


def test_readouts_are_tried_with_every_rate_unless_the_row_has_its_own() -> None:
    search = Search((1e-3, 1e-2), readouts=("mean", "max"))
    trials = trial_options(CyclesOptions(), search, ROW)
    assert [(o.network.readout, o.lr) for o in trials] == [
        ("mean", 1e-3),
        ("mean", 1e-2),
        ("max", 1e-3),
        ("max", 1e-2),
    ]
    summed = CyclesOptions().changed(readout="sum")
    own = trial_options(summed, search, Row("x", "gin", {"readout": "sum"}))
    assert [(o.network.readout, o.lr) for o in own] == [("sum", 1e-3), ("sum", 1e-2)]
    same = tuple(Trial(1e-3, 0.5, 1, 2, readout=readout) for readout in ("mean", "max"))
    assert best_trial(same, True, 1e-3).readout == "mean"


def test_held_back_graphs_come_from_the_training_part_in_pairs() -> None:
    splits = cycle_splits(4, 12, balance="matched", seed=1, train=100, val=4, test=6)
    parts = held_back(splits)
    assert (len(parts.train), len(parts.val)) == (90, 10)
    assert parts.test is parts.val  # the test part is out of reach
    assert splits.train.y is not None
    assert parts.val.y is not None
    assert parts.train.y is not None
    assert parts.val.y[:2].tolist() == splits.train.y[18:20].tolist()
    assert parts.train.y[18:20].tolist() == splits.train.y[20:22].tolist()
    # a pair has one of each class, and both of a pair are on the same side
    assert parts.val.y.view(-1, 2).sum(1).tolist() == [1] * 5
    with pytest.raises(InputError, match="4 training graphs are too few"):
        held_back(cycle_splits(4, 12, seed=1, train=4, val=4, test=6))


def test_all_sizes_are_among_the_held_back() -> None:
    graphs = property_graphs(range(15, 25), 40)
    splits = type(cycle_splits(4, 12, seed=0, train=2, val=2, test=2))(graphs, graphs, graphs)
    assert set(held_back(splits).val.num_nodes.tolist()) == set(range(15, 25))
