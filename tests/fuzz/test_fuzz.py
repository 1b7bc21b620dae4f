"""Fuzz each format briefly, read the corpus, and test the fuzzer itself."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest

from fuzz.cases import Case
from fuzz.corpus import FOLDER
from fuzz.driver import Driver, Report
from fuzz.formats import FORMATS
from fuzz.models import make_models
from fuzz.program import Outcome, Program
from fuzz.rule import broken

_SECONDS = 1.5
#: The commands that read a file of the corpus, by format.
_COMMANDS: dict[str, tuple[str, ...]] = {
    "csv": (
        "predict MOLECULES {} -o out.csv",
        "evaluate MOLECULES {}",
        "info {}",
        "train molecules {} --targets size --output run",
    ),
    "yaml": (
        "train molecules --config {} --print-config",
        "train molecules {} --targets size --config {} --output run",
    ),
    "json": (
        "predict GRAPHS {} -o out.csv",
        "predict NODES {} -o out.csv",
        "evaluate GRAPHS {}",
        "train graphs {} --targets end --level node --output run",
    ),
}
_COMMANDS |= {"parquet": _COMMANDS["csv"], "sdf": _COMMANDS["csv"], "graphml": _COMMANDS["json"]}
_COMMANDS["edges"] = ("predict LISTS {} -o out.csv", "train graphs {} --output run")


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_models(folder)
    return folder


@pytest.fixture
def driver(models: Path, tmp_path: Path) -> Driver:
    return Driver(models, tmp_path / "failures", tmp_path)


def failures(report: Report) -> str:
    """Describe each failure and how to reproduce it."""
    return "\n".join(
        f"{failure.what}: make fuzz FORMAT={report.format} SEED={report.seed} "
        f"CASE={failure.number}\n{failure.outcome.err[-500:]}{failure.outcome.error[-1500:]}"
        for failure in report.failures.values()
    )


@pytest.mark.parametrize("name", FORMATS)
def test_a_few_seconds(driver: Driver, models: Path, name: str) -> None:
    report = driver.run(name, FORMATS[name](models), seconds=_SECONDS, seed=0)
    print(report.line())
    assert report.cases > 0
    assert not report.failures, failures(report)


FILES = sorted(file for file in FOLDER.glob("*/*") if file.parent.name in _COMMANDS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_corpus(driver: Driver, file: Path) -> None:
    name = file.parent.name
    cases = [
        Case(
            tuple(line.replace("{}", file.name).split()),
            {file.name: file.read_bytes()},
            ("out.csv", "run"),
        )
        for line in _COMMANDS[name]
    ]
    remaining = iter(cases)
    report = driver.run(name, lambda _: next(remaining), seconds=60, seed=0, most=len(cases))
    assert not report.failures, failures(report)


GOOD = Outcome(0, "done\n", "")
BAD = Outcome(2, "", "smpgnn: t.csv is empty: give a file that has content.\n")


@pytest.mark.parametrize(
    ("what", "outcome", "after"),
    [
        ("KeyError", Outcome(-1, "", "", "Traceback …", "KeyError at x.py:1"), {}),
        ("traceback", Outcome(2, "", "Traceback (most recent call last):\nsmpgnn: x.\n"), {}),
        ("exit status 1", Outcome(1, "", ""), {}),
        ("exit status 130", Outcome(130, "", "smpgnn: interrupted.\n"), {}),
        ("UserWarning", Outcome(0, "", "x.py:3: UserWarning: odd\n"), {}),
        ("0 sentences", Outcome(2, "", ""), {}),
        ("2 sentences", Outcome(2, "", "smpgnn: one.\nsmpgnn: two.\n"), {}),
        ("does not end", Outcome(2, "", "smpgnn: one\n"), {}),
        ("without end", Outcome(2, "", f"smpgnn: {'x' * 9999}.\n"), {}),
        ("unexpected line", Outcome(0, "", "hello\n"), {}),
        ("exit status 0", Outcome(0, "", "smpgnn: t.csv is empty.\n"), {}),
        ("memory", Outcome(0, "", "", mebibytes=5000.0), {}),
        ("part file", GOOD, {"t.csv": b"x", ".out.part": b""}),
        ("t.csv was changed", GOOD, {"t.csv": b"y"}),
        ("unexpected file", GOOD, {"t.csv": b"x", "other": b""}),
        ("although the call failed", BAD, {"t.csv": b"x", "out.csv": b""}),
    ],
)
def test_the_rule_sees(what: str, outcome: Outcome, after: dict[str, bytes]) -> None:
    case, before = Case(("info", "t.csv"), {}, ("out.csv",)), {"t.csv": b"x"}
    found = broken(case, outcome, before, after or before)
    assert found is not None
    assert what in found
    for fine in (GOOD, BAD):
        assert broken(case, fine, before, before) is None
    assert broken(case, GOOD, before, {**before, "out.csv": b""}) is None


def test_a_failure_is_minimised_and_kept(
    driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from smpgnn.cli import main

    def wrong(words: list[str]) -> int:
        return 1 // int(b"x" not in Path(words[1]).read_bytes())

    monkeypatch.setattr(main, "run", wrong)
    case = Case(("info", "t.csv"), {"t.csv": b"a" * 40 + b"x" + b"b" * 60})
    report = driver.run("csv", lambda _: case, seconds=60, seed=7, most=3)
    (failure,) = report.failures.values()
    assert "ZeroDivisionError" in failure.what
    assert failure.times == 3
    kept = tmp_path / "failures" / "csv-7-0"
    assert (kept / "t.csv").read_bytes() == b"x"
    assert (kept / "command.sh").read_text() == "smpgnn info t.csv\n"
    assert "ZeroDivisionError" in (kept / "what.txt").read_text()


def test_a_call_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    from smpgnn.cli import main

    def slow(words: list[str]) -> int:
        while True:
            time.monotonic()

    monkeypatch.setattr(main, "run", slow)
    with Program(seconds=0.2) as program:
        outcome = program.call(("info", "models"))
    assert outcome.status == -1
    assert outcome.place.startswith("TooSlow at ")


def test_cases_depend_on_seed_and_number_only(models: Path) -> None:
    for make in FORMATS.values():
        maker = make(models)
        one, again, other = (maker(Random(text)) for text in ("0/a/1", "0/a/1", "0/a/2"))
        assert one == again
        assert one != other
