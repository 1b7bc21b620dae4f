"""What SMP has reached, as the page begins with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from paper.experiments.made_records import made, write
from paper.report.page_reader import read

from smpgnn.paper.experiments.tables import TABLES
from smpgnn.paper.report.collect import collect
from smpgnn.paper.report.overview import overview
from smpgnn.paper.report.render import page

CELL = "with edge features"
LOCAL = "SMP, features in all contexts, local contexts"


def test_the_row_that_stands_for_smp_is_one_of_the_table() -> None:
    for table in TABLES.values():
        assert table.ours in ("", *(row.name for row in table.rows))
        if table.name.endswith(("_parts", "_recipe")):
            assert not table.ours


def test_means_stand_beside_the_paper_and_the_best_other_row(tmp_path: Path) -> None:
    assert overview(collect(tmp_path)) == []
    write(
        tmp_path,
        made("zinc", "SMP", CELL, 0, 0.14),
        made("zinc", "SMP", CELL, 1, 0.16),
        made("zinc", "GIN", CELL, 0, 0.2),
        made("zinc", "PNA", CELL, 0, 0.19),
        made("zinc", "DGN", "no edge features", 0, 0.2),
        made("zinc_beyond", LOCAL, CELL, 0, 0.08),
        made("zinc_parts", "SMP", CELL, 0, 0.1),
        made("zinc_recipe", LOCAL, CELL, 0, 0.1),
    )
    report = collect(tmp_path)
    table, beyond = overview(report)
    assert (table.report.table.name, table.columns) == ("zinc", CELL)
    assert table.ours.mean == pytest.approx(0.15)
    assert table.paper == 0.138
    assert table.other is not None
    assert (table.other.row, table.other.mean) == ("PNA", 0.19)
    assert (beyond.ours.row, beyond.ours.mean) == (LOCAL, 0.08)
    assert (beyond.paper, beyond.other) == (None, None)
    text = page(report)
    read(text)
    head = text.split("<header>")[1].split("</header>")[0]
    assert "<strong>0.150</strong></td>" in head
    assert "<strong>0.080</strong><small>features in all contexts, local contexts</small>" in head
    assert "zinc parts" not in head
    assert "zinc recipe" not in head
