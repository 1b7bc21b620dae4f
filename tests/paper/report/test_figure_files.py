"""Figures that stand on the page and, as files, beside the Markdown."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from cli.commands import done
from paper.experiments.made_records import made, write
from paper.report.page_reader import read

from smpgnn.pages.charts import svg_file
from smpgnn.paper.experiments.records import BySize
from smpgnn.paper.experiments.tables import TABLES
from smpgnn.paper.report.collect import collect
from smpgnn.paper.report.curves import figures
from smpgnn.paper.report.render import markdown, page


def test_larger_graphs_are_a_figure_and_a_table(tmp_path: Path) -> None:
    report = collect(tmp_path)
    assert figures(report) == {}
    assert "Larger graphs" not in page(report) + markdown(report)
    sizes = (15, 20, 25), (19, 24, 29)
    write(
        tmp_path,
        *(
            made("graph_properties", row, cell.name, seed, -3.5,
                 by_size=BySize(*sizes, (-3.5, -2.5 + seed, -1.0 + start)))
            for start, row in enumerate(("GIN", "SMP"))
            for cell in TABLES["graph_properties"].cells
            for seed in (0, 1)
        ),
    )  # fmt: skip
    report = collect(tmp_path)
    text = page(report)
    read(text)
    assert text.count("<h3>Larger graphs than in training</h3>") == 1
    part = text.split("<h3>Larger graphs than in training</h3>")[1].split("<details>")[0]
    assert part.count("<svg") == 7
    assert part.count(">GIN</text>") == part.count(">SMP</text>") == 7
    assert part.count(">nodes (mean of five sizes)</text>") == part.count(">log10 MSE</text>") == 7
    assert part.count("opacity: 0.15") == 2 * 7  # bands
    shown = markdown(report)
    assert "| log10 MSE, average | 15–19 nodes | 20–24 nodes | 25–29 nodes |" in shown
    assert "| GIN | −3.50 | −2.00 | −1.00 |" in shown
    assert "| SMP | −3.50 | −2.00 | 0.00 |" in shown
    assert shown.count("](figures/extrapolation.svg)") == 1
    svg = ElementTree.fromstring(svg_file(figures(report)["extrapolation.svg"]))
    assert svg.tag == "{http://www.w3.org/2000/svg}svg"
    words = [element.text for element in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"average", "GIN", "SMP", "log10 MSE"} <= set(words)
    page_file, tables = tmp_path / "r.html", tmp_path / "docs" / "results.md"
    found = done("paper", "report", "--results", tmp_path, "-o", page_file, "--markdown", tables)
    assert "figures/extrapolation.svg" in found.out
    drawn = (tmp_path / "docs/figures/extrapolation.svg").read_text()
    assert {"extrapolation.svg": drawn} == {n: svg_file(c) for n, c in figures(report).items()}


def test_a_size_at_which_numbers_overflow_is_named(tmp_path: Path) -> None:
    for seed, last in enumerate((float("nan"), -1.0)):
        sizes = BySize((15, 20), (19, 24), (-3.5, last))
        record = made("graph_properties", "Fast SMP", "average", seed, -3.5, by_size=sizes)
        write(tmp_path, record)
    report = collect(tmp_path)
    assert "| Fast SMP | −3.50 | overflow |\n\noverflow: for at least one seed" in markdown(report)
    assert "nan" not in svg_file(figures(report)["extrapolation.svg"])


def test_losses_are_drawn_with_the_time_of_an_epoch(tmp_path: Path) -> None:
    assert "Training curves of" not in markdown(collect(tmp_path))
    write(
        tmp_path,
        *(
            made("cycle_detection", row, cell, seed, 99.0)
            for row, cell in (("SMP", "4 36"), ("SMP", "6 56"), ("PPGN", "4 36"))
            for seed in (0, 1)
        ),
    )
    report = collect(tmp_path)
    files = figures(report)
    assert list(files) == ["loss-4-36.svg", "loss-6-56.svg"]
    words = [
        element.text for element in ElementTree.fromstring(svg_file(files["loss-4-36.svg"])).iter()
    ]
    assert {"SMP", "PPGN", "training NLL (nat)"} <= set(words)
    head, *rows = read(page(report)).cells["training_curves"][0]
    assert [" ".join(c.split()) for c in head] == [
        "time per epoch",
        "k=4, n=36",
        "k=6, n=56",
        "k=8, n=72",
    ]
    record = report.records[0]
    time = f"{record.seconds_per_epoch:.3g} s"
    beside = f"{record.jobs} side by side"
    shown = {row[0].strip(): [" ".join(cell.split()) for cell in row[1:]] for row in rows}
    assert shown["SMP"] == [f"{time} {beside}", f"{time} {beside}", "—"]
    assert shown["Ring-GNN"] == ["—"] * 3
    text = markdown(report)
    assert f"| PPGN | {time} ({beside}) | — | — |" in text
    assert all(f"](figures/{name})" in text for name in files)
