"""The page and the Markdown: the paper's numbers and ours, whole HTML, nothing from outside."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from paper.experiments.made_records import made, write
from paper.report.page_reader import read

from smpgnn.errors import InputError
from smpgnn.pages.charts import COLOURS
from smpgnn.paper.experiments.records import Curves
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.paper.report.collect import TableReport, collect
from smpgnn.paper.report.curves import STYLES, mean_curve
from smpgnn.paper.report.render import markdown, page
from smpgnn.paper.report.words import signed


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_results(tmp_path_factory.mktemp("results"))


@pytest.fixture(scope="module")
def text(results: Path) -> str:
    return page(collect(results))


def write_results(tmp_path: Path) -> Path:
    """Some cells of three tables, some with several seeds, one reduced; benchmarks."""
    table = "cycle_detection"
    write(
        tmp_path,
        *(made(table, "GIN", "4 12", seed, 97.0 + seed) for seed in range(3)),
        made(table, "SMP", "4 12", 0, 99.94),
        made(table, "SMP", "8 72", 0, 98.0),
        made(table, "RP", "4 12", 0, 12.345, reduced=True, samples=9),
        *(
            made("graph_properties", "SMP", c.name, 0, -3.7)
            for c in TABLES["graph_properties"].cells
        ),
        made("cycle_detection_matched", "SMP", "4 12", 0, 91.2),
    )
    folder = tmp_path / "benchmarks"
    folder.mkdir()
    points = [{"nodes": n, "ms": n / 7, "mib": n * n / 9} for n in (10, 100, 1000)]
    own = {"method": "Fast SMP, coloring", "points": points, "measured_time_exponent": 1.25}
    scaling = {"device": "a card", "results": [{"method": "A <fast> one", "points": points}, own]}
    (folder / "complexity.json").write_text(json.dumps(scaling))
    (folder / "step.json").write_text(
        json.dumps({"device": "2 thread(s)", "rows": [{"case": "zinc", "ours_ms": 12.5}]})
    )
    steps = [
        {"graph": "mesh", "layer": "fast", "nodes": n, "step_s": n / 500, "peak_mib": n / 3}
        for n in (1000, 5000)
    ]
    slopes = [{"graph": "mesh", "layer": "fast", "step": 1.05, "memory": 0.95}]
    (folder / "scale.json").write_text(json.dumps({"points": steps, "exponents": slopes}))
    (folder / "loader.json").write_text(json.dumps({"batch_ms": 3}))
    return tmp_path


def test_the_page_is_whole_and_needs_nothing_from_outside(text: str) -> None:
    reader = read(text)
    assert text.startswith("<!DOCTYPE html>")
    assert all(link.startswith("#") for link in reader.links)
    assert {link[1:] for link in reader.links} <= set(reader.ids)
    for word in ("http:", "https:", "url(", "@import", "<link"):
        assert word not in text
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text


def test_ours_stands_beside_the_papers(text: str) -> None:
    reader = read(text)
    cells = reader.cells["cycle_detection"][0]
    rows = {row[0].split(" ", 1)[1].strip(" †"): row for row in cells}
    gin = " ".join(rows["GIN"][1].split())
    assert gin == "98.0 ±1.0 paper 98.3 −0.3"
    assert " ".join(rows["SMP"][1].split()) == "99.9 paper 100.0 −0.1"
    assert " ".join(rows["SMP"][12].split()) == "98.0 paper 99.9 −1.9"
    assert " ".join(rows["MPNN"][1].split()) == "— paper 98.5"
    assert " ".join(rows["GIN + degree"][11].split()) == "—"  # the paper has none either
    matched = reader.cells["cycle_detection_matched"][0]
    assert " ".join(matched[-1][1].split()) == "91.2"
    assert [row[0].strip() for row in matched[2:]] == ["SMP"]  # neither trained nor in the paper
    # a table without any record still shows the paper's numbers and how to get ours
    zinc = reader.cells["zinc"][0]
    assert " ".join(zinc[-1][2].split()) == "— paper 0.138"


def test_a_row_of_another_table_is_shown_beside_the_others(tmp_path: Path) -> None:
    other, cell = "SMP, features in all contexts", "no edge features"
    write(tmp_path, made("zinc", "SMP", cell, 0, 0.2191))
    report = {t.table.name: t for t in collect(tmp_path).tables}
    assert report["zinc_features"].records == ()  # nothing of its own yet
    write(tmp_path, made("zinc_features", other, cell, 0, 0.17))
    rows = read(page(collect(tmp_path))).cells["zinc_features"][0]
    shown = {row[0].strip(): " ".join(row[1].split()) for row in rows[1:]}
    assert (shown["SMP"], shown[other]) == ("0.219", "0.170")
    assert f"| {other} | 0.170 |" in markdown(collect(tmp_path))


def test_what_smp_reached_is_said_first(tmp_path: Path) -> None:
    results = write_results(tmp_path)
    write(results, *(made("cycle_generalization", "SMP", f"in {k}", 0, 90.0 + k) for k in (4, 6)))
    write(
        results, *(made("cycle_generalization", "GIN", f"in {k}", 0, 70.0 + k) for k in (4, 6, 8))
    )
    text = page(collect(results))
    assert text.index("Table 1b, in") < text.index("<nav")
    lines = {cells[0]: cells for row in read(text).cells[""][0] for cells in [_words(row)]}
    # of Table 1b SMP has two of three columns in distribution; GIN has all, and counts for the two
    name = "Table 1b, in 2 of 3 columns"
    assert lines[name][1:4] == ["95.0", "99.9", "75.0 GIN"]
    assert lines["Table 1a, k=4 1 of 4 columns"][1:4] == ["99.9", "100.0", "98.0 GIN"]
    assert lines["Table 1a, k=8 1 of 4 columns"][1:4] == ["98.0", "99.9", "—"]
    assert lines["Table 2"][1:4] == ["−3.70", "−3.59", "—"]
    assert lines["cycle detection matched, k=4 1 of 4 columns"][1:4] == ["91.2", "—", "—"]
    assert not any("parts" in line for line in lines)


def _words(row: list[str]) -> list[str]:
    return [" ".join(cell.split()) for cell in row]


def test_columns_stand_in_groups(text: str) -> None:
    detection = read(text).cells["cycle_detection"][0]
    assert _words(detection[0]) == ["method", "k=4", "k=6", "k=8"]
    assert _words(detection[1])[:5] == ["n=12", "n=20", "n=28", "n=36", "n=20"]
    for name in ("cycle_generalization", "cycle_generalization_parts"):
        report = TableReport(TABLES[name], (), reduced=False)
        assert [(group, [cell.head for cell in cells]) for group, cells in report.groups] == [
            (side, ["k=4", "k=6", "k=8"]) for side in ("in", "out")
        ]
    assert [name for name, _ in TableReport(TABLES["zinc"], (), reduced=False).groups] == [""]
    one = made("cycle_detection", "GIN", "4 12", 0, 90.0, reduced=True)
    ((name, cells),) = TableReport(TABLES["cycle_detection"], (one,), reduced=True).groups
    assert (name, [cell.label for cell in cells]) == ("", ["k=4, n=12"])


def test_the_papers_tables_come_first_and_what_is_not_trained_last(text: str) -> None:
    names = re.findall(r'<section id="(.*?)"', text)
    assert names[:5] == [
        "cycle_detection", "cycle_generalization", "cycle_less_data", "graph_properties", "zinc",
    ]  # fmt: skip
    assert names.index("training_curves") < names.index("cycle_detection_matched")
    assert names[-2:] == ["protocols", "to-come"]
    last = text.split('<section id="to-come">')[1]
    assert "<code>smpgnn paper reproduce zinc_parts</code>" in last
    assert "Not trained yet: GIN; PPGN; SMP with row means." in text


def test_reduced_runs_never_stand_beside_the_papers(text: str) -> None:
    reader = read(text)
    rows = {row[0].strip(): row for row in reader.cells["cycle_detection"][0]}
    assert " ".join(rows["RP"][1].split()) == "— paper 100.0"
    head, row = reader.cells["reduced"][0]
    assert [" ".join(cell.split()) for cell in head] == ["method", "k=4, n=12"]
    assert [" ".join(cell.split()) for cell in row] == ["RP", "12.3"]
    assert "paper" not in " ".join(cell for row in reader.cells["reduced"][0] for cell in row)


def test_details_of_the_runs_are_there(text: str) -> None:
    reader = read(text)
    validation, costs, rates, runs = reader.cells["cycle_detection"][1:5]
    assert [cell.strip() for cell in validation[2]][:3] == ["GIN", "99.0", "—"]
    assert validation[-1][0].strip() == "SMP †"
    gin = [cell.strip() for cell in costs[1]]
    assert gin[:9] == ["GIN", "k=4, n=12", "12,345", "3", "3", "2", "30.0", "10", "512"]
    assert [c.strip() for c in rates[2]][2:] == ["0.001", "mean", "71", "3", "chosen"]
    assert "diverged" in rates[3][4]
    heads = [cell.strip() for cell in runs[0]]
    assert {"seed", "model", "commit", "torch", "n"} <= set(heads)
    assert len(runs) == 1 + 5
    assert "<dt>batch_size</dt><dd>64</dd>" in text
    assert "Protocol modern: AdamW" in text
    assert text.count("validation accuracy (%)") >= 2
    assert "training NLL (nat)" in text
    assert "A &lt;fast&gt; one" in text
    growth, scale, steps = reader.cells["scaling"]
    assert " ".join(" ".join(scale[1]).split()) == "fast, mesh n 0.95 n 1.05"
    found = [" ".join(cell.split()) for cell in growth[2]]
    assert found == ["Fast SMP, coloring", "n χ c", "—", "m χ c + n χ c 2", "n 1.25"]
    assert steps[1][1].strip() == "12.5"
    assert "<summary>One training step (CPU, 2 threads)</summary>" in text


def test_tables_sort(text: str) -> None:
    assert "aria-sort" in text.split("<script>")[1]
    assert "addEventListener" in text
    for table in re.findall(r'<table class="sortable">.*?</table>', text, re.DOTALL):
        columns = table.count("<button")
        assert columns == table.split("</thead>")[0].count('<th scope="col"')
        for row in table.split("<tbody>")[1].split("<tr>")[1:]:
            assert row.count("data-value=") == columns
    assert 'data-value="98.0"' in text


def test_best_is_bold_by_what_is_shown(tmp_path: Path) -> None:
    write(
        tmp_path,
        made("zinc", "SMP", "with edge features", 0, 0.1384),
        made("zinc", "PNA", "with edge features", 0, 0.1376),
        made("zinc", "GIN", "with edge features", 0, 0.25),
    )
    text = page(collect(tmp_path))
    assert text.count('class="best"') == 2
    assert '<small class="good">−0.050</small>' in text  # PNA: lower is better
    assert '<small class="">0.000</small>' in text  # SMP


def test_an_empty_folder_gives_a_page_with_the_papers_numbers(tmp_path: Path) -> None:
    report = collect(tmp_path)
    text = page(report)
    read(text)
    assert "Not trained yet: <code>smpgnn paper reproduce zinc</code>" in text
    assert "There are no records of full runs yet." in markdown(report)


def test_markdown_has_the_same_numbers(results: Path) -> None:
    text = markdown(collect(results))
    assert "| GIN | 98.0 ± 1.0 (98.3, −0.3) | — (97.1) |" in text
    assert "| SMP † | −3.70 (−3.59, −0.11) |" in text
    assert "| — |" in text  # neither trained nor in the paper
    assert "1 to 3 seeds" in text
    assert "| | k=4: n=12 | n=20 | n=28 | n=36 | k=6: n=20 |" in text
    assert text.count("Protocol modern: AdamW") == 1
    before, after = text.split("## Reduced runs")
    assert "12.3" not in before
    assert "| RP | 12.3 | 13.3 |\n" in after
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1


def test_validation_values_stand_beside_test_values(tmp_path: Path) -> None:
    """In the same table if it is narrow, else in one of their own."""
    edges, wide = "with edge features", [cell.name for cell in TABLES["cycle_detection"].cells]
    write(
        tmp_path,
        *(made("zinc", "SMP", edges, seed, 0.1 + seed / 10) for seed in (0, 1)),
        *(made("cycle_detection", "GIN", cell, 0, 90.0) for cell in wide),
    )
    text = markdown(collect(tmp_path))
    assert "| | no edge features | validation | with edge features | validation |" in text
    assert "| SMP | — (0.219) | — | 0.150 ± 0.071 (0.138, +0.012) | 1.150 |" in text
    assert text.count("Validation, mean over the seeds:") == 1
    assert f"| GIN |{' 91.0 |' * 12}\n" in text.split("Validation, mean over the seeds:")[1]
    reader = read(page(collect(tmp_path)))
    assert [" ".join(cell.split()) for cell in reader.cells["zinc"][1][-1]] == ["SMP", "—", "1.150"]


def test_what_was_chosen_when_test_values_were_known_is_marked(tmp_path: Path) -> None:
    table, cells = "cycle_detection", ("4 12", "4 20")
    write(
        tmp_path,
        *(made(table, row, cell, 0, 99.0) for row in ("SMP", "GIN") for cell in cells),
        made("cycle_detection_parts", "without row means", "4 12", 0, 99.0),
        made("properties_parts", "SMP", "average", 0, -3.0),
    )
    report = collect(tmp_path)
    tables = {one.table.name: one for one in report.tables}
    reason = TABLES[table].row("SMP").after_test
    assert tables[table].after_test == {"SMP": reason}
    assert tables["cycle_detection_parts"].after_test == {"SMP": reason}  # a row of the other
    assert list(tables["properties_parts"].after_test) == ["SMP"]
    text = markdown(report)
    assert text.count("| SMP † |") == 2 + 2 + 2  # test and validation values
    assert text.count(f"† SMP: chosen when test values were known: {reason}.") == 2
    assert "† All rows: chosen when test values were known: the loss;" in text
    assert page(report).count(f"† SMP: chosen when test values were known: {reason}.") == 2


def test_costs_are_a_line_a_row(tmp_path: Path) -> None:
    table = "cycle_detection"
    write(
        tmp_path,
        made(table, "SMP", "4 12", 0, 99.0, parameters=1234, wall_time_s=6.0, peak_memory_mib=20.0),
        made(table, "SMP", "8 72", 0, 99.0, parameters=5678, epochs=4, peak_memory_mib=3000.0),
        made(table, "SMP", "8 72", 1, 99.0, parameters=5678, wall_time_s=9.0, jobs=1),
    )
    text = markdown(collect(tmp_path))
    assert (
        "| SMP | 3 | 1,234–5,678 | 3–4 | 2–7.5 | 20–3,000 (whole process) "
        "| a processor, 1–2 side by side |\n"
    ) in text
    assert text.count("| a processor") == 1


def test_numbers_in_words() -> None:
    assert signed(0.04, 1) == "0.0"
    assert signed(-0.06, 1) == "−0.1"
    assert signed(1.0, 2) == "+1.00"


def test_curves_are_means_over_seeds_as_far_as_all_go() -> None:
    one = made("zinc", "SMP", "no edge features", 0, 1.0)
    two = replace(one, curves=Curves((1.0, 2.0), (0.5, 0.2), (40.0, 60.0), (1.0, 2.0)))
    found = mean_curve("SMP", [one, two], "validation")
    assert found.points == ((1.0, 50.0, 40.0, 60.0), (2.0, 70.0, 60.0, 80.0))
    assert mean_curve("SMP", [one], "train_loss").points[0] == (1.0, 0.7, 0.7, 0.7)


def test_no_two_methods_of_a_table_look_alike() -> None:
    for table in TABLES.values():
        colours = {STYLES[row.name] % COLOURS for row in table.rows}
        assert len(colours) == min(COLOURS, len(table.rows))
        looks = {(STYLES[row.name] % COLOURS, STYLES[row.name] % 3) for row in table.rows}
        assert len(looks) == len(table.rows)


def test_strange_files_are_named(tmp_path: Path) -> None:
    results = write_results(tmp_path)
    (results / "benchmarks" / "bad.json").write_text("{")
    with pytest.raises(InputError, match=r"bad\.json: cannot be read"):
        collect(results)
    (results / "benchmarks" / "bad.json").unlink()
    record = made("zinc", "SMP", "no edge features", 0, 1.0)
    write(results, replace(record, row="Nobody"))
    with pytest.raises(InputError, match="record 'zinc', 'Nobody', 'no edge features': no table"):
        collect(results)
