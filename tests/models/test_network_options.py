"""Networks and layers take options as a whole or by name, and refuse unknown names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from smpgnn import (
    MPNN,
    SMP,
    DefaultSMPLayer,
    FastSMPLayer,
    InputError,
    MultiTaskMPNN,
    MultiTaskSMP,
)
from smpgnn.baselines.gat import GAT
from smpgnn.config.network import LayerOptions, NetworkOptions
from smpgnn.config.settings import settings
from smpgnn.layers import FamilySMPLayer, MPNNLayer

NAMES: dict[str, Any] = {
    "hidden_channels": 8, "num_layers": 3, "identifiers": "local", "context_radius": 2,
    "dropout": 0.5, "readout": "max", "norm": "layer", "residual": True, "features": "row",
    "shared_extractor": True, "extractor_channels": 6, "towers": 2, "message_residual": True,
}  # fmt: skip
OPTIONS = NetworkOptions().changed(**NAMES)
KINDS: dict[str, Callable[..., torch.nn.Module]] = {
    "SMP": lambda **more: SMP(2, 1, **more),
    "MPNN": lambda **more: MPNN(2, 1, **more),
    "MultiTaskSMP": lambda **more: MultiTaskSMP(2, 1, 1, **more),
    "MultiTaskMPNN": lambda **more: MultiTaskMPNN(2, 1, 1, **more),
}


@pytest.mark.parametrize("kind", KINDS)
def test_by_name_or_as_a_whole_is_the_same_network(kind: str) -> None:
    names = [n for n in NAMES if n != "features" or "SMP" in kind]
    by_name = KINDS[kind](**{name: NAMES[name] for name in names})
    whole = KINDS[kind](options=OPTIONS)
    assert str(by_name) == str(whole)
    shapes = [{n: v.shape for n, v in m.state_dict().items()} for m in (by_name, whole)]
    assert shapes[0] == shapes[1]
    assert by_name.backbone.layers[0].options == whole.backbone.layers[0].options


@pytest.mark.parametrize("kind", KINDS)
def test_names_have_priority_over_the_options(kind: str) -> None:
    network = KINDS[kind](options=OPTIONS, num_layers=1, norm=None, towers=1)
    assert network.options == OPTIONS.changed(num_layers=1, norm="none", towers=1)
    assert len(network.backbone.layers) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SMP(2, 1, 4, 2, normm="layer"), "SMP: unknown argument 'normm': did you mean 'no"),
        (lambda: SMP(2, 1, 4, 2, model="gin"), "SMP: unknown argument 'model': known arguments"),
        (lambda: SMP(2, 1, 4, 2, "fast", update_residual=True), "SMP: unknown argument 'update_r"),
        (lambda: MPNN(2, 1, 4, 2, own_terms=True), "MPNN: unknown argument 'own_terms'"),
        (lambda: GAT(2, 1, 4, 2, towers=2), "GAT: unknown argument 'towers'"),
        (lambda: GAT(2, 1, 4, 2, head=2), "GAT: unknown argument 'head': did you mean 'heads'?"),
        (lambda: FastSMPLayer(4, 4, tower=2), "FastSMPLayer: unknown option 'tower': did you"),
        (lambda: FastSMPLayer(4, 4, message_residual=True), "FastSMPLayer: unknown option 'mess"),
        (lambda: DefaultSMPLayer(4, 4, set_terms=3), "LayerOptions: set_terms must be true or fal"),
    ],
)
def test_unknown_names_are_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_layers_ignore_options_that_they_do_not_have() -> None:
    options = LayerOptions(own_terms=True, message_residual=True, towers=2)
    assert FastSMPLayer(4, 4, options=options).options == LayerOptions(own_terms=True, towers=2)
    assert MPNNLayer(4, 4, options=options).options == LayerOptions(message_residual=True, towers=2)
    assert DefaultSMPLayer(4, 4, options=options).options == options


def test_every_option_of_layers_is_one_of_the_largest_layer() -> None:
    assert set(FamilySMPLayer.option_names) == set(settings(LayerOptions))
