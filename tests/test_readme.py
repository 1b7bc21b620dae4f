"""Documents and figures match the records in results/."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from cli.commands import Outcome
from scripts import run_script

ROOT = Path(__file__).resolve().parent.parent
SMP = "results/cycle_generalization/smp/out-6-seed0.json"


def run(root: Path, script: str, *options: str) -> Outcome:
    return run_script(root / "docs" / script, *options)


@pytest.mark.parametrize("script", ["fill.py", "fill_theory.py", "draw_cycles.py"])
def test_the_figures_are_those_of_the_records(script: str) -> None:
    done = run(ROOT, script, "--check")
    assert done.status == 0, done.err


def test_another_record_is_noticed(tmp_path: Path) -> None:
    for name in ("docs", "results", "benchmarks"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "README.md", tmp_path)
    record = tmp_path / SMP
    content = json.loads(record.read_text(encoding="utf-8"))
    record.write_text(json.dumps({**content, "value": 12.3}), encoding="utf-8")
    assert "README.md does not match results/" in run(tmp_path, "fill.py", "--check").err
    drawn = run(tmp_path, "draw_cycles.py", "--check")
    assert "cycles_sizes.png is not what results/ say" in drawn.err
    assert run(tmp_path, "fill.py").status == 0
    assert run(tmp_path, "fill.py", "--check").status == 0
    with (tmp_path / "docs" / "results.md").open("a", encoding="utf-8") as file:
        file.write("By hand.\n")
    assert "docs/results.md does not match results/" in run(tmp_path, "fill.py", "--check").err
