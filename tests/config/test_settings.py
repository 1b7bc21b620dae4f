"""Nested options and their flat view: one holds what the other does."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from smpgnn.config.network import LayerOptions, NetworkOptions
from smpgnn.config.options import TASKS, CyclesOptions, TrainOptions, ZincOptions, from_config
from smpgnn.config.settings import REMOVED, Options, flat, settings, with_values
from smpgnn.errors import InputError


@pytest.mark.parametrize("kind", [LayerOptions, NetworkOptions, TrainOptions, *TASKS.values()])
def test_the_flat_view_has_every_setting_once(kind: type[Options]) -> None:
    names = list(settings(kind))
    assert list(flat(kind())) == names
    assert len(set(names)) == len(names)
    assert {setting.name: setting.default for setting in settings(kind).values()} == flat(kind())
    assert with_values(kind(), flat(kind()), "x") == kind()
    assert with_values(kind(), {}, "x") == kind()


def test_a_setting_is_at_its_level() -> None:
    options = ZincOptions().changed(towers=2, hidden_channels=24, lr=0.25)
    assert (options.network.layer.towers, options.network.hidden_channels) == (2, 24)
    assert options.lr == 0.25
    assert options.changed(towers=4, hidden_channels=48, lr=4e-3) == ZincOptions()
    assert settings(ZincOptions)["towers"].level == "network"
    assert settings(ZincOptions)["lr"].level == "lr"
    assert not {"network", "layer"} & set(settings(ZincOptions))


def test_every_setting_of_a_training_has_a_help_text() -> None:
    for kind in TASKS.values():
        assert all(setting.help and setting.group for setting in settings(kind).values())
    assert settings(CyclesOptions)["num_layers"].help.endswith("0: k")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LayerOptions(towers=0), "LayerOptions: towers must be at least 1, not 0."),
        (lambda: NetworkOptions(norm="group"), "NetworkOptions: norm must be one of batch, layer"),
        (lambda: CyclesOptions(lr=-1), "CyclesOptions: lr must be above 0, not -1.0."),
        (lambda: LayerOptions().changed(tower=2), "LayerOptions: unknown key 'tower': did you"),
        (lambda: NetworkOptions().changed(network=1), "NetworkOptions: unknown key 'network'"),
    ],
)
def test_options_are_checked_when_they_are_made(make: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_values_take_the_type_of_the_field() -> None:
    options = CyclesOptions(lr=1)
    assert isinstance(options.lr, float)
    assert NetworkOptions(norm=None).norm == "none"  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "off"), REMOVED.items())
def test_files_may_have_a_removed_setting_that_is_off(name: str, off: Any) -> None:
    assert from_config({"task_type": "zinc", name: off}, "old") == ZincOptions()
    with pytest.raises(InputError) as caught:
        from_config({"task_type": "zinc", name: 0.5}, "old")
    assert str(caught.value) == (
        f"old: {name} is no longer supported: remove it, or set it to {off!r}, which turns it off."
    )
    for kind in TASKS.values():
        assert name not in {field.name for field in fields(kind)}
