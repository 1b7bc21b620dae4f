"""Data and trained models that the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import CYCLES, SMALL, done, graph_folder, molecules


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data.csv, graphs/ and labels.csv; not to be changed."""
    folder = tmp_path_factory.mktemp("home")
    molecules().to_csv(folder / "data.csv", index=False)
    graph_folder(folder / "graphs")
    return folder


@pytest.fixture(scope="session")
def size_run(home: Path) -> Path:
    """A model of the size of molecules."""
    run = home / "size"
    done("train", "molecules", home / "data.csv", "--targets", "size", *SMALL, "--output", run)
    return run


@pytest.fixture(scope="session")
def kind_run(home: Path) -> Path:
    """A model of the kind of graphs."""
    run = home / "kind"
    labels = ("--labels", home / "labels.csv", "--targets", "kind")
    done("train", "graphs", home / "graphs", *labels, *SMALL, "--output", run)
    return run


@pytest.fixture(scope="session")
def cycles_run(home: Path) -> Path:
    run = home / "cycles"
    done("train", *CYCLES, "--output", run)
    return run
