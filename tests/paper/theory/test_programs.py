"""The list of programs agrees with the modules and pages, and each program runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from smpgnn.paper.theory.programs import CLAIMS, load

DOCS = Path(__file__).resolve().parents[3] / "docs" / "theory"
#: Smaller cases for the programs that take seconds.
QUICK: dict[str, dict[str, Any]] = {
    "warm-up": {"max_nodes": 5},
    "reconstruction": {"max_nodes": 4},
    "ppgn": {"hidden": (16, 64)},
    "coloring": {"sizes": (64,), "depths": (1, 2)},
}


def check(out: str) -> None:
    assert out.strip()
    assert len(out.splitlines()) < 50
    assert max(len(line) for line in out.splitlines()) <= 110


@pytest.mark.parametrize("name", list(CLAIMS)[:-1])
def test_every_program_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    load(name)(**QUICK.get(name, {}))
    check(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize("name", CLAIMS)
def test_every_program_runs_in_full(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    load(name)()
    check(capsys.readouterr().out)


def test_all_modules_with_a_program_are_listed() -> None:
    folder = Path(__file__).resolve().parents[3] / "src" / "smpgnn" / "paper" / "theory"
    modules = sorted(
        path.stem for path in folder.glob("*.py") if "\ndef run(" in path.read_text("utf-8")
    )
    assert modules == sorted(name.replace("-", "_") for name in CLAIMS)


def test_every_program_has_a_line_and_a_page() -> None:
    text = (DOCS / "index.md").read_text(encoding="utf-8")
    for name, claim in CLAIMS.items():
        assert f"smpgnn paper theory {name}`: {claim}." in text
        page = text.split(f"[{name}](")[1].split(")")[0]
        assert f"smpgnn paper theory {name}" in (DOCS / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", sorted(path.name for path in DOCS.glob("*.md")))
def test_every_linked_file_is_there(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    links = [part.split(")")[0] for part in text.split("](")[1:]]
    local = [link.split("#")[0] for link in links if not link.startswith("http")]
    assert [link for link in local if not (DOCS / link).exists()] == []
