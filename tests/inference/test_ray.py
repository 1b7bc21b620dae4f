"""Predicting for many tables with a Ray of two workers on this machine."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cli.commands import done
from tiny_model import table, tiny_model
from training.processes import finish, start, wait_for

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed"),
    pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found in /proc"),
]

FILES, ROWS = 8, 12_000


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    (tmp_path / "in").mkdir()
    for number in range(FILES):
        table(tmp_path / f"in/{number}.parquet", ROWS + number)
    return tiny_model(tmp_path)


def call(model: Path) -> list[object]:
    return ["predict", model.name, "in/*.parquet", "-o", "out", "--engine", "ray", "--processes", 2]


def finished() -> list[str]:
    return sorted(path.name for path in Path("out").glob("[0-9].parquet"))


def descendants(pid: int) -> list[int]:
    """All processes below one."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def workers(pid: int) -> list[int]:
    """The processes of Ray's actors below a process that are at work."""
    return [
        one
        for one in descendants(pid)
        if Path(f"/proc/{one}/cmdline").read_bytes().startswith(b"ray::_Actor.run")
    ]


def test_a_killed_worker_repeats_its_partition(tables: Path) -> None:
    process = start(call(tables))
    wait_for(process, finished)
    os.kill(workers(process.pid)[0], signal.SIGKILL)
    status, out, err = finish(process)
    assert status == 0, err
    total = sum(ROWS + number for number in range(FILES))
    assert out.startswith(f"{total:,} rows in {FILES} files in out")
    assert sorted(path.name for path in Path("out").iterdir()) == finished()
    done("predict", tables, "in", "-o", "alone", "--processes", 1, "--device", "cpu")
    for name in finished():  # bit for bit, in order
        assert pq.read_table(f"out/{name}").equals(pq.read_table(f"alone/{name}"))
    errors = pq.read_table("out/0.parquet")["error"].drop_null().to_pylist()
    assert errors == ["the text is not a SMILES"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupts_end_it_and_a_second_call_continues(
    tables: Path, number: signal.Signals
) -> None:
    process = start(call(tables))
    wait_for(process, finished)
    started = descendants(process.pid)
    process.send_signal(number)
    status, out, err = finish(process)
    assert (status, out) == (130 if number == signal.SIGINT else 143, ""), err
    assert "Traceback" not in err
    end = time.monotonic() + 60
    while any(Path(f"/proc/{one}").exists() for one in started):
        assert time.monotonic() < end
        time.sleep(0.1)
    before = finished()
    assert sorted(path.name for path in Path("out").iterdir()) == before
    assert len(before) < FILES
    again, out, err = finish(start(call(tables)))
    assert again == 0, err
    assert f"{len(before)} of them finished before" in out
    assert len(finished()) == FILES


def test_a_cluster_that_does_not_answer(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    status, _, err = finish(start(call(tables)))
    assert status == 2
    assert not list(Path().glob("out"))
    sentence = "RAY_ADDRESS=127.0.0.1:1: no cluster of Ray answers there: correct or unset it."
    assert err.splitlines()[-1] == f"smpgnn: {sentence}"
