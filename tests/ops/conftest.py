"""What the tests of operations share."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from smpgnn.ops import backend


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels are used, by the interpreter where there is no GPU."""
    monkeypatch.setattr(backend, "INTERPRETED", not torch.cuda.is_available())


@pytest.fixture
def fused(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Whether the kernels are used, by the interpreter where there is no GPU."""

    def switch(on: bool) -> None:
        monkeypatch.setattr(backend, "INTERPRETED", on and not torch.cuda.is_available())
        monkeypatch.setattr(backend, "FUSED", on)

    return switch
