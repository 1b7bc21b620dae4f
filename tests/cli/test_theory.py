"""smpgnn paper theory: the list, the programs, and what is wrong in one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import done, smpgnn

from smpgnn.paper.theory.programs import CLAIMS


def test_list() -> None:
    lines = done("paper", "theory").out.splitlines()
    assert len(lines) == len(CLAIMS) + 1
    assert [tuple(line.split(maxsplit=1)) for line in lines[:-1]] == list(CLAIMS.items())


@pytest.mark.parametrize("words", ["", " --help", " expressivity --help"])
def test_list_and_help_need_no_torch(words: str) -> None:
    code = (
        "import sys; from smpgnn.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "heavy = {'torch', 'torch_geometric', 'networkx', 'numpy', 'pandas', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code, "paper", "theory", *words.split()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert found.stdout
    assert found.stderr == "[]\n"


@pytest.mark.parametrize("words", [[], *([name] for name in CLAIMS), ["all"]])
def test_help_shows_an_example(words: list[str]) -> None:
    found = done("paper", "theory", *words, "--help")
    assert " ".join(["smpgnn paper theory", *words]) in found.out.split("example", 1)[1]


def test_one_program() -> None:
    out = done("paper", "theory", "mpnn").out
    assert out.startswith("mpnn: Proposition 1")
    assert "12, 0" in out


def test_all_runs_each_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    import smpgnn.paper.cli.theory as verb

    monkeypatch.setattr(verb, "CLAIMS", {name: CLAIMS[name] for name in ("mpnn", "corollary")})
    out = done("paper", "theory", "all").out
    assert out.index("mpnn: Proposition 1") < out.index("corollary: Corollary 1")


def test_expressivity_with_options(tmp_path: Path) -> None:
    file = tmp_path / "counts.json"
    out = done(
        "paper", "theory", "expressivity", "--model", "fast-smp", "gin", "gin", "--families",
        "regular", "--seeds", 1, "--layers", 4, "--width", 8, "--output", file,
    ).out  # fmt: skip
    assert any(line.split()[:2] == ["fast-smp", "SMP"] for line in out.splitlines())
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["settings"]["models"] == ["fast-smp", "gin"]
    assert found["counts"][1]["told_apart"] == 0
    assert found["families"][0]["pairs"] >= found["counts"][0]["told_apart"] > 10


def test_a_claim_that_fails_is_said_and_has_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    from smpgnn.paper.theory.expressivity import BOUND

    monkeypatch.setitem(BOUND, "fast-smp", "1-WL")
    found = smpgnn(
        *("paper", "theory", "expressivity", "--model", "fast-smp"),
        *("--families", "regular", "--seeds", 1),
    )
    assert found.status == 1
    assert found.err.startswith("smpgnn: the claim does not hold: fast-smp distinguishes")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("paper theory nope", "invalid choice: 'nope'"),
        ("paper theory mpnn --seeds 3", "unknown argument '--seeds'"),
        ("paper theory expressivity --model cnn", "models must be one of smp, fast-smp"),
        (
            "paper theory expressivity --families trees",
            "families must be one of regular, csl, cfi, strongly-regular, atlas, not 'trees'",
        ),
        ("paper theory expressivity --seeds 0", "expressivity: seeds must be at least 1, not 0"),
        ("paper theory expressivity --seeds few", "--seeds: invalid int value: 'few'"),
        ("paper theory expressivity --sead 1", "did you mean --seeds?"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(words: str, message: str) -> None:
    found = smpgnn(*words.split())
    assert found.status == 2
    assert message in found.err
    assert len(found.err.splitlines()) == 1
