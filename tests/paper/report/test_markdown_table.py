"""Cells of Markdown read as they are, whatever text they hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from paper.experiments.made_records import made, write

from smpgnn.paper.report.collect import collect
from smpgnn.paper.report.markdown import markdown
from smpgnn.paper.report.markdown_table import escaped, table_lines


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
    assert escaped(text) == shown


@given(st.lists(st.lists(st.text(max_size=9), min_size=2, max_size=2), max_size=3))
def test_a_table_keeps_its_shape(rows: list[list[str]]) -> None:
    lines = table_lines(["", "head"], rows)
    assert lines[:2] == ["| | head |", "|---|---|"]
    for line in lines[2:]:
        assert len(line.splitlines()) == 1
        bare = line.replace("\\\\", "").replace("\\|", "")
        assert bare.count("|") == 3


def test_the_text_of_records(tmp_path: Path) -> None:
    record = made("zinc", "SMP", "with edge features", 0, 0.2, device="<b>a|b`\nc", memory_of="*d*")
    write(tmp_path, record)
    text = markdown(collect(tmp_path))
    assert "&lt;b>a\\|b\\` c" in text
    assert "(\\*d\\*)" in text
    assert "<b>" not in text
