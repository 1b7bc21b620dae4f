"""smpgnn export, from the command line to a table of predictions."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import SMALL, done, smpgnn

from smpgnn.inference.predict import load


def refused(*words: object) -> str:
    """The sentence with which a command line is refused."""
    outcome = smpgnn("export", *words)
    assert outcome.status == 2
    assert outcome.err.count("\n") == 1
    assert "Traceback" not in outcome.err
    return outcome.err


def test_bad_command_lines_write_nothing(tmp_path: Path) -> None:
    assert "must end in .pt2" in refused("zinc", "-o", tmp_path / "model.bin")
    assert "create the folder" in refused("zinc", "-o", tmp_path / "none" / "model.pt2")
    assert "no such file" in refused(tmp_path / "run", "-o", tmp_path / "model.onnx")
    assert "--output" in refused("zinc")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_runs_with_members_name_one_of_them(home: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--targets", "size", "--ensemble", "2", *SMALL, "--output", run)
    done("train", "molecules", home / "data.csv", *words)
    said = refused(run, "-o", tmp_path / "model.onnx")
    assert str(run / "members" / "member1") in said


@pytest.mark.slow
@pytest.mark.skipif(find_spec("onnxruntime") is None, reason="needs onnxruntime")
def test_of_graphs_in_a_folder(home: Path, kind_run: Path, tmp_path: Path) -> None:
    import onnxruntime

    outcome = done("export", kind_run, "-o", tmp_path / "model.onnx")
    assert "Largest difference" in outcome.out
    done("predict", kind_run, home / "graphs", "-o", tmp_path / "expected.csv")
    expected = pd.read_csv(tmp_path / "expected.csv")
    inputs = load(kind_run, "cpu").inputs(home / "graphs")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    (found,) = session.run(None, {name: value.numpy() for name, value in inputs.items()})
    shares = expected.filter(like="probability_").to_numpy()
    np.testing.assert_allclose(found, shares, atol=1e-5)
