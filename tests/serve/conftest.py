"""A small model, and servers that have it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

import smpgnn
from smpgnn.inference.predict import Model

if TYPE_CHECKING:
    from serving import Loaded, Server
    from starlette.testclient import TestClient

for library in ("rdkit", "fastapi", "uvicorn", "httpx2"):
    pytest.importorskip(library)

SMALL: dict[str, Any] = {
    "hidden_channels": 8, "num_layers": 2, "extractor_channels": 8, "epochs": 1, "device": "cpu",
    "quiet": True, "baseline": False,
}  # fmt: skip


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with two members, calibration rows and fingerprints; its target is the size."""
    folder = tmp_path_factory.mktemp("serve")
    ends = ["", "O", "N", "Cl", "c1ccccc1"]
    smiles = ["C" * (1 + row // 5) + ends[row % 5] for row in range(120)]
    frame = pd.DataFrame({"smiles": smiles, "size": [len(text) + 0.5 for text in smiles]})
    options: dict[str, Any] = {**SMALL, "ensemble": 2, "calibration": 0.2}
    smpgnn.train("molecules", data=frame, targets=["size"], output=str(folder / "run"), **options)
    return folder / "run"


@pytest.fixture(scope="session")
def model(run: Path) -> Model:
    """The model in this process, to compare with."""
    return smpgnn.load(run, "cpu").with_interval(0.9).with_domain()


@pytest.fixture(scope="session")
def small(run: Path) -> Iterator[Loaded]:
    """A process with the model."""
    from serving import loaded

    from smpgnn.serve import Settings

    with loaded(Settings(str(run), device="cpu")) as found:
        yield found


@pytest.fixture(scope="session")
def client(small: Loaded) -> Iterator[TestClient]:
    """A client of the application with its usual settings."""
    with small.client() as found:
        yield found


@pytest.fixture(scope="session")
def server(run: Path) -> Iterator[Server]:
    """`smpgnn serve` in a process of its own."""
    from serving import serving

    with serving(run) as found:
        yield found
