"""The example of captured steps, on a GPU if there is one."""

from __future__ import annotations

from pathlib import Path

from scripts import run_script

ROOT = Path(__file__).resolve().parents[2]


def test_the_example_runs() -> None:
    done = run_script(ROOT / "examples" / "captured_step.py")
    assert done.status == 0, done.err
    assert "Lightning, last batch: loss" in done.out
