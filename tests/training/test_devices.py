"""Where a network runs."""

from __future__ import annotations

import pytest
import torch

from smpgnn.errors import InputError
from smpgnn.training.saved import pick_device, trains_on


def test_auto_takes_a_gpu_if_there_is_one() -> None:
    known = "cuda" if torch.cuda.is_available() else "mps" if trains_on("mps") else "cpu"
    assert pick_device("auto").type == known
    assert pick_device("cpu").type == "cpu"


def test_the_trial_of_a_device() -> None:
    assert trains_on("cpu")
    assert not trains_on("meta")  # has no values
    if not torch.backends.mps.is_available():
        assert not trains_on("mps")
        with pytest.raises(InputError, match="--device mps: torch finds no Apple GPU"):
            pick_device("mps")
    with pytest.raises(InputError, match="--device must be one of auto, cpu, cuda, mps, not 'tpu'"):
        pick_device("tpu")
