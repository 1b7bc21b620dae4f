"""What the environment says of several processes, and where it makes no sense."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import CYCLES, done, smpgnn

NUMBERS = (
    "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK", "MASTER_PORT",
    "OMP_NUM_THREADS", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID",
)  # fmt: skip


def refused(words: tuple[object, ...], place: Path) -> str:
    found = smpgnn("train", *words, "--output", place / "run")
    assert found.status == 2, found
    assert "Traceback" not in found.err
    assert not (place / "run").exists()
    sentence = found.err.splitlines()[-1]
    assert sentence.startswith("smpgnn: ")
    return sentence


@pytest.mark.parametrize("value", ["abc", "", "-1", "1e3", "9" * 5000, "٣"])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_variable_that_is_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    sentence = refused(tuple(CYCLES), tmp_path)
    assert f"the environment variable {name} is '{value[:20]}" in sentence
    assert len(sentence) < 300


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"WORLD_SIZE": "3"}, "--devices 1 --nodes 1: 3 processes were started"),
        ({"SLURM_NTASKS": "4"}, "--ntasks-per-node=4"),
        ({"SLURM_STEP_NUM_TASKS": "4"}, "--devices 1 --nodes 1: 4 processes were started"),
    ],
)
def test_numbers_that_do_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], message: str
) -> None:
    monkeypatch.setenv("SLURM_JOB_NAME", "training")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert message in refused((*CYCLES,), tmp_path)


def test_one_task_of_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID"), "0")
    for name, value in {**ranks, "SLURM_NTASKS": "1", "OMP_NUM_THREADS": "2,1"}.items():
        monkeypatch.setenv(name, value)
    done("train", *CYCLES, "--output", tmp_path / "run")
