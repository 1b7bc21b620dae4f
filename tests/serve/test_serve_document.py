"""The examples of docs/serve.md, run as they stand there; its limits are those of the program."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from serving import serving

from smpgnn.cli.main import build_parser
from smpgnn.serve import EXPLAINED
from smpgnn.serve.gate import _TURNS
from smpgnn.serve.service import _EXPLAINED, _PREDICTED

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENT = ROOT / "docs" / "serve.md"
NUMBER = r"-?\d+\.\d+"
EXAMPLE = re.compile(r"```sh\n(.*?)```\n\n```(json|text)\n(.*?)```", re.S)


def test_the_limits_are_those_of_the_program() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    parser = build_parser()
    (verbs,) = (a.choices for a in parser._actions if isinstance(a.choices, dict))
    known = {a.option_strings[0]: a.default for a in verbs["serve"]._actions if a.option_strings}
    rows = re.findall(r"^\| `(--[a-z-]+)` \|.*\| (\d+) \|$", text, re.M)
    assert len(rows) == 5
    assert {name: int(value) for name, value in rows} == {name: known[name] for name, _ in rows}
    assert f"explanations: at most {EXPLAINED}" in text
    assert f"up to {_TURNS} requests take turns" in text
    assert f"pieces of {_PREDICTED} molecules ({_EXPLAINED} if they are\nexplained)" in text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_the_examples_give_what_is_shown(tmp_path: Path) -> None:
    examples = EXAMPLE.findall(DOCUMENT.read_text(encoding="utf-8"))
    assert len(examples) == 4
    with serving("zinc") as server:
        for command, kind, shown in examples:
            command = command.replace("http://127.0.0.1:8000", server.url)
            found = subprocess.run(
                ["bash", "-c", command], capture_output=True, text=True, timeout=60, cwd=tmp_path
            )
            assert values(found.stdout, kind) == pytest.approx(values(shown, kind), rel=1e-3)
            assert words(found.stdout) == words(shown)


def values(text: str, kind: str) -> list[float]:
    """The numbers of an answer."""
    if kind == "json":
        json.loads(text)
    return [float(number) for number in re.findall(NUMBER, text)]


def words(text: str) -> list[Any]:
    """All else of an answer."""
    return re.split(NUMBER, text.strip())
