"""Learning rates, by hand, over the epochs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from smpgnn.config.options import CyclesOptions
from smpgnn.config.presets import with_preset
from smpgnn.training.schedule import Plateau, rate_factor

STEPS = 10


def by_epoch(epochs: list[int], **values: Any) -> list[float]:
    options = replace(CyclesOptions(), **values)
    return [rate_factor(options, epoch * STEPS, STEPS) for epoch in epochs]


def test_constant() -> None:
    assert by_epoch([0, 1, 99], schedule="constant") == [1.0, 1.0, 1.0]


def test_step() -> None:
    found = by_epoch([0, 1, 2, 3, 4, 6], schedule="step", decay=0.5, decay_epochs=2)
    assert found == [1.0, 1.0, 0.5, 0.5, 0.25, 0.125]


def test_exponential_halves_smoothly_over_the_epochs() -> None:
    found = by_epoch([0, 1, 2, 4], schedule="exponential", decay=0.5, decay_epochs=2)
    assert found == pytest.approx([1.0, math.sqrt(0.5), 0.5, 0.25])


def test_step_and_exponential_hold_within_an_epoch() -> None:
    for schedule in ("step", "exponential"):
        options = replace(CyclesOptions(), schedule=schedule, decay=0.5, decay_epochs=1)
        assert len({rate_factor(options, 30 + i, STEPS) for i in range(STEPS)}) == 1


def test_cosine_rises_then_falls_to_zero() -> None:
    options = replace(CyclesOptions(), schedule="cosine", epochs=6, warmup_epochs=2.0)
    rates = [rate_factor(options, step, STEPS) for step in range(6 * STEPS)]
    assert 0 < rates[0] < 0.06
    assert rates[: 2 * STEPS] == sorted(rates[: 2 * STEPS])
    assert rates[2 * STEPS] == 1.0
    assert rates[2 * STEPS :] == sorted(rates[2 * STEPS :], reverse=True)
    assert rates[4 * STEPS] == pytest.approx(0.5)
    assert 0 < rates[-1] < 0.01


def test_cosine_without_warm_up_starts_at_the_top() -> None:
    assert by_epoch([0], schedule="cosine", warmup_epochs=0.0) == [1.0]


@given(
    schedule=st.sampled_from(["cosine", "plateau", "step", "exponential", "constant"]),
    epochs=st.integers(1, 50),
    warmup=st.floats(0, 60),
    step=st.integers(0, 5000),
    steps=st.integers(0, 100),
)
def test_every_factor_is_between_0_and_1(
    schedule: str, epochs: int, warmup: float, step: int, steps: int
) -> None:
    options = replace(CyclesOptions(), schedule=schedule, epochs=epochs, warmup_epochs=warmup)
    assert 0 <= rate_factor(options, step, steps) <= 1


def test_the_paper_lowers_the_rate_of_cycles_by_half_a_percent_in_five_epochs() -> None:
    options = with_preset(CyclesOptions(), "paper")
    assert rate_factor(options, 5 * STEPS, STEPS) == pytest.approx(0.995)


def test_plateau_by_hand() -> None:
    plateau = Plateau(factor=0.5, patience=2)
    scales = []
    for value in [3.0, 2.0, 2.0, 2.5, 2.1, 2.0, 1.0, 1.0, 1.0, 1.0]:
        plateau.report(value)
        scales.append(plateau.scale)
    assert scales == [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.25]


@given(st.lists(st.integers(0, 5).map(float), max_size=40), st.integers(1, 4))
def test_plateau_is_that_of_torch(values: list[float], patience: int) -> None:
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, factor=0.5, patience=patience, threshold=0.0, eps=0.0
    )
    ours = Plateau(factor=0.5, patience=patience)
    for value in values:
        theirs.step(value)
        ours.report(value)
        assert ours.scale == optimizer.param_groups[0]["lr"]
