"""smpgnn paper report."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from smpgnn.cli.interrupts import importing
from smpgnn.cli.outputs import prepare_file

EXAMPLES = (
    "smpgnn paper report",
    "smpgnn paper report --results results --output report.html --markdown docs/results.md",
)


def add_report(verbs: Any) -> None:
    """Declare the verb and its options."""
    parser = verbs.add_parser(
        "report",
        help="one page with all tables beside the paper's",
        description="Build one self-contained HTML page from the records: every table beside the "
        "paper's numbers, training curves, time and memory, and the settings of each run.",
        epilog="examples:\n" + "\n".join(f"  {line}" for line in EXAMPLES),
    )
    add = parser.add_argument
    add("--results", metavar="D", default="results", help="folder with the records")
    add("-o", "--output", metavar="FILE", default="report.html", help="page to write")
    add("--markdown", metavar="FILE", help="also write the tables as Markdown")
    parser.set_defaults(parser=parser, command=report)


def report(arguments: argparse.Namespace) -> int:
    with importing():
        from smpgnn.files import write_texts
        from smpgnn.pages.charts import svg_file
        from smpgnn.paper.report.collect import collect
        from smpgnn.paper.report.curves import figures
        from smpgnn.paper.report.render import FIGURES, markdown, page

    content = collect(arguments.results)
    prepare_file(arguments.output)
    if arguments.markdown is not None:
        prepare_file(arguments.markdown)
    texts = {arguments.output: page(content)}
    notes = [f"{len(content.records)} records: {arguments.output}"]
    if arguments.markdown is not None:
        texts[arguments.markdown] = markdown(content)
        notes.append(f"tables: {arguments.markdown}")
        for name, chart in figures(content).items():
            figure = str(Path(arguments.markdown).parent / FIGURES / name)
            prepare_file(figure)
            texts[figure] = svg_file(chart)
            notes.append(f"figure: {figure}")
    write_texts(texts)
    print("\n".join(notes))
    return 0
