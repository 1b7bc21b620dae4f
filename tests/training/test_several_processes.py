"""Two processes on the CPU train as one does."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import pytest
import yaml
from processes import Fork, finish, start, wait_for, wait_for_epochs
from small_runs import CYCLES, lines, record, words

import smpgnn

#: 85 graphs in batches of 21: unequal shares, and a last batch with one graph for two processes.
OPTIONS = {**CYCLES, "train_samples": 85, "batch_size": 21, "lr": 0.01, "epochs": 2}

#: The command line, and in the end the names of the threads that are left (on Linux).
THREADS_AT_THE_END = """
import atexit
from smpgnn.cli.main import main
from training.test_several_processes import print_threads

atexit.register(print_threads)
main()
"""


def print_threads() -> None:
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    print("threads:", *names, flush=True)


def assert_no_threads_of_gloo(out: str) -> None:
    """Such a thread can abort a process that ends."""
    threads = [line for line in out.splitlines() if line.startswith("threads:")]
    assert threads
    assert "gloo" not in " ".join(threads)


def assert_like_one_process(folder: Path, alone: Path) -> None:
    for ours, theirs in zip(lines(folder), lines(alone), strict=True):
        assert ours == pytest.approx(theirs, abs=2e-3 if "accuracy" in ours else 1e-4)
    assert record(folder)["test"] == pytest.approx(record(alone)["test"], abs=0.02)
    assert sorted(file.name for file in folder.iterdir()) == sorted(
        file.name for file in alone.iterdir()
    )


def test_two_processes_that_lightning_starts(tmp_path: Path) -> None:
    options = {**OPTIONS, "norm": "batch"}
    folder = tmp_path / "two"
    process = Fork(["train", "cycles", *words(options), "--devices", "2", "--output", folder])
    alone = smpgnn.train("cycles", output=str(tmp_path / "one"), quiet=True, **options)
    status, out, err = finish(process)
    assert status == 0, err
    assert out.count("Run folder") == 1
    assert err.count("Graphs: ") == 1
    assert "Traceback" not in err
    assert "Warning" not in err
    assert_like_one_process(folder, alone.folder)
    # and such a run goes on with one process
    assert (folder / "last.ckpt").stat().st_size > 1000
    again = smpgnn.train("cycles", output=str(folder), resume=True, quiet=True, devices=1)
    assert again.test == record(folder)["test"]


def test_two_processes_in_the_environment_of_torchrun(tmp_path: Path) -> None:
    options = {**OPTIONS, "norm": "none"}
    folder = tmp_path / "two"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    both = {"TORCHELASTIC_RUN_ID": "run", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
            "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "GROUP_RANK": "0"}  # fmt: skip
    command = ["train", "cycles", *words(options), "--devices", "2", "--output", folder]
    processes = [
        Fork(command, {**both, "RANK": rank, "LOCAL_RANK": rank}, last=print_threads)
        for rank in "01"
    ]
    alone = smpgnn.train("cycles", output=str(tmp_path / "one"), quiet=True, **options)
    ended = [finish(process) for process in processes]
    assert [status for status, _, _ in ended] == [0, 0], ended
    assert ["Run folder" in out for _, out, _ in ended] == [True, False]
    for _, out, _ in ended:
        assert_no_threads_of_gloo(out)
    assert_like_one_process(folder, alone.folder)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("torchrun", path=str(Path(sys.executable).parent)) is None,
                    reason="torchrun is not beside this Python")  # fmt: skip
def test_two_processes_that_torchrun_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "settings.yaml"  # torchrun takes --n for an option of its own
    config.write_text(yaml.safe_dump(OPTIONS))
    torchrun = [str(Path(sys.executable).parent / "torchrun"), "--standalone", "--nproc-per-node=2"]
    script = tmp_path / "script.py"
    script.write_text(THREADS_AT_THE_END)
    tests = Path(__file__).parent
    paths = [str(tests), str(tests.parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
    folder = tmp_path / "two"
    process = start(
        ["train", "cycles", "--config", config, "--devices", "2", "--output", folder],
        [*torchrun, str(script)],
    )
    status, out, err = finish(process)
    assert status == 0, err
    assert out.count("Run folder") == 1
    assert_no_threads_of_gloo(out)
    assert len(lines(folder)) == 2


@pytest.mark.skipif(not Path("/proc").exists(), reason="children are found in /proc")
@pytest.mark.parametrize("who", ["the first", pytest.param("the second", marks=pytest.mark.slow)])
def test_a_process_that_is_killed(tmp_path: Path, who: str) -> None:
    """The other one says so in a sentence, and the run goes on."""
    options = {**OPTIONS, "epochs": 8}
    folder = tmp_path / "two"
    process = Fork(["train", "cycles", *words(options), "--devices", "2", "--output", folder])
    wait_for_epochs(process, folder, 2)
    (other,) = children(process.pid)
    os.kill(other if who == "the second" else process.pid, signal.SIGKILL)
    end = time.monotonic() + 60
    while alive(other):
        assert time.monotonic() < end
        time.sleep(0.02)
    status, _, err = finish(process, 60)
    assert status == (2 if who == "the second" else -signal.SIGKILL)
    sentence = "another process of the training has ended: add --resume to continue the run."
    assert err.splitlines()[-1] == f"smpgnn: {folder}: {sentence}"
    assert "Traceback" not in err
    done = len(lines(folder))
    again = smpgnn.train("cycles", output=str(folder), resume=True, quiet=True, devices=1)
    assert 2 <= done < len(lines(folder)) == 8
    assert again.test == record(folder)["test"]
    assert not list(folder.glob(".*"))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def children(pid: int) -> list[int]:
    """The processes that a process has started, not its helpers."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in found if b"smpgnn" in Path(f"/proc/{one}/cmdline").read_bytes()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_waits_for_another_machine_can_be_ended(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    folder = tmp_path / "run"
    machines = ["--nodes", "2", "--devices", "1", "--output", str(folder)]
    process = Fork(["train", "cycles", *words(OPTIONS), *machines])
    wait_for(process, (folder / "config.yaml").exists)
    time.sleep(2)  # it waits for the other machine now
    process.send_signal(number)
    assert finish(process, 60)[0] == -number
