"""Baseline, domain, descriptors, embeddings and --from on the command line."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from commands import SMALL, done, molecules, smpgnn

SMALLER = (*SMALL, "--extractor-channels", "8")


@pytest.fixture(scope="module")
def run(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with descriptors and a baseline."""
    folder = tmp_path_factory.mktemp("options") / "run"
    words = ("--targets", "size", "weight.g", "--descriptors", "rdkit", "T")
    data = molecules().assign(T=range(40))
    data.to_csv(folder.parent / "data.csv", index=False)
    found = done("train", "molecules", folder.parent / "data.csv", *words, *SMALLER, "--output",
                 folder)  # fmt: skip
    assert "test, gradient boosting" in found.out
    assert "on the test rows" in found.out
    return folder


def test_info_and_evaluate_show_the_baseline(run: Path) -> None:
    lines = done("info", run).out.splitlines()
    (verdict,) = [line for line in lines if "on the test rows" in line]
    assert verdict.startswith(("The network is", "Gradient boosting is"))
    found = done("evaluate", run).out
    assert len([line for line in found.splitlines() if line.startswith("test split, ")]) == 1
    assert "test split," not in done("evaluate", run, "--data", run.parent / "data.csv").out


def test_no_baseline(home: Path, tmp_path: Path) -> None:
    found = done("train", "molecules", home / "data.csv", "--targets", "size", *SMALLER,
                 "--no-baseline", "--output", tmp_path / "run")  # fmt: skip
    assert "on the test rows" not in found.out
    assert "on the test rows" not in done("info", tmp_path / "run").out


def test_domain(run: Path, size_run: Path, kind_run: Path, home: Path, tmp_path: Path) -> None:
    done("predict", size_run, home / "data.csv", "--domain", "-o", tmp_path / "out.csv")
    found = pd.read_csv(tmp_path / "out.csv")
    assert list(found.columns)[-4:] == ["similarity", "nearest", "nearest_row", "error"]
    assert (found["similarity"] == 1).sum() > 30
    refused = smpgnn("predict", kind_run, home / "graphs", "--domain", "-o", tmp_path / "no.csv")
    assert refused.status == 2
    assert "only molecules have fingerprints" in refused.err
    (size_run / "domain.safetensors").rename(size_run / "away")
    try:
        refused = smpgnn("predict", size_run, home / "data.csv", "--domain", "-o", tmp_path / "no")
        assert refused.status == 2
        assert refused.err.count("\n") == 1
        assert "has no domain.safetensors" in refused.err
    finally:
        (size_run / "away").rename(size_run / "domain.safetensors")
    assert not (tmp_path / "no").exists()


def test_missing_descriptors(run: Path, home: Path, tmp_path: Path) -> None:
    for verb in ("predict", "explain", "embed"):
        refused = smpgnn(verb, run, home / "data.csv", "-o", tmp_path / "out.csv")
        assert refused.status == 2
        assert "has no column 'T'" in refused.err
    assert not list(tmp_path.iterdir())
    done("predict", run, run.parent / "data.csv", "-o", tmp_path / "out.csv")


def test_embed(run: Path, kind_run: Path, home: Path, tmp_path: Path) -> None:
    found = done("embed", run, run.parent / "data.csv", "-o", tmp_path / "x.parquet")
    assert "40 rows written" in found.out
    frame = pd.read_parquet(tmp_path / "x.parquet")
    assert list(frame.columns) == ["smiles", *(f"embedding_{k}" for k in range(1, 9)), "error"]
    done("embed", kind_run, home / "graphs", "-o", tmp_path / "x.csv")
    assert len(pd.read_csv(tmp_path / "x.csv")) == 24


def test_from(run: Path, tmp_path: Path) -> None:
    words = ("train", "molecules", run.parent / "data.csv", "--targets", "size", "--from", run)
    short = ("--epochs", "1", "--device", "cpu", "--no-baseline")
    found = done(*words, *short, "--freeze", "--output", tmp_path / "new")
    assert f"Starts from {run}." in found.err
    config = (tmp_path / "new" / "config.yaml").read_text()
    assert "hidden_channels: 8\n" in config
    assert "freeze: true\n" in config
    refused = smpgnn(*words, *short, "--num-layers", "3", "--output", tmp_path / "no")
    assert refused.status == 2
    assert "--num-layers 3: the model in --from" in refused.err
    refused = smpgnn("train", "molecules", "--from", "elsewhere", "--resume", "--output",
                     tmp_path / "new")  # fmt: skip
    assert refused.status == 2
    assert "--from elsewhere: the run has" in refused.err
