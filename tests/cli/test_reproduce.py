"""smpgnn paper reproduce and report: real commands, real processes, small trainings."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import done, smpgnn
from training.processes import Fork, finish, fork_workers, wait_for

from smpgnn.paper.experiments.records import read_records

SMALL = (
    "--samples", "64", "--device", "cpu",
    "--set", "hidden_channels=8", "num_layers=2", "batch_size=1000",
)  # fmt: skip
EPOCHS = 25
TRIAL = 5


def wait_for_two_runs(process: Fork, work: Path) -> None:
    """Until two runs have two epochs each."""

    def found() -> bool:
        files = work.glob("*/*/*/metrics.csv")
        return sum(file.read_text().count("\n") > 2 for file in files) >= 2

    wait_for(process, found)


def test_interrupted_and_resumed_in_parallel_while_one_row_fails(tmp_path: Path) -> None:
    results, work = tmp_path / "results", tmp_path / "work"
    command = [
        "paper", "reproduce", "cycle_detection", "--rows", "SMP", "GIN", "--cells", "4-12",
        "--seeds", "3", "--jobs", "2", "--epochs", str(EPOCHS),
        *SMALL, "towers=3",  # which does not divide the channels of SMP; GIN has none
        "--results", str(results), "--work-dir", str(work),
    ]  # fmt: skip
    process = Fork(command, first=fork_workers)
    wait_for_two_runs(process, work)
    process.send_signal(signal.SIGINT)
    status, out, err = finish(process)
    assert status == 130, (out, err)
    assert "interrupted; run the same command again to continue." in err
    assert "Traceback" not in err
    assert not list(results.rglob("*-seed*"))
    assert not list(tmp_path.rglob(".*"))
    found = done(*command, "--dry-run").out
    assert "2 trainings: 0 answered by records, 2 to do; 9 short ones" in found

    status, out, err = finish(Fork(command, first=fork_workers))
    assert status == 1, (out, err)
    assert "continues after epoch " in err
    assert "smpgnn: cycle_detection: SMP, 4-20, rate 0.001, max: towers=3 must divide" in err
    assert "SMP, 4-12, seed 3: not started: a trial of its learning rate failed." in err
    assert "4 failed, 0 left." in out
    (record,) = read_records(results)
    assert (record.row, record.cell, record.seed, record.epochs) == ("GIN", [4, 12], 3, EPOCHS)
    assert record.reduced
    assert record.jobs == 2
    assert list(record.curves.epoch) == list(range(1, EPOCHS + 1))
    logs = "".join(log.read_text() for log in (work / "logs").glob("*.log"))
    assert "cycle_detection: GIN, 4-12, seed 3" in logs

    choice = record.search
    assert choice is not None
    assert [(trial.readout, trial.lr, trial.epochs) for trial in choice.trials] == [
        (readout, rate, TRIAL) for readout in ("mean", "max") for rate in (3e-4, 1e-3, 3e-3)
    ]
    assert record.config["lr"] == choice.chosen
    assert record.config["readout"] == choice.chosen_readout
    best = max(trial.validation or 0 for trial in choice.trials)
    chosen = (choice.chosen, choice.chosen_readout)
    assert next(t for t in choice.trials if (t.lr, t.readout) == chosen).validation == best
    stored = (results / "cycle_detection/gin/search-4-20-reduced.json").read_text()
    assert json.loads(stored)["chosen"] == choice.chosen

    # what is answered is not trained again: no worker is started
    finished = done(*(word for word in command if word != "SMP"))
    assert finished.out == "all 1 trainings are answered by records already.\n"
    assert finished.err == ""

    page = tmp_path / "out" / "report.html"
    done("paper", "report", "--results", results, "-o", page, "--markdown", tmp_path / "r.md")
    assert "Reduced runs" in page.read_text()
    assert f"| GIN | {record.value:.1f} |" in (tmp_path / "r.md").read_text()


def test_the_time_limit_ends_it_in_good_order(tmp_path: Path) -> None:
    found = smpgnn(
        "paper", "reproduce", "cycle_detection", "--rows", "GIN", "--cells", "4-12", "--seeds", "0",
        "--no-search", "--minutes", "0.01", "--epochs", "100000", *SMALL,
        "--results", tmp_path / "r", "--work-dir", tmp_path / "w",
    )  # fmt: skip
    assert found.status == 0
    assert "0 failed, 1 left." in found.out
    assert "the 0.01 minutes are over; run the same command again to continue." in found.err


def test_two_do_not_work_in_the_same_folder(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    (tmp_path / "w" / "zinc").mkdir(parents=True)
    places = ("--results", tmp_path / "r", "--work-dir", tmp_path / "w")
    words = ("paper", "reproduce", "zinc", *places)
    with (tmp_path / "w" / "zinc" / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = smpgnn(*words)
    assert found.status == 2
    assert "another smpgnn paper reproduce is running there: wait until it ends, or" in found.err


def test_a_dry_run_needs_no_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from smpgnn.cli.main import run\n"
        "run(sys.argv[1:]); print(sorted({'torch', 'pandas', 'matplotlib'} & set(sys.modules)))"
    )
    words = ["paper", "reproduce", "zinc", "--dry-run", "--results", str(tmp_path)]
    found = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, timeout=120
    )
    lines = found.stdout.splitlines()
    assert lines[-1] == "[]", found
    assert lines[-2].startswith("42 trainings: 0 answered by records, 42 to do; 21 short ones")
    assert "open    zinc: SMP, no-edge-features, seed 0, " in found.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("paper reproduce cycels", "TABLE 'cycels': there is none of this name"),
        ("paper reproduce zinc --rows SMB", "--rows 'SMB': there is none of this name; known are:"),
        ("paper reproduce zinc --jobs 0", "--jobs: must be a whole number from 1 to 1000, not '0'"),
        ("paper reproduce zinc --minutes nan", "--minutes nan: must be 0 or more."),
        ("paper reproduce zinc --set epochs", "--set epochs: must be NAME=VALUE"),
        ("paper reproduce zinc --set depth=3", "--set: unknown key 'depth'"),
        ("paper reproduce zinc --seed 1", "unknown argument '--seed': did you mean --seeds?"),
        ("paper reproduce", "the following arguments are required: TABLE"),
        ("paper report --results nowhere", "nowhere: there is no such folder"),
    ],
)
def test_bad_words_are_one_sentence(words: str, message: str) -> None:
    found = smpgnn(*words.split(), *(["--dry-run"] if "zinc" in words else []))
    assert found.status == 2
    assert message in found.err
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize("verb", ["reproduce", "report"])
def test_help_shows_examples(verb: str) -> None:
    found = done("paper", verb, "--help").out
    assert f"smpgnn paper {verb}" in found.split("examples:", 1)[1]
