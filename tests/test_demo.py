"""The page that `make demo` ends with."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

import smpgnn

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SMALL: dict[str, Any] = {
    "k": 4, "n": 12, "train_samples": 40, "test_samples": 40, "hidden_channels": 8, "num_layers": 2,
    "epochs": 2, "device": "cpu", "quiet": True,
}  # fmt: skip


def test_the_page_shows_the_runs_and_needs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    page = runpy.run_path(str(EXAMPLES / "demo_page.py"))["page"]
    names = {"fast-smp": "Fast SMP", "gin": "GIN"}
    results = {
        model: smpgnn.train("cycles", model=model, output=str(tmp_path / model), **SMALL)
        for model in names
    }
    text = page(results, names)
    for model, result in results.items():
        assert f"<th>{names[model]}</th>" in text
        assert f"{100 * result.test['accuracy']:.2f}%" in text
        assert f"<code>{model}</code>" in text
    # closed walks of four steps: 8 + 8 from each square's corners, 6 from each node of the ring
    assert "sum to 64 in the squares and to 48 in the ring" in text
    assert text.count('aria-label="contexts after layer') == 10
    assert not re.search(r"(src|href)=|url\(|@import|<script", text)
    pytest.importorskip("rdkit")
    molecules = text.partition('<div class="molecules">')[2].partition("</div>")[0]
    assert molecules.count("<ellipse") == 10 + 13  # an atom each, coloured
