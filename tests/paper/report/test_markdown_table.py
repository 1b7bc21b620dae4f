"""Cells of Markdown read as they are, whatever text they hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper.experiments.made_records import made, write

from smpgnn.paper.report.collect import collect
from smpgnn.paper.report.render import markdown
from smpgnn.paper.report.words import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a\\|b"),
        ("`x`", "\\`x\\`"),
        ("<b>&amp;", "&lt;b>&amp;amp;"),
        ("one\ntwo\r\n three", "one two three"),
        ("[a](b) *c*", "\\[a\\](b) \\*c\\*"),
        ("_a_ b_c", "\\_a\\_ b_c"),
        ("C:\\|", "C:\\\\\\|"),
    ],
)
def test_nothing_is_taken_for_markdown(text: str, shown: str) -> None:
    assert plain(text) == shown


@given(st.text(max_size=9), st.text(max_size=9))
def test_text_stays_in_its_cell(one: str, two: str) -> None:
    line = f"| {plain(one)} | {plain(two)} |"
    assert len(line.splitlines()) == 1
    assert line.replace("\\\\", "").replace("\\|", "").count("|") == 3


def test_the_text_of_records(tmp_path: Path) -> None:
    record = made("zinc", "SMP", "with edge features", 0, 0.2, device="<b>a|b`\nc", memory_of="*d*")
    write(tmp_path, record)
    text = markdown(collect(tmp_path))
    assert "&lt;b>a\\|b\\` c" in text
    assert "(\\*d\\*)" in text
    assert "<b>" not in text
