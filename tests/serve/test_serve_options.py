"""Options of `smpgnn serve` that cannot be: one sentence, before anything is loaded."""

from __future__ import annotations

import sys

import pytest
from cli.commands import smpgnn


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--port", "70000"], "smpgnn serve: argument --port: must be a whole number from 0"),
        (["--timeout", "0"], "smpgnn serve: argument --timeout: must be a whole number from 1"),
        (["--max-body", "x"], "smpgnn serve: argument --max-body: must be a whole number"),
        (["--token", "short"], "smpgnn: --token: must have at least 16 letters"),
        (["--token", ""], "smpgnn: --token: must have at least 16 letters"),
        (["--token", "with blanks " * 3], "smpgnn: --token: must have at least 16 letters"),
        (["--host", "203.0.113.7"], "smpgnn: --host 203.0.113.7 --port 8000: cannot listen there"),
        (["--host", ""], "smpgnn: --host '': is not an address"),
        (["--host", "a" * 300], "smpgnn: --host 'aaa"),
    ],
)
def test_one_sentence(words: list[str], sentence: str) -> None:
    found = smpgnn("serve", "zinc", *words)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(sentence)
    assert found.err.count("\n") == 1


def test_the_token_of_the_environment_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SMPGNN_TOKEN", "short")
    found = smpgnn("serve", "zinc")
    assert found.status == 2
    assert found.err.startswith("smpgnn: SMPGNN_TOKEN: must have at least 16 letters")


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "smpgnn.serve.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    found = smpgnn("serve", "zinc")
    assert found.status == 2
    assert found.err == 'smpgnn serve needs uvicorn: pip install "smpgnn[serve]".\n'
